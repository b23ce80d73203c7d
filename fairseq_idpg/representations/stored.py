"""Where batches find the M(x) that a model reads: rows of the data folder, rows of a cache, or nowhere."""

import functools
import logging
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..errors import InputError
from .cache import CacheKey, RepresentationCache, SplitText, backbone_key, precision_of
from .kinds import GLOVE, LAST_STATES, canonical_kind
from .word_vectors import load_vectors

logger = logging.getLogger(__name__)


class Stored(Protocol):
    """M(x) of the examples of a split."""

    def rows(self, index: np.ndarray) -> np.ndarray | None:
        """n example numbers -> n x w, or None when they are not there (yet)."""


def stored_representations(task_cfg: Any, model: Any) -> Callable[[SplitText], Stored] | None:
    """What finds the rows of a split; None where the model computes M(x) in every pass, or reads none.

    Raises:
        InputError: M(x) changes in training, so that a cache would lie.
    """
    if task_cfg.representation_cache and check_cacheable(task_cfg, model):
        return functools.partial(find_cache, task_cfg, model)
    if model.method is None or model.method.representation != GLOVE:
        return None
    return lambda text: load_vectors(text.data, text.split, model.args.representation_width, text.combine)


def check_cacheable(task_cfg: Any, model: Any) -> bool:
    """Whether the model reads an M(x) that can be cached.

    Raises:
        InputError: M(x) changes in training, so that a cache would lie.
    """
    method, cfg = model.method, model.args
    if method is None or method.representation in (None, GLOVE, LAST_STATES):
        last = method is not None and method.representation == LAST_STATES
        reads = "reads the states of all tokens" if last else "computes no M(x)"
        logger.info(f"--representation-cache is not used: --method {cfg.method} {reads}")
        return False
    if not model.backbone_loaded:
        logger.info(
            f"--representation-cache is not used: its rows are named by --backbone {cfg.backbone}, which is missing"
        )
        return False
    for changes, option in (
        (cfg.no_freeze_backbone, "--no-freeze-backbone"),
        (model.trains_encoder, f"--method {cfg.method}, which trains weights of the backbone"),
        (method.representation_dropout, "--representation-dropout"),
        (str(task_cfg.shorten_method) == "random_crop", "--shorten-method random_crop"),
    ):
        if changes:
            raise InputError(f"--representation-cache with {option}: M(x) changes in training, leave one of them out")
    return True


def find_cache(task_cfg: Any, model: Any, text: SplitText) -> RepresentationCache:
    """The cache of a split for the M(x) that a model reads."""
    precision = functools.partial(precision_of, model)
    key = CacheKey(
        backbone=backbone_key(model),
        tokens=text.digest(),
        kind=canonical_kind(model.method.representation),
        rows=text.examples * text.copies,
        width=model.args.encoder_embed_dim,
        dtype=str(task_cfg.representation_cache_dtype),
        precision=precision(),
    )
    return RepresentationCache(task_cfg.representation_cache, key, precision)
