"""Options of command lines: how their names are typed, and the kinds of numbers that they take."""

from __future__ import annotations

import argparse

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
