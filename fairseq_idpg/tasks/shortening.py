"""Fitting sentences into the room that the prompt leaves, without losing ``<s>``, ``</s>`` or the prompt."""

from dataclasses import dataclass
from typing import Optional, Tuple

import numpy as np
import torch
from fairseq.data import data_utils
from torch import Tensor


def kept_lengths(a: np.ndarray, b: Optional[np.ndarray], room: int) -> Tuple[np.ndarray, Optional[np.ndarray]]:
    """How many tokens of A and B are kept so that they fit ``room`` together; the longer one gives way first."""
    if b is None:
        return np.minimum(a, room), None
    half = room // 2
    kept_a = np.minimum(a, np.maximum(room - b, room - half))
    return kept_a, np.minimum(b, room - kept_a)


@dataclass
class Shortener:
    """Cuts A and B of each example to their kept lengths.

    ``<s> A </s> [</s>] B </s>``: the special tokens stay. ``random`` takes a window that changes with the epoch
    (fairseq's random_crop), else the head of each sentence is kept (fairseq's truncate).

    Differs from fairseq, which cuts the joined tokens and so loses the last ``</s>`` and, of long pairs, all of B.
    """

    a: np.ndarray
    b: Optional[np.ndarray]
    kept_a: np.ndarray
    kept_b: Optional[np.ndarray]
    separators: int
    random: bool
    seed: int
    epoch: int = 1

    def __call__(self, tokens: Tensor, index: int) -> Tensor:
        """The example's tokens (1-D) with A and B cut."""
        spans = [(1, self.a[index], self.kept_a[index])]
        if self.b is not None:
            spans.append((1 + self.a[index] + self.separators, self.b[index], self.kept_b[index]))
        if all(length == kept for _, length, kept in spans):
            return tokens
        keep = torch.ones(len(tokens), dtype=torch.bool)
        with data_utils.numpy_seed(self.seed, self.epoch, index):
            for start, length, kept in spans:
                first = np.random.randint(0, length - kept + 1) if self.random else 0
                keep[start : start + length] = False
                keep[start + first : start + first + kept] = True
        return tokens[keep]
