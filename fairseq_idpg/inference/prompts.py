"""The prompt that each input gets, and the words that its rows resemble."""

from typing import Any, List, Optional

from torch import Tensor

from ..backbone.injection import Injection, filled_fields
from ..errors import InputError
from .prediction import PromptRow
from .vocabulary import NearestWords

SLOTS = ("input", "late")  # whose rows are states of their own; others are added to states, or keys and values


class SeenRows:
    """Looks at what one pass injects, and keeps the rows that enter first. For ``inspect`` of the model.

    Attributes:
        rows: B x t x d (or 1 x t x d), once the pass is over.
    """

    def __init__(self) -> None:
        self.rows: Optional[Tensor] = None

    def __call__(self, injection: Injection) -> Injection:
        filled = filled_fields(injection)
        changed = {name: self._kept(filled[name]) for name in SLOTS if name in filled}
        return Injection(**{**filled, **changed})

    def _kept(self, rows: Any) -> Any:
        if not callable(rows):
            self._see(rows)
            return rows

        def make(*states: Any) -> Optional[Tensor]:
            made = rows(*states)
            self._see(made)
            return made

        return make

    def _see(self, rows: Optional[Tensor]) -> None:
        if self.rows is None:
            self.rows = rows


def check_has_rows(model: Any) -> None:
    """Raises InputError for a method whose prompt, if it has one, is no rows of the input or joining it late."""
    if model.method is None or not set(SLOTS) & set(model.method.slots):
        raise InputError(
            f"prompts: --method {model.args.method} has no prompt rows that stand among the words: leave prompts out"
        )


def prompt_rows(rows: Tensor, nearest: NearestWords, top: int) -> List[PromptRow]:
    """t x d -> each row with its ``top`` nearest words."""
    cosines, ids = nearest.find(rows.to(nearest.directions), top, "words")
    words = [list(map(nearest.vocabulary.word, near)) for near in ids.tolist()]
    return [PromptRow(row, list(zip(*pair))) for row, *pair in zip(rows, words, cosines.tolist())]
