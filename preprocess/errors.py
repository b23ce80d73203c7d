"""How bad input is reported."""


class DataError(Exception):
    """Bad input: one line naming the option or file, the value and the remedy. The command line prints it."""
