"""Computing the rows of a cache that are missing, before the first step reads them."""

import contextlib
import logging
from typing import Callable, Iterator, Optional

import numpy as np
import torch
from fairseq.models.roberta.model import RobertaEncoder
from torch import Tensor
from tqdm import tqdm

from .cache import RepresentationCache
from .kinds import sentence_representation
from .stored import Stored

logger = logging.getLogger(__name__)
TOKENS_AT_A_TIME = 8192


def fill_cache(
    stored: Optional[Stored],
    encoder: RobertaEncoder,
    tokens_of: Callable[[np.ndarray], Tensor],
    sizes: np.ndarray,
    split: str,
) -> None:
    """Computes the missing rows in large batches of similar length, without gradient; nothing to do without a cache.

    What is there is opened here, so that it is compared with its checksum once, not by each data loader process.

    Args:
        tokens_of: n example numbers -> n x T tokens, padded, as ``encoder`` reads them.
        sizes: N, tokens of each example.
        split: its name, for the log.
    """
    if not isinstance(stored, RepresentationCache):
        return
    if stored.complete:
        stored.open()
        return
    device = next(encoder.parameters()).device
    bar = tqdm(total=len(sizes), desc=f"M(x) of {split}", unit=" examples", disable=None, leave=False)

    def encode(index: np.ndarray) -> Tensor:
        tokens = tokens_of(index)
        bar.update(len(index))
        padded = bool(tokens.eq(encoder.dictionary.pad()).any())
        return sentence_representation(encoder, tokens.to(device), kind=stored.key.kind, padded=padded)

    with bar, exact_products():
        stored.fill(encode, length_sorted_batches(sizes, TOKENS_AT_A_TIME))
    logger.info(f"split {split}: M(x) of {len(sizes):,} examples in {stored.path('npy')}")


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
