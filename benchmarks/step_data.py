"""The batches of benchmarks/step_time.py: drawn from a seed, the same for every case."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partialmethod
from typing import Any

import numpy as np
import torch
from step_settings import LONGEST, SHORTEST, Settings
from torch import Tensor

VOCAB, PAD, BOS, EOS, MASK = 50265, 1, 0, 2, 50264
SPECIALS = 4  # <s>, <pad>, </s>, <unk>
PERIOD = 2**16
Batch = tuple[Tensor, Tensor]  # tokens, B x T, and labels, B
Order = Callable[[np.ndarray, np.ndarray], np.ndarray]


def examples(count: int, mean: int, spread: float) -> list[np.ndarray]:
    """Rows ``<s> A </s>`` with lengths from N(mean, spread x mean), cut off at 0.3 and 1.5 times the mean."""
    draw = np.random.RandomState(0)
    lengths = np.rint(draw.normal(mean, spread * mean, count))
    lengths = np.clip(lengths, max(2, round(SHORTEST * mean)), round(LONGEST * mean)).astype(int)
    rows = [draw.randint(SPECIALS, MASK, length) for length in lengths]
    for row in rows:
        row[0], row[-1] = BOS, EOS
    return rows


def batches(settings: Settings, order: Order | None = None) -> list[Batch]:
    """The steps' batches, padded to the longest row of each; ``order`` as the task's data sets have it."""
    size = settings.batch
    rows = examples(size * settings.steps, settings.length, settings.length_spread)
    labels = np.random.RandomState(1).randint(0, 2, len(rows))
    index = np.arange(len(rows))
    if order is not None:
        index = order(index, np.array([len(row) for row in rows]))
    found = []
    for start in range(0, len(rows), size):
        chosen = index[start : start + size]
        tokens = [torch.from_numpy(rows[i].astype(np.int64)) for i in chosen]
        padded = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True, padding_value=PAD)
        found.append((padded, torch.from_numpy(labels[chosen].astype(np.int64))))
    return found


def prompted(tokens: Tensor, length: int) -> Tensor:
    """Placeholders of the prompt after ``<s>`` (position 0), as the task inserts them."""
    block = torch.full((len(tokens), length), MASK, dtype=tokens.dtype)
    return torch.cat([tokens[:, :1], block, tokens[:, 1:]], 1)


def fingerprints(found: list[Batch]) -> Any:
    """(of the batches in their order, of their examples in any order)"""
    rows = [
        (row[row.ne(PAD)].numpy().tobytes(), int(label))
        for tokens, labels in found
        for row, label in zip(tokens, labels)
    ]
    shapes = [tuple(tokens.shape) for tokens, _ in found]
    return _digest((rows, shapes)), _digest(sorted(rows))


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


@contextmanager
def repeated_draws() -> Iterator[None]:
    """Tensors of more than PERIOD numbers get as many draws again and again.

    fairseq draws RoBERTa's weights on the CPU, three times, which takes longer at its large size than a GPU needs for
    many steps; their values are all the same to a clock.
    """
    draws = {name: getattr(Tensor, name) for name in ("normal_", "uniform_")}
    for name, draw in draws.items():
        setattr(Tensor, name, partialmethod(_repeated, draw))
    try:
        yield
    finally:
        for name, draw in draws.items():
            setattr(Tensor, name, draw)


def _repeated(tensor: Tensor, draw: Callable[..., Tensor], *args: Any, **given: Any) -> Tensor:
    if tensor.numel() <= PERIOD or not tensor.is_contiguous():
        return draw(tensor, *args, **given)
    drawn, flat = draw(tensor.new_empty(PERIOD), *args, **given), tensor.view(-1)
    whole = len(flat) // PERIOD * PERIOD
    flat[:whole].view(-1, PERIOD).copy_(drawn)
    flat[whole:].copy_(drawn[: len(flat) - whole])
    return tensor
