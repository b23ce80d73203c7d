"""Examples put into a template: what ``Shortener`` is for sentences alone."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .shortening import Shortener
from .template import Template


def split_sentences(tokens: Tensor, a: int, b: int | None, separators: int) -> list[Tensor]:
    """A and B of ``<s> A </s> [</s>] B </s>``, given their lengths; A alone of ``<s> A </s>``."""
    before_b = 1 + a + separators
    return [tokens[1 : 1 + a]] + ([] if b is None else [tokens[before_b : before_b + b]])


class Phrased:
    """Puts the sentences of each example into a template, cut to the room that its words leave.

    Args:
        template: in tokens.
        a, b: N, lengths of the sentences of the data; ``b`` None for single ones.
        shorten: cuts them, as long as they are in their places.
    """

    def __init__(self, template: Template, a: np.ndarray, b: np.ndarray | None, shorten: Shortener):
        self.template = template
        self.a = a
        self.b = b
        self.shorten = shorten

    @property
    def epoch(self) -> int:
        return self.shorten.epoch

    @epoch.setter
    def epoch(self, epoch: int) -> None:
        self.shorten.epoch = epoch

    @property
    def kept(self) -> list[np.ndarray]:
        """N lengths of each sentence, once it is cut."""
        kept = [self.shorten.kept_a, self.shorten.kept_b]
        return [lengths for lengths in kept if lengths is not None]

    @property
    def sizes(self) -> np.ndarray:
        """N, tokens of each example."""
        return np.sum(self.kept, axis=0) + self.template.words

    @property
    def cut(self) -> np.ndarray:
        """As ``Shortener`` has it."""
        return self.shorten.cut

    @property
    def arrangement(self) -> list[Any]:
        """As ``Shortener`` has it."""
        return [*self.shorten.arrangement, self.template.parts, self.template.spaced]

    @property
    def mask_index(self) -> np.ndarray:
        """N, the index of ``<mask>`` in each example."""
        return self.template.mask_index(self.kept)

    def __call__(self, tokens: Tensor, index: int) -> Tensor:
        """``<s> A </s> [</s>] B </s>`` -> the example's tokens."""
        separators, kept_b = self.shorten.separators, self.shorten.kept_b
        sentences = split_sentences(tokens, self.a[index], None if self.b is None else self.b[index], separators)
        placed = [self.template.place(number, sentence) for number, sentence in enumerate(sentences)]
        between = tokens.new_full((separators if self.b is not None else 0,), self.template.end)
        joined = torch.cat([tokens[:1], placed[0], between, *placed[1:], tokens[-1:]])
        cut = self.shorten(joined, index)
        kept = self.shorten.kept_a[index], None if kept_b is None else kept_b[index]
        return self.template.join(split_sentences(cut, *kept, separators))


class Placed(NamedTuple):
    """N examples and their template: ``a``, ``b`` are N lengths of their sentences in their places in it."""

    template: Template
    a: np.ndarray
    b: np.ndarray | None


def in_places(template: Template, own: Sequence[np.ndarray], orders: Sequence[Sequence[Any]]) -> Placed:
    """The template, with the lengths that sentences have in their places in it.

    Args:
        own: N lengths of the first sentences, with pairs of the second ones too.
        orders: the tokens of these sentences, closed by ``</s>``: one data set for each place. Exchanged pairs are a
            second such list in the other order, whose examples follow the first's.
    """
    lengths = [
        lengths_in_place(template, number, [order[number] for order in orders]) if number in template.spaced else alone
        for number, alone in enumerate(own)
    ]
    return Placed(template, lengths[0], lengths[1] if len(own) == 2 else None)


def lengths_in_place(template: Template, number: int, texts: Sequence[Any]) -> np.ndarray:
    """Lengths that the sentences of all data sets ``texts`` have in the place of the sentence ``number``."""
    rows = (text[i][:-1] for text in texts for i in range(len(text)))
    return np.asarray([len(template.place(number, row)) for row in rows], np.int64)
