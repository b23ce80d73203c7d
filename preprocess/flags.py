"""Options of command lines: how their names are typed, and the kinds of values that they take."""

from __future__ import annotations

import argparse
from pathlib import Path

LARGEST_SEED = 2**32 - 1  # numpy's


def flag_name(name: str) -> str:
    """``prompt_length`` -> ``--prompt-length``."""
    return "--" + name.replace("_", "-")


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def random_seed(text: str) -> int:
    """What numpy takes for one, for argparse."""
    if not text.isdecimal() or int(text) > LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 2^32 - 1")
    return int(text)


def learning_rate(text: str) -> float:
    """A number above 0 that is finite, for argparse."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no learning rate: write a positive number such as 1e-3")
    return number


def named_path(text: str) -> Path:
    """A path, for argparse; the empty text of a shell's variable that is not set would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("is empty: name a path")
    return Path(text)
