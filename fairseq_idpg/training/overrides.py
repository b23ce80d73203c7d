"""Options whose text is Python, which here is read and never run: --model-overrides, and pairs of numbers."""

import ast
import contextlib
from typing import Any

from preprocess.flags import flag_name

from ..errors import InputError
from ..saving.configuration import check_overrides, shown
from .kept_options import FIXED

# options that fairseq evaluates, with an example
PAIRS = {"adam_betas": "(0.9, 0.98)", "adamax_betas": "(0.9, 0.999)", "adafactor_eps": "(1e-30, 1e-3)"}


def literal(text: str) -> Any:
    """Return the value that a text is as Python writes it, and None for any other text."""
    with contextlib.suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return ast.literal_eval(text)
    return None


def parse_pair(option: str, text: str) -> tuple[float, float]:
    """Return the two numbers of one of ``PAIRS``.

    Raises:
        InputError: it is no pair of shares.
    """
    with contextlib.suppress(TypeError, ValueError):  # of other values than two numbers
        first, second = literal(text)
        if 0 <= first < 1 and 0 <= second < 1:
            return float(first), float(second)
    flag, example = flag_name(option), PAIRS[option]
    raise InputError(f"{flag} {text:.80} is no pair of shares: give two below 1, such as '{example}'")


def parse_overrides(text: str | None) -> dict[str, Any]:
    """Return what --model-overrides says, as fairseq-validate takes it.

    Raises:
        InputError: it is no dictionary, or would make another model of what was trained; see ``check_overrides``.
    """
    what = f"--model-overrides {text}"
    found = {} if text is None else literal(text)
    if not isinstance(found, dict):
        raise InputError(f"{what} is no dictionary: write \"{{'backbone': 'NEW/model.pt'}}\"")
    check_overrides(found, what)
    for given in (found, found.get("model", {})):
        trained = next((name for name in given if name in FIXED["model"]), None)
        if trained is not None:
            raise InputError(f"{what}: {shown(trained)} is what the model was trained with: leave it out")
    return found
