"""Texts as several tasks read them, run once for all tasks through the backbone that these share."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.data import data_utils
from torch import Tensor

from ..backbone.grouped import Group, GroupedPass
from ..backbone.injection import NO_ROOM, NOTHING, Injection, Room, States
from ..representations.kinds import GLOVE, canonical_kind, sentence_representation
from ..tasks.dataset import PromptedDataset
from .predictor import Input, Predictor

Item = dict[str, Any]


class Reading(NamedTuple):
    """N texts as one task reads them.

    Attributes:
        means: N x w, M(x) of a task that reads word vectors.
        cut: N, whether a text was too long and lost its end.
    """

    task: str
    predictor: Predictor
    inputs: list[Input]
    examples: PromptedDataset
    means: Tensor | None
    cut: np.ndarray

    @property
    def kind(self) -> str:
        """What M(x) is computed for it; empty for none."""
        method = self.predictor.model.method
        kind = (None if method is None else method.representation) or GLOVE
        return "" if kind == GLOVE else canonical_kind(kind)


class Representations:
    """M(x) of texts, computed once for each kind and each sequence of tokens.

    Args:
        numbers: kind -> tokens -> number of their row.
        rows: kind -> U x d, or the ``States`` of U.
    """

    def __init__(self, numbers: dict[str, dict[bytes, int]], rows: dict[str, Any]):
        self.numbers = numbers
        self.rows = rows

    def of(self, kind: str, texts: Sequence[Tensor]) -> Any:
        """n x d (or ``States``) of n texts of the kind."""
        rows = self.rows[kind]
        index = torch.tensor([self.numbers[kind][key(tokens)] for tokens in texts])
        if not isinstance(rows, States):
            return rows[index]
        return States(rows.x[:, index], None if rows.padding is None else rows.padding[index])


def key(tokens: Tensor) -> bytes:
    """Equal for equal tokens."""
    return tokens.numpy().tobytes()


def texts_of(items: Sequence[Item]) -> list[Tensor]:
    """The raw tokens of some examples."""
    return [item["net_input.src_tokens"] for item in items]


class JointPass:
    """Passes of texts through one backbone, for the tasks of ``readings``.

    Args:
        owner: has the backbone that all of them share.
    """

    def __init__(self, owner: Predictor, readings: Sequence[Reading]):
        self.owner = owner
        self.encoder = owner.model.encoder
        self.device = owner.device
        self.pad = self.encoder.dictionary.pad()
        self.readings = readings

    def represent(self, items: dict[str, list[Item]], size: int) -> Representations:
        """M(x) of a batch, ``items`` of each task; ``size``: texts that are run together."""
        numbers: dict[str, dict[bytes, int]] = {}
        texts: dict[str, list[Tensor]] = {}
        for reading in self.readings:
            if not reading.kind:
                continue
            seen, unique = numbers.setdefault(reading.kind, {}), texts.setdefault(reading.kind, [])
            for tokens in texts_of(items[reading.task]):
                if seen.setdefault(key(tokens), len(seen)) == len(unique):
                    unique.append(tokens)
        return Representations(numbers, {kind: self._computed(kind, unique, size) for kind, unique in texts.items()})

    @torch.no_grad()
    def _computed(self, kind: str, texts: list[Tensor], size: int) -> Any:
        """U x d, or the ``States`` of U texts."""
        tokens = data_utils.collate_tokens(texts, self.pad)
        padded = bool(tokens.eq(self.pad).any())
        parts = []
        for some in tokens.split(size):
            with self.owner.batch_of(some):
                parts.append(sentence_representation(self.encoder, some.to(self.device), kind=kind, padded=padded))
        if not isinstance(parts[0], States):
            return torch.cat(parts)
        return States(torch.cat([p.x for p in parts], 1), torch.cat([p.padding for p in parts]) if padded else None)

    @torch.no_grad()
    def logits(self, rows: Sequence[list[Item]], numbers: list[int], known: Representations) -> list[Tensor]:
        """n x classes logits of each task for the same n texts, whose ``rows`` each task has.

        Args:
            numbers: n, of the texts.
            known: M(x) of these and other texts.
        """
        batches = [reading.examples.collater(items)["net_input"] for reading, items in zip(self.readings, rows)]
        groups: list[Group] = []
        for reading, items, batch in zip(self.readings, rows, batches):
            begin = len(groups) * len(numbers)
            injection = self._injection(reading, items, numbers, known)
            groups.append(Group(begin, begin + len(numbers), injection, self._room(reading, batch)))
        features = self._features([batch.get("prompted_tokens", batch["src_tokens"]) for batch in batches], groups)
        heads = (reading.predictor.head for reading in self.readings)
        return [head(features[group.begin : group.end]).float().cpu() for head, group in zip(heads, groups)]

    def _injection(self, reading: Reading, items: list[Item], numbers: list[int], known: Representations) -> Injection:
        """What the task's method injects into its texts."""
        method = reading.predictor.model.method
        if method is None:
            return NOTHING
        representation = known.of(reading.kind, texts_of(items)) if reading.kind else None
        if reading.means is not None:
            embedding = self.encoder.sentence_encoder.embed_tokens.weight
            representation = reading.means[numbers].to(self.device).type_as(embedding)
        return method.injection(representation)

    def _room(self, reading: Reading, batch: dict[str, Tensor]) -> Room:
        """Where the task has made room for its prompt."""
        length = reading.predictor.model.prompt_length
        if not length:
            return NO_ROOM
        return Room(batch["prompt_offset"].to(self.device), length, batch["src_tokens"].to(self.device))

    def _features(self, texts: Sequence[Tensor], groups: Sequence[Group]) -> Tensor:
        """B x T x d of all texts, as many in turn as there are groups, n x T_i each: B = groups times n."""
        longest = max(tokens.size(1) for tokens in texts)
        tokens = torch.cat([F.pad(some, (0, longest - some.size(1)), value=self.pad) for some in texts])
        padded = bool(tokens.eq(self.pad).any())
        tokens = tokens.to(self.device)
        grouped = GroupedPass(self.encoder.sentence_encoder, tokens, groups)
        with self.owner.batch_of(tokens):
            features, _ = self.encoder(
                tokens,
                features_only=True,
                token_embeddings=grouped.token_embeddings(),
                injection=grouped.injection(),
                padded=padded,
            )
        return features
