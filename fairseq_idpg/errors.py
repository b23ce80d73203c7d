"""How bad input is reported, here as in ``preprocess``."""

import contextlib
from typing import Iterator

from preprocess.errors import InputError

__all__ = ["PREPROCESS", "InputError", "reading_data"]

PREPROCESS = "preprocess it again (README: data)"


@contextlib.contextmanager
def reading_data() -> Iterator[None]:
    """Around reading of a data folder: a file that cannot be read is bad input."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror}): {PREPROCESS}") from None
