"""Fitting sentences into the room that the prompt leaves, without losing ``<s>``, ``</s>`` or the prompt."""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError

logger = logging.getLogger(__name__)


def kept_lengths(a: np.ndarray, b: np.ndarray | None, room: int) -> tuple[np.ndarray, np.ndarray | None]:
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
    b: np.ndarray | None
    kept_a: np.ndarray
    kept_b: np.ndarray | None
    separators: int
    random: bool
    seed: int
    epoch: int = 1

    @property
    def sizes(self) -> np.ndarray:
        """Tokens of each example once it is cut."""
        special = special_tokens(self.kept_b is not None, self.separators)
        return self.kept_a + special + (0 if self.kept_b is None else self.kept_b)

    @property
    def cut(self) -> np.ndarray:
        """N, whether an example loses tokens."""
        cut = self.kept_a < self.a
        return cut if self.b is None else cut | (self.kept_b < self.b)

    @property
    def arrangement(self) -> list[Any]:
        """What changes the tokens, for the names of what is computed from them."""
        return [self.kept_a, self.kept_b]

    def __call__(self, tokens: Tensor, index: int) -> Tensor:
        """The example's tokens (1-D) with A and B cut."""
        spans = [(1, self.a[index], self.kept_a[index])]
        if self.b is not None and self.kept_b is not None:
            spans.append((1 + self.a[index] + self.separators, self.b[index], self.kept_b[index]))
        if all(length == kept for _, length, kept in spans):
            return tokens
        keep = torch.ones(len(tokens), dtype=torch.bool)
        draw = self.generator(index) if self.random else None
        for start, length, kept in spans:
            first = 0 if draw is None else draw.randint(0, length - kept + 1)
            keep[start : start + length] = False
            keep[start + first : start + first + kept] = True
        return tokens[keep]

    def generator(self, index: int) -> np.random.RandomState:
        """What fairseq's ``numpy_seed`` draws from, but of its own: threads load data, and numpy's is one for all."""
        return np.random.RandomState(int(hash((self.seed, self.epoch, index)) % 1e6))


def special_tokens(pairs: bool, separators: int) -> int:
    """``<s>`` and ``</s>`` of an example."""
    return 2 + separators if pairs else 2


def separators(cfg: Any) -> int:
    """``</s>`` between the sentences of a pair."""
    return 1 if cfg.separator_token is None else 2


def text_room(cfg: Any, pairs: bool, prompt_length: int, rows: int, words: int | None = None) -> int:
    """Tokens of text that an example may have beside special tokens and a prompt.

    Args:
        cfg: the task's options.
        rows: tokens that the prompt adds, separators around it counted.
        words: tokens of a template, with ``<s>`` and ``</s>``, if the sentences stand in one.

    Raises:
        InputError: there is no room.
    """
    room = cfg.max_positions - (special_tokens(pairs, separators(cfg)) if words is None else words) - rows
    if room < (2 if pairs else 1):
        raise InputError(
            f"--prompt-length {prompt_length} leaves no room for text within --max-positions {cfg.max_positions}: give "
            f"{shorter(words)}"
        )
    return room


def shorter(words: int | None) -> str:
    """What leaves more room, for errors."""
    return "a shorter prompt" if words is None else "a shorter prompt or --template"


def fit(
    cfg: Any,
    split: str,
    a: np.ndarray,
    b: np.ndarray | None,
    prompt_length: int,
    rows: int,
    words: int | None = None,
) -> Shortener:
    """What cuts the sentences of a split to the room that a prompt leaves; nothing is ever cut silently.

    Args:
        cfg, rows, words: see ``text_room``.
        a, b: N lengths of the sentences; ``b`` None for single ones.

    Raises:
        InputError: there is no room, or an example that is too long may not be cut.
    """
    room = text_room(cfg, b is not None, prompt_length, rows, words)
    lengths = a if b is None else a + b
    too_long = np.flatnonzero(lengths > room)
    method, only = str(cfg.shorten_method), cfg.shorten_data_split_list
    if len(too_long) and (method == "none" or only and split not in only.split(",")):
        remedy = "--shorten-method truncate" if method == "none" else f"--shorten-data-split-list {only},{split}"
        raise InputError(
            f"{len(too_long)} examples of split {split} are too long: the first, line {too_long[0] + 1}, has "
            f"{lengths[too_long[0]]} tokens, and --max-positions {cfg.max_positions} with --prompt-length "
            f"{prompt_length} leaves room for {room}: give {remedy} (predict: --truncate) or "
            f"{shorter(words)}"
        )
    if len(too_long):
        logger.warning("split %s: shortening %d examples to %d tokens of text", split, len(too_long), room)
    return Shortener(a, b, *kept_lengths(a, b, room), separators(cfg), method == "random_crop", cfg.seed)


@contextlib.contextmanager
def whole_sentences(cfg: Any) -> Iterator[None]:
    """Keep fairseq from cutting the joined tokens: ``Shortener`` cuts each sentence instead."""
    method = cfg.shorten_method
    try:
        cfg.shorten_method = "none"
        yield
    finally:
        cfg.shorten_method = method
