"""Computing the rows of a cache that are missing, before the first step reads them."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from ..out_of_memory import WITHOUT_GPU, refuse_batch
from .cache import RowCache
from .kinds import evaluating

logger = logging.getLogger(__name__)
TOKENS_AT_A_TIME = 8192


def fill_cache(
    cache: Any, model: Any, tokens_of: Callable[[np.ndarray], Tensor], sizes: np.ndarray, split: str
) -> None:
    """Compute missing rows in large batches of similar length, without dropout or gradient.

    What is there is opened here, so that it is compared with its checksum once, not by each data loader process.

    Args:
        cache: a ``RowCache``; there is nothing to do for rows of another kind, or None.
        model: ``roberta_idpg``, whose backbone computes them.
        tokens_of: n example numbers -> n x T tokens, padded, as the backbone reads them.
        sizes: N, tokens of each example.
        split: its name, for the log.

    Raises:
        InputError: see ``RowCache``; a batch does not fit into memory.
        ModelLost: somebody has written into the backbone's file; what was computed since then is not kept.
    """
    if not isinstance(cache, RowCache):
        return
    if cache.complete:
        cache.open()
        return
    device, pad = next(model.encoder.parameters()).device, model.encoder.dictionary.pad()
    bar = tqdm(total=len(sizes), desc=f"{cache.what} of {split}", unit=" examples", disable=None, leave=False)

    def encode(index: np.ndarray) -> Tensor:
        tokens = tokens_of(index)
        bar.update(len(index))
        with refuse_batch(tokens, WITHOUT_GPU, f"{cache.option}, split {split}: "):
            rows = cache.compute(model, index, tokens.to(device), bool(tokens.eq(pad).any()))
        model.check_backbone()
        return rows

    with bar, exact_products(), evaluating(model.encoder), torch.no_grad():
        cache.fill(encode, length_sorted_batches(sizes, TOKENS_AT_A_TIME))
    logger.info(f"split {split}: {cache.what} of {len(sizes):,} examples in {cache.path('npy')}")


@contextlib.contextmanager
def exact_products() -> Iterator[None]:
    """Matrix products of float32 in float32, also where the process allows coarser ones (TF32)."""
    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(allowed)


def length_sorted_batches(sizes: np.ndarray, max_tokens: int) -> Iterator[np.ndarray]:
    """All example numbers, longest first (so that memory does not run out later), padded to at most ``max_tokens``."""
    order = np.argsort(-sizes, kind="stable")
    start = 0
    while start < len(order):
        count = max(1, max_tokens // max(1, int(sizes[order[start]])))
        yield order[start : start + count]
        start += count
