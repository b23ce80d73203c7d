"""Errors of bad input, and how a command reports them."""

import argparse
import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

from preprocess.errors import InputError, command_line

__all__ = [
    *("PREPROCESS", "InputError", "ModelFault", "ModelLost", "add_log_level", "check_there", "command_parser"),
    *("logged_command", "reading_data"),
]

PREPROCESS = "preprocess it again (README: data)"


class ModelFault(InputError):
    """The model is at fault, not the input that it was given."""


class ModelLost(ModelFault):
    """The model can answer nothing any more."""


class LogLevel(argparse.Action):
    """Sets the level of messages as soon as the option is read."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        logging.getLogger().setLevel(values.upper())


def add_log_level(parser: argparse.ArgumentParser) -> None:
    levels = ("debug", "info", "warning")
    parser.add_argument("--log-level", choices=levels, action=LogLevel, help="messages on stderr (default: warning)")


def command_parser(name: str, doc: str | None, example: str) -> argparse.ArgumentParser:
    """Return the parser of ``python -m fairseq_idpg.NAME``; its module's docstring describes it up to a colon."""
    description = (doc or "").split(":")[0]
    parser = argparse.ArgumentParser(
        f"python -m fairseq_idpg.{name}", description=description, epilog=f"example: %(prog)s {example}"
    )
    add_log_level(parser)
    return parser


def check_there(option: str, path: str) -> None:
    """Raise InputError where nothing stands at a path."""
    if not os.path.exists(path):
        raise InputError(f"{option} {path} does not exist: give the path of one that does")


@contextlib.contextmanager
def logged_command() -> Iterator[None]:
    """Run a command of this package: warnings go to stderr, bad input becomes one line, see ``command_line``."""
    logging.basicConfig(level=logging.WARNING)
    with command_line("fairseq_idpg"):
        yield


@contextlib.contextmanager
def reading_data() -> Iterator[None]:
    """Raise InputError instead of OSError for a file of a data folder that cannot be read."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror}): {PREPROCESS}") from None
