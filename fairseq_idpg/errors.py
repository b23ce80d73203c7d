"""How bad input is reported."""


class InputError(SystemExit):
    """Bad input from the user: one line naming the option or file, its value and the remedy.

    A ``SystemExit``, as ``argparse`` raises: the command line prints the line without a traceback and ends
    with status 1, and the line also passes through fairseq's ``except Exception`` around checkpoint loading,
    which would otherwise replace it by a general one.
    """

    def __init__(self, message: str):
        super().__init__(f"fairseq_idpg: {message}")
