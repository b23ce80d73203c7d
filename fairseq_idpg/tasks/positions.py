"""Where the prompt enters an example (IDPG Figure 6), and how sentences are cut to the room that it leaves.

For ``<s> A </s> </s> B </s>`` and ``<s> A </s>`` with a = len(A), b = len(B), the prompt is inserted before index

| position | pair                             | single                      |
|----------|----------------------------------|-----------------------------|
| 0        | 1, after ``<s>``                 | 1                           |
| 1        | 1 + a, before the first ``</s>`` | 1 + a                       |
| 2        | 3 + a, before B                  | error                       |
| 3        | 3 + a + b, before the last one   | error                       |
| 4        | 4 + a + b, after the end         | 2 + a                       |

At position 4 the rows stand between two extra separators: ``</s> prompt </s>``. Pairs joined without a separator
token (``<s> A </s> B </s>``) have one index less from position 2 on.

Differs from the released code in: the same table for every row of a batch, padded or not; the released code
inserts at inconsistent places on single sentences and masks the wrong tokens at position 4.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..errors import InputError

logger = logging.getLogger(__name__)

POSITIONS = (0, 1, 2, 3, 4)
SINGLE_POSITIONS = (0, 1, 4)
END = 4
SHORTER = "a shorter prompt, or a shorter --template if there is one"

Lengths = Sequence[np.ndarray]  # N tokens of the first sentences; of pairs also N of the second ones


def check_tokens(cfg: Any, dictionary: Dictionary) -> None:
    """Raise InputError unless --init-token is ``<s>`` and a --separator-token is in the dictionary and no padding."""
    if cfg.init_token != dictionary.bos():
        raise InputError(f"--init-token {cfg.init_token} is not <s>, which begins sentences: give {dictionary.bos()}")
    separator = cfg.separator_token
    if separator is not None and (separator == dictionary.pad() or not 0 <= separator < len(dictionary)):
        raise InputError(f"--separator-token {separator} is padding or no symbol: give 2 for </s>, or 0 for <s>")


def check_position(position: int, pairs: bool, template: bool = False) -> None:
    """Raise InputError unless an input has the position; a template makes one text of both sentences."""
    allowed = POSITIONS if pairs and not template else SINGLE_POSITIONS
    if position not in allowed:
        inputs = " with --predict-with mlm" if template else "" if pairs else " of single sentences (no input1)"
        raise InputError(f"--prompt-position {position}{inputs} is unknown: give {', '.join(map(str, allowed))}")


def insertion_index(position: int, lengths: Lengths, separators: int = 2) -> np.ndarray:
    """Return the index in front of which the prompt enters each of N examples, see the table above.

    ``separators`` counts the ``</s>`` between A and B: 2, or 1 without --separator-token.
    """
    check_position(position, len(lengths) == 2)
    a, *b = lengths
    start = np.ones_like(a)
    last = start + a + separators + b[0] if b else start + a  # the closing </s>
    return [start, start + a, start + a + separators, last, last + 1][position]


def prompt_block(position: int, prompt_length: int, placeholder: int, separator: int) -> Tensor:
    """Return the inserted tokens: placeholders, between separators at position 4; nothing without a prompt."""
    ends = [separator] if position == END and prompt_length else []
    return torch.tensor([*ends, *[placeholder] * prompt_length, *ends], dtype=torch.long)


def kept_lengths(lengths: Lengths, room: int) -> list[np.ndarray]:
    """Return how many tokens of each sentence fit into ``room`` together; the longer one is cut first."""
    if len(lengths) == 1:
        return [np.minimum(lengths[0], room)]
    a, b = lengths
    kept_a = np.minimum(a, np.maximum(room - b, room - room // 2))
    return [kept_a, np.minimum(b, room - kept_a)]


@dataclass
class Shortener:
    """Cuts the sentences of each example to their kept lengths.

    ``<s> A </s> [</s>] B </s>``: the special tokens stay. With ``random`` the kept window of a sentence changes with
    the epoch (fairseq's random_crop); else it is the sentence's beginning (fairseq's truncate).

    Differs from fairseq, which cuts the joined tokens and so loses the last ``</s>`` and, of long pairs, all of B.
    """

    lengths: Lengths
    kept: Lengths
    separators: int
    random: bool
    seed: int
    epoch: int = 1

    @property
    def words(self) -> int:
        """Tokens of an example that belong to no sentence."""
        return 2 + self.separators * (len(self.kept) == 2)

    @property
    def sizes(self) -> np.ndarray:
        """N, tokens of each example once it is cut."""
        return np.sum(self.kept, axis=0) + self.words

    @property
    def cut(self) -> np.ndarray:
        """N, whether an example loses tokens."""
        return np.any([kept < whole for kept, whole in zip(self.kept, self.lengths)], axis=0)

    @property
    def arrangement(self) -> list[Any]:
        """What changes the tokens; it takes part in the names of cache files."""
        return [*self.kept, None][:2]

    def spans(self, lengths: Lengths, index: int) -> Iterator[tuple[int, int]]:
        """Yield start and length of each sentence of an example."""
        start = 1
        for length in (int(each[index]) for each in lengths):
            yield start, length
            start += length + self.separators

    def __call__(self, tokens: Tensor, index: int) -> Tensor:
        """Return the example's tokens (1-D) with its sentences cut."""
        kept_here = [int(kept[index]) for kept in self.kept]
        spans = list(self.spans(self.lengths, index))
        if kept_here == [length for _, length in spans]:
            return tokens
        keep = torch.ones(len(tokens), dtype=torch.bool)
        # The seed of fairseq's ``numpy_seed``, for a generator that the threads which load data do not share.
        draw = np.random.RandomState(int(hash((self.seed, self.epoch, index)) % 1e6)) if self.random else None
        for (start, length), kept in zip(spans, kept_here):
            first = 0 if draw is None else draw.randint(0, length - kept + 1)
            keep[start : start + length] = False
            keep[start + first : start + first + kept] = True
        return tokens[keep]


def separators(cfg: Any) -> int:
    """Return how many ``</s>`` stand between the sentences of a pair."""
    return 1 if cfg.separator_token is None else 2


def text_room(cfg: Any, pairs: bool, prompt_length: int, rows: int, words: int | None = None) -> int:
    """Return the tokens of text that fit beside special tokens and a prompt; raise InputError where none do.

    ``rows``: tokens that the prompt adds, with separators around it; ``words``: tokens of a template, with ``<s>`` and
    ``</s>``, if the sentences stand in one.
    """
    room = cfg.max_positions - (2 + separators(cfg) * pairs if words is None else words) - rows
    if room < (2 if pairs else 1):
        raise InputError(f"--prompt-length {prompt_length} fills --max-positions {cfg.max_positions}: give {SHORTER}")
    return room


def fit(cfg: Any, split: str, lengths: Lengths, prompt_length: int, rows: int, words: int | None = None) -> Shortener:
    """Return what cuts the sentences of a split to ``text_room``; raise InputError where one may not be cut."""
    room = text_room(cfg, len(lengths) == 2, prompt_length, rows, words)
    together = np.sum(lengths, axis=0)
    too_long = np.flatnonzero(together > room)
    method, only = str(cfg.shorten_method), cfg.shorten_data_split_list
    if len(too_long) and (method == "none" or only and split not in only.split(",")):
        remedy = "--shorten-method truncate" if method == "none" else f"--shorten-data-split-list {only},{split}"
        raise InputError(
            f"{len(too_long)} examples of split {split} are too long: the first, number {too_long[0] + 1}, has "
            f"{together[too_long[0]]} tokens, and --max-positions {cfg.max_positions} with --prompt-length "
            f"{prompt_length} leaves room for {room}: give {remedy} (predict: --truncate) or {SHORTER}"
        )
    if len(too_long):
        logger.warning("split %s: shortening %d examples to %d tokens of text", split, len(too_long), room)
    return Shortener(lengths, kept_lengths(lengths, room), separators(cfg), method == "random_crop", cfg.seed)
