"""The states of all tokens that enter layer k of the frozen backbone, kept on disk, so that training begins there.

k is the first layer in which, or in front of which, anything is trained or injected. In a file the tokens of all
examples follow one another; where an example begins is known from the lengths of the texts.
"""

import functools
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..names import as_typed
from .cache import CacheKey, RowCache, SplitText, cache_key, precision_of

logger = logging.getLogger(__name__)
EXACT = "model"


class StateCache(RowCache):
    """The states of a ``split`` that enter a ``layer``: d numbers for each token of each example.

    ``rounded``: whether the file keeps them in float16, whatever the backbone's precision is.
    """

    option, what, exact = "--state-cache", "states", EXACT

    def __init__(
        self,
        folder: str,
        key: CacheKey,
        lengths: np.ndarray,
        precision: Callable[[], str],
        split: str,
        layer: int,
        rounded: bool,
    ):
        super().__init__(folder, key, lengths, precision)
        self.split, self.layer, self.rounded = split, layer, rounded

    def key_in(self, precision: str) -> CacheKey:
        return replace(super().key_in(precision), dtype="float16" if self.rounded else precision)

    def compute(self, model: Any, index: np.ndarray, tokens: Tensor, padded: bool) -> Tensor:
        states = model.encoder.sentence_encoder.states_before(self.layer, tokens, padded).transpose(0, 1)
        # which are no pads is numbered here: a device would be waited for
        of_text = np.arange(tokens.size(1)) < np.diff(self.starts)[index, None]
        return states.flatten(0, 1).index_select(0, torch.from_numpy(np.flatnonzero(of_text)).to(states.device))

    def batch(self, index: np.ndarray, length: int) -> Tensor | None:
        """T x B x d: the states of some examples, zeros behind them up to ``length``; None while not complete."""
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
    """Return what finds the states of a split, its texts having so many tokens each; None without --state-cache.

    ``training``: whether dropout will be on. Raise InputError where no states stay the same.
    """
    if not task_cfg.state_cache:
        return None
    # what makes one pass give something else below that layer than another
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
                f"--state-cache with {options}: not every pass would give the same below layer {model.first_layer}: "
                "leave one of them out (a dropout: give 0)"
            )
    return functools.partial(find_state_cache, task_cfg, model)


def find_state_cache(task_cfg: Any, model: Any, text: SplitText, lengths: np.ndarray) -> StateCache:
    """The states of a split that enter the first layer of ``model`` that does more than the frozen backbone's."""
    layer, rounded = model.first_layer, str(task_cfg.state_cache_dtype) == "float16"
    dtype = "float16" if rounded else precision_of(model)
    key = cache_key(model, text, f"states before layer {layer}", int(lengths.sum()), dtype)
    precision = functools.partial(precision_of, model)
    return StateCache(task_cfg.state_cache, key, lengths, precision, text.split, layer, rounded)


def tell_sizes(caches: Iterable[StateCache]) -> None:
    """Say how much room the files will take that are not there yet."""
    for cache in caches:
        if not cache.complete:
            key, number = cache.key, getattr(torch, cache.key.dtype).itemsize
            logger.info(
                f"--state-cache {cache.folder}: states that enter layer {cache.layer}, split {cache.split}: "
                f"{len(cache.starts) - 1:,} examples, {key.rows:,} tokens x {key.width} x {number} bytes = "
                f"{key.rows * key.width * number / 1e9:.3f} GB"
            )
