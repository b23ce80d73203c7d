"""How bad input is reported, here as in ``preprocess``."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator

from preprocess.errors import InputError, command_line, escaped

__all__ = ["PREPROCESS", "InputError", "ModelFault", "ModelLost", "logged_command", "reading_data"]

PREPROCESS = "preprocess it again (README: data)"


class ModelFault(InputError):
    """A model, not what it was asked, is at fault."""


class ModelLost(ModelFault):
    """It can answer nothing any more."""


class EscapedLines(logging.Formatter):
    """Messages without the control characters that texts and names of files may have."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(map(escaped, super().format(record).split("\n")))


@contextlib.contextmanager
def logged_command(level: int = logging.INFO) -> Iterator[None]:
    """Around a command of this package: messages go to stderr, bad input becomes one line, see ``command_line``."""
    if sys.stderr is None:  # closed, and bars of progress are drawn there
        sys.stderr = open(os.devnull, "w")
    handler = logging.StreamHandler()
    handler.setFormatter(EscapedLines(logging.BASIC_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])
    with command_line("fairseq_idpg"):
        yield


@contextlib.contextmanager
def reading_data() -> Iterator[None]:
    """Around reading of a data folder: raise InputError instead of OSError for a file that cannot be read."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror}): {PREPROCESS}") from None
