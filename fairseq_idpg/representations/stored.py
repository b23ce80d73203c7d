"""Where batches find the M(x) that a model reads: word vectors of the data folder, rows of a cache, or nowhere."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from preprocess.data_folder import DataFolder, joined
from preprocess.glove import REMEDY, read_facts, read_means

from ..errors import InputError
from .cache import RepresentationCache, SplitText, cache_key
from .kinds import GLOVE, LAST_STATES, canonical_kind

logger = logging.getLogger(__name__)


@dataclass
class WordVectors:
    """The means that ``python -m preprocess glove`` left, read from the disk when they are used."""

    vectors: np.ndarray  # N x w

    def rows(self, index: np.ndarray) -> np.ndarray:
        """Return n x w of n example numbers; an exchanged pair, numbered from N on, has the words of its pair."""
        return self.vectors[index % len(self.vectors)]


# M(x) of the examples of a split; ``rows``: n example numbers -> n x w, or None while the cache is not complete
Stored = WordVectors | RepresentationCache


def vectors_width(data: str, option: int | None) -> int:
    """Return --representation-width, by default the width of the folder's vectors; InputError if it has none."""
    width = read_facts(Path(data))["dim"]
    return option or width


def load_vectors(data: str, split: str, width: int, combine: bool = False) -> WordVectors:
    """Return the vectors in ``DATA/glove/SPLIT.npy``; ``combine``: and of split1, split2 ..., as fairseq reads them."""
    folder = DataFolder(Path(data))
    splits = joined(split, folder.splits) if combine else [split]
    parts = [read_means(folder, name) for name in splits]
    shapes = [(len(folder.rows("input0", name)), width) for name in splits]
    for name, part, shape in zip(splits, parts, shapes):
        if part.shape != shape:
            raise InputError(
                f"{data}/glove/{name}.npy has shape {part.shape}, not {shape}, examples x --representation-width: "
                f"leave the option out, or {REMEDY} {data} --overwrite"
            )
    return WordVectors(parts[0] if len(parts) == 1 else np.concatenate(parts))


def stored_representations(task_cfg: Any, model: Any) -> Callable[[SplitText], Stored] | None:
    """Return what finds the rows of a split; None where the model computes M(x) in every pass, or reads none."""
    if task_cfg.representation_cache and check_cacheable(task_cfg, model):
        kind, dtype = canonical_kind(model.method.representation), str(task_cfg.representation_cache_dtype)

        def find(text: SplitText) -> RepresentationCache:
            key = cache_key(model, text, kind, text.examples * text.copies, dtype)
            return RepresentationCache(task_cfg.representation_cache, key)

        return find
    if model.method is None or model.method.representation != GLOVE:
        return None
    return lambda text: load_vectors(text.data, text.split, model.args.representation_width, text.combine)


def check_cacheable(task_cfg: Any, model: Any) -> bool:
    """Return whether the model reads an M(x) that can be cached; raise InputError where M(x) changes in training."""
    method, cfg = model.method, model.args
    reason = None
    if method is None or method.representation in (None, GLOVE):
        reason = f"--method {cfg.method} computes no M(x)"
    elif method.representation == LAST_STATES:
        reason = f"--method {cfg.method} reads the states of all tokens"
    elif not model.backbone_loaded:
        reason = f"its rows are named by --backbone {cfg.backbone}, which is missing"
    if reason:
        logger.info(f"--representation-cache is not used: {reason}")
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
