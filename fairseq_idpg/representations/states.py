"""The states of all tokens that enter layer k of the frozen backbone, kept on disk, so that training begins there.

k is the first layer in which, or in front of which, anything is trained or injected. In a file the tokens of all
examples follow one another; where an example begins is known from the lengths of the texts.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..names import as_typed
from .cache import CacheKey, RowCache, SplitText, cache_key, precision_of

EXACT = "model"  # the --state-cache-dtype


class StateCache(RowCache):
    """The states that enter a ``layer``, d numbers for each token; ``rounded``: kept in float16 in any case."""

    option, exact = "--state-cache", EXACT

    def __init__(self, folder: str, key: CacheKey, lengths: np.ndarray, layer: int, rounded: bool):
        super().__init__(folder, key, lengths)
        self.layer, self.unrounded, self.what = layer, not rounded, f"states that enter layer {layer}"

    def compute(self, model: Any, index: np.ndarray, tokens: Tensor, padded: bool) -> Tensor:
        states = model.encoder.sentence_encoder.states_before(self.layer, tokens, padded).transpose(0, 1)
        # The CPU numbers the tokens that are not pads: the step would wait for a GPU's answer.
        of_text = np.arange(tokens.size(1)) < np.diff(self.starts)[index, None]
        return states.flatten(0, 1).index_select(0, torch.from_numpy(np.flatnonzero(of_text)).to(states.device))

    def batch(self, index: np.ndarray, length: int) -> Tensor | None:
        """Return T x B x d, the states of some examples and zeros up to ``length``; None while not complete."""
        rows = self.opened()
        if rows is None:
            return None
        states = np.zeros((length, len(index), rows.shape[1]), rows.dtype)
        for place, (start, end) in enumerate(zip(self.starts[index], self.starts[index + 1])):
            states[: end - start, place] = rows[start:end]
        return torch.from_numpy(states).view(getattr(torch, self.key.dtype))


def find_state_caches(
    task_cfg: Any, model: Any, training: bool
) -> Callable[[SplitText, np.ndarray], StateCache] | None:
    """Return what finds a split's states by the lengths of its texts; ``training``: dropout is on."""
    if not task_cfg.state_cache:
        return None
    cfg = model.args
    drawn = [name for name in ("dropout", "attention_dropout", "activation_dropout") if training and getattr(cfg, name)]
    for changes, options in (
        (cfg.no_freeze_backbone, "--no-freeze-backbone"),
        (not model.backbone_loaded, f"--backbone {cfg.backbone}, which is missing"),
        (not model.first_layer, f"--method {cfg.method}, which enters or trains what lies below layer 1"),
        (str(task_cfg.shorten_method) == "random_crop", "--shorten-method random_crop"),
        (drawn, " ".join(as_typed(cfg, name) for name in drawn)),
    ):
        if changes:
            raise InputError(
                f"--state-cache with {options}: states below layer {model.first_layer} would differ from pass to pass: "
                "leave one of them out (a dropout: give 0)"
            )
    layer, rounded = model.first_layer, str(task_cfg.state_cache_dtype) == "float16"

    def find(text: SplitText, lengths: np.ndarray) -> StateCache:
        dtype = "float16" if rounded else precision_of(model)
        key = cache_key(model, text, f"states before layer {layer}", int(lengths.sum()), dtype)
        return StateCache(task_cfg.state_cache, key, lengths, layer, rounded)

    return find
