"""Errors of bad input, and how a command reports them."""

import argparse
import contextlib
import logging
from collections.abc import Iterator

from preprocess.errors import InputError, command_line

__all__ = ["PREPROCESS", "InputError", "ModelFault", "ModelLost"]
__all__ += ["command_parser", "logged_command", "reading_data", "refused"]

PREPROCESS = "preprocess it again (README: data)"


class ModelFault(InputError):
    """The model is at fault, not the input that it was given."""


class ModelLost(ModelFault):
    """The model can answer nothing any more."""


def refused(argument: str, problem: str) -> InputError:
    """Return the error for an argument of a function of Python."""
    return InputError(f"`{argument}` {problem}")


def command_parser(name: str, doc: str | None, example: str) -> argparse.ArgumentParser:
    """Return the parser of ``python -m fairseq_idpg.NAME``; its module's docstring describes it up to a colon."""
    description = (doc or "").split(":")[0]
    return argparse.ArgumentParser(
        f"python -m fairseq_idpg.{name}", description=description, epilog=f"example: %(prog)s {example}"
    )


@contextlib.contextmanager
def logged_command(level: int = logging.INFO) -> Iterator[None]:
    """Run a command of this package: messages go to stderr, bad input becomes one line, see ``command_line``."""
    logging.basicConfig(level=level)
    with command_line("fairseq_idpg"):
        yield


@contextlib.contextmanager
def reading_data() -> Iterator[None]:
    """Raise InputError instead of OSError for a file of a data folder that cannot be read."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror}): {PREPROCESS}") from None
