"""The representation cache of a task's data sets: what its rows depend on, and filling it."""

import logging
from pathlib import Path
from typing import Any, Iterable, Optional

import numpy as np
import torch
from tqdm import tqdm

from preprocess.checksums import sha256

from ..backbone.cache import CacheKey, RepresentationCache, digest_of, length_sorted_batches
from ..backbone.representation import GLOVE, sentence_representation
from ..errors import InputError
from .prompted_dataset import PromptedDataset

logger = logging.getLogger(__name__)
TOKENS_AT_A_TIME = 8192


def check_cacheable(task_cfg: Any, model: Any) -> bool:
    """Whether the model reads an M(x) that can be cached.

    Raises:
        InputError: M(x) changes in training, so that a cache would lie.
    """
    method, cfg = model.method, model.args
    if method is None or method.representation in (None, GLOVE):
        logger.info(f"--representation-cache is not used: --method {cfg.method} computes no M(x)")
        return False
    for changes, option in (
        (cfg.no_freeze_backbone, "--no-freeze-backbone"),
        (method.trains_layer_norms, "--train-layer-norms true"),
        (method.representation_dropout, "--representation-dropout"),
        (str(task_cfg.shorten_method) == "random_crop", "--shorten-method random_crop"),
    ):
        if changes:
            raise InputError(f"--representation-cache with {option}: M(x) changes in training, leave one of them out")
    return True


def token_digest(data: str, split: str, inputs: Iterable[str], combine: bool, arrangement: Iterable[Any]) -> str:
    """Fingerprint of the token rows of a split: its files, and how they are joined, cut and exchanged."""
    files = []
    for part in inputs:
        more = sorted(Path(data, part).glob(f"{split}[0-9]*.bin")) if combine else []
        files += [Path(data, part, f"{split}.bin"), *more]
    parts = [sha256(file).encode() for file in files]
    parts += [part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode() for part in arrangement]
    return digest_of(iter(parts))


def open_cache(task_cfg: Any, model_key: dict, tokens: str, rows: int) -> RepresentationCache:
    """The cache of a split; ``model_key`` holds what the key needs to know of the model."""
    dtype = str(task_cfg.representation_cache_dtype)
    key = CacheKey(tokens=tokens, rows=rows, dtype=dtype, **model_key)
    return RepresentationCache(task_cfg.representation_cache, key)


def fill_cache(dataset: PromptedDataset, model: Any, split: str) -> None:
    """Computes the rows of a split that are missing, in large batches of similar length, without gradient.

    What is there is opened here, so that it is compared with its checksum once, not by each data loader process.
    """
    cache: Optional[RepresentationCache] = getattr(dataset, "representations", None)
    if not isinstance(cache, RepresentationCache):
        return
    if cache.complete:
        cache.open()
        return
    device = next(model.parameters()).device
    bar = tqdm(total=len(dataset), desc=f"M(x) of {split}", unit=" examples", disable=None, leave=False)

    def encode(index: np.ndarray) -> torch.Tensor:
        tokens = dataset.raw_tokens(index).to(device)
        bar.update(len(index))
        return sentence_representation(model.encoder, tokens, kind=cache.key.kind)

    with bar:
        cache.fill(encode, length_sorted_batches(dataset.sizes, TOKENS_AT_A_TIME))
    logger.info(f"split {split}: M(x) of {len(dataset):,} examples in {cache.path('npy')}")
