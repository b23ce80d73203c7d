"""Command lines: how options are typed, the kinds of values that they take, and the tables that are printed."""

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

from .errors import escaped

LARGEST_SEED = 2**32 - 1  # numpy's


def flag_name(name: str) -> str:
    """``prompt_length`` -> ``--prompt-length``."""
    return "--" + name.replace("_", "-")


def positive(text: str) -> int:
    """Parse a whole number above 0, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def random_seed(text: str) -> int:
    """Parse a seed that numpy takes, for argparse."""
    if not text.isdecimal() or int(text) > LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 2^32 - 1")
    return int(text)


def positive_number(text: str) -> float:
    """Parse a finite number above 0, for argparse."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number above 0, such as 1e-3")
    return number


def named_path(text: str) -> Path:
    """Parse a path, for argparse; an empty text, as of an unset shell variable, would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("is empty: name a path")
    return Path(text)


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Return lines of a table; columns whose numbers are in ``left`` are flush left, the others right."""
    rows = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    sides = [str.ljust if column in left else str.rjust for column in range(len(widths))]
    return ["  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths)).rstrip() for row in rows]
