"""The prompts that each input gets, and the words that their rows resemble."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..backbone.injection import Injection, filled_fields
from ..errors import InputError
from .prediction import PromptRow
from .vocabulary import NearestWords

SLOTS = ("input", "late")  # whose rows stand in the sequence; those of "hidden" are for the places of "input"

LayerRows = tuple[int, Tensor]  # the layer that reads the rows, counted as by --prompt-layers, and B (or 1) x t x d


class SeenRows(list[LayerRows]):
    """All prompt rows of one pass, from the input up. For ``inspect`` of the model."""

    def __call__(self, injection: Injection) -> Injection:
        filled = filled_fields(injection)
        if isinstance(filled.get("input"), Tensor):
            self.append((0, filled["input"]))
        makers = {slot: filled[slot] for slot in (*SLOTS, "hidden") if callable(filled.get(slot))}
        watched: dict[str, Any] = {slot: partial(self._make, slot, maker) for slot, maker in makers.items()}
        return replace(injection, **watched)

    def _make(self, slot: str, maker: Any, *at: Any) -> Any:
        made = maker(*at)
        if made is not None:
            # the input's rows are made from (states), others from (layer, states); "hidden" stands behind its layer
            self.append((0 if slot == "input" else at[0] + (slot == "hidden"), made))
        return made


def check_has_rows(model: Any) -> None:
    """Raise InputError for a method whose prompt, if it has one, has no rows in the sequence."""
    if model.method is None or not set(SLOTS) & set(model.method.slots):
        raise InputError(
            f"prompts: --method {model.args.method} has no prompt rows that stand among the words: leave prompts out"
        )


def prompt_rows(seen: list[LayerRows], number: int, nearest: NearestWords, top: int) -> list[PromptRow]:
    """The rows of the input with this number in its batch, each with its ``top`` nearest words."""
    layers = [layer for layer, rows in seen for _ in rows[number]]
    vectors = torch.cat([rows[number] for _, rows in seen])
    cosines, ids = nearest.find(vectors.to(nearest.directions), top, "words")
    words = [list(map(nearest.vocabulary.word, near)) for near in ids.tolist()]
    near = [list(zip(*pair)) for pair in zip(words, cosines.tolist())]
    return [PromptRow(*row) for row in zip(vectors, near, layers)]
