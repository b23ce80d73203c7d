"""--model-overrides: options in the place of those that a checkpoint was saved with."""

import ast
from typing import Any

from ..errors import InputError
from ..saving.configuration import check_overrides, shown
from .kept_options import FIXED


def parse_overrides(text: str | None) -> dict[str, Any]:
    """What the option says, as fairseq-validate takes it; nothing in it is executed.

    Raises:
        InputError: it is no dictionary, or would make another model of what was trained; see ``check_overrides``.
    """
    what = f"--model-overrides {text}"
    try:
        found = dict(ast.literal_eval("{}" if text is None else text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise InputError(f"{what} is no dictionary: write \"{{'backbone': 'NEW/model.pt'}}\"") from None
    check_overrides(found, what)
    for given in (found, found.get("model", {})):
        trained = next((name for name in given if name in FIXED["model"]), None)
        if trained is not None:
            raise InputError(f"{what}: {shown(trained)} is what the model was trained with: leave it out")
    return found
