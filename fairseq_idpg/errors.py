"""Errors of bad input, and how a command reports them."""

import argparse
import contextlib
import logging
import os
import re
from collections.abc import Iterator

from preprocess.errors import InputError as InputError
from preprocess.errors import command_line

PREPROCESS = "preprocess it again (preprocess/README.md)"


class ModelFault(InputError):
    """The model is at fault, not the input that it was given."""


class ModelLost(ModelFault):
    """The model can answer nothing any more."""


def refused(argument: str, problem: str) -> InputError:
    """Return the InputError for a bad argument of a Python function."""
    return InputError(f"`{argument}` {problem}")


def level(name: str) -> str:
    """Show log messages of this level and above; for argparse."""
    logging.getLogger().setLevel(name.upper())
    return name


def add_log_level(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--log-level", type=level, choices=("debug", "info", "warning"), help="messages on stderr (default: warning)")


def command_parser(name: str, doc: str | None, example: str) -> argparse.ArgumentParser:
    """Return the parser of ``python -m fairseq_idpg.NAME``; its module's docstring describes it up to a colon."""
    description = (doc or "").split(":")[0]
    parser = argparse.ArgumentParser(
        f"python -m fairseq_idpg.{name}", description=description, epilog=f"example: %(prog)s {example}"
    )
    add_log_level(parser)
    return parser


HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)  # of a folder on the Hugging Face hub


def is_hub_name(path: str) -> bool:
    """Return whether a path does not exist and may be a name on the hub, USER/NAME."""
    return bool(HUB_NAME.fullmatch(path)) and not path.endswith(".pt") and not os.path.lexists(path)


def check_there(option: str, *paths: str | None) -> None:
    for path in paths:
        if path is not None and not os.path.exists(path):
            raise InputError(f"{option} {path} does not exist: give the path of one that does")


@contextlib.contextmanager
def logged_command() -> Iterator[None]:
    """Run a command of this package: warnings go to stderr, bad input becomes one line, see ``command_line``."""
    logging.basicConfig(level=logging.WARNING)
    with command_line("fairseq_idpg"):
        yield
