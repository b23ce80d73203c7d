"""The representation cache of a task's data sets: what its rows depend on, and filling it.

Rows are computed in the precision of the backbone's weights and kept apart by it, so they do not depend on who filled
the cache: float32 for runs in float32 and with --amp, half precision for --fp16 and --bf16. A run without a cache
computes the same M(x) in batches of other shapes, so that its numbers differ by rounding; with --amp also because its
training steps compute M(x) partly in half precision.
"""

import contextlib
import functools
import logging
from pathlib import Path
from typing import Any, Iterable, Iterator, Optional

import numpy as np
import torch
from tqdm import tqdm

from preprocess.checksums import sha256

from ..errors import InputError
from ..tasks.prompted_dataset import PromptedDataset
from .cache import CacheKey, RepresentationCache, digest_of, length_sorted_batches
from .kinds import GLOVE, canonical_kind, sentence_representation

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
    if not model.backbone_loaded:
        logger.info(
            f"--representation-cache is not used: its rows are named by --backbone {cfg.backbone}, which is missing"
        )
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


def open_cache(task_cfg: Any, model: Any, tokens: str, rows: int) -> RepresentationCache:
    """The cache of a split for the M(x) that a model reads."""
    precision = functools.partial(precision_of, model)
    key = CacheKey(
        backbone=model.backbone_digest,
        tokens=tokens,
        kind=canonical_kind(model.method.representation),
        rows=rows,
        width=model.args.encoder_embed_dim,
        dtype=str(task_cfg.representation_cache_dtype),
        precision=precision(),
    )
    return RepresentationCache(task_cfg.representation_cache, key, precision)


def precision_of(model: Any) -> str:
    """``float32``, ``float16`` or ``bfloat16``: what the backbone's weights are at the moment."""
    return str(next(model.encoder.parameters()).dtype).replace("torch.", "")


@contextlib.contextmanager
def exact_products() -> Iterator[None]:
    """Matrix products of float32 in float32, also where the process allows coarser ones (TF32)."""
    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(allowed)


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

    with bar, exact_products():
        cache.fill(encode, length_sorted_batches(dataset.sizes, TOKENS_AT_A_TIME))
    logger.info(f"split {split}: M(x) of {len(dataset):,} examples in {cache.path('npy')}")
