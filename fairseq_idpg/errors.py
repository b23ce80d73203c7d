"""How bad input is reported."""

from preprocess.errors import InputError

__all__ = ["InputError"]
