"""In which order examples are put into batches, and how much padding that costs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..names import TRAIN

BUCKET = 1600  # examples that are sorted among themselves: 100 batches of 16


def by_length(order: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Longest first: batches need little padding, and memory does not run out late."""
    return order[np.argsort(-sizes[order], kind="stable")]


def grouped_by_length(order: np.ndarray, sizes: np.ndarray, bucket: int = BUCKET) -> np.ndarray:
    """A shuffled order, sorted by length within buckets: batches of similar examples, still drawn at random."""
    buckets = [order[start : start + bucket] for start in range(0, len(order), bucket)]
    return np.concatenate([by_length(part, sizes) for part in buckets]) if buckets else order


def arrangement(cfg: Any, split: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """What changes fairseq's order of a split's examples, (order, sizes) -> order; None where it stays.

    Training keeps fairseq's shuffled order, grouped by length on request. Elsewhere the order changes no result, so
    examples go by length.
    """
    if cfg.no_shuffle:
        return None
    if not split.startswith(TRAIN):
        return by_length
    return grouped_by_length if cfg.group_by_length else None


def padding_waste(batches: Sequence[np.ndarray], sizes: np.ndarray) -> float:
    """Share of pads among all tokens of the batches."""
    padded = sum(len(batch) * int(sizes[batch].max()) for batch in batches if len(batch))
    tokens = sum(int(sizes[batch].sum()) for batch in batches if len(batch))
    return 1 - tokens / padded if padded else 0.0


def share_of_batch(total: int, processes: int, update_freq: Sequence[int]) -> int:
    """--batch-size of one process, such that every update sees ``total`` examples.

    Raises:
        InputError: they cannot be shared out evenly.
    """
    parts = processes * update_freq[0]
    if len(set(update_freq)) > 1:
        raise InputError(f"--total-batch-size goes with one --update-freq, not {list(update_freq)}: give one number")
    if total < 1 or total % parts:
        raise InputError(
            f"--total-batch-size {total} cannot be shared by {processes} processes with --update-freq "
            f"{update_freq[0]}: give a multiple of {parts}"
        )
    return total // parts


def share_of_tokens(total: int, parts: int, longest: int) -> int:
    """--max-tokens of one of the ``parts`` of an update, so that an update holds ``total``; no less than an example."""
    return max(total // parts, min(total, longest))
