"""M(x) of methods that read word vectors: the mean vector of a text, as ``python -m preprocess glove`` makes it."""

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from preprocess.checksums import sha256
from preprocess.glove import SplitWords, mean_vectors, text_words
from preprocess.vector_files import read_vectors, vector_files

from ..errors import InputError, ModelFault, ModelLost
from ..representations.kinds import GLOVE
from ..saving.record import Record
from .text import TextEncoder
from .values import spelled

logger = logging.getLogger(__name__)

MOST_WORDS = 100_000  # whose vectors are kept


class MeanVectors:
    """Mean word vectors of texts. The file is read again whenever there are words that were not met before.

    Of more than ``MOST_WORDS`` words all are forgotten but those of the texts at hand, so that a server does not grow.

    Args:
        source: a file of word vectors, or a folder, as ``python -m preprocess glove --vectors`` takes it.
        text: what the ids of a text are read with.
        width: numbers in each vector.
    """

    def __init__(self, source: Path, text: TextEncoder, width: int):
        self.source = source
        self.text = text
        self.width = width
        self.lock = threading.Lock()
        self.opened = versions(source)
        self._forget()

    def rows(self, parts: Sequence[list[Tensor]]) -> Tensor:
        """N x width, of texts whose sentences have these ids, each closed by ``</s>``.

        Raises:
            ModelFault: the file is gone or damaged, or has vectors of another width.
            ModelLost: it is no longer the file that was named.
        """
        sentences = [self.text.decode([ids[:-1].tolist() for ids in part]) for part in parts]
        texts = [text_words(" ".join(both)) for both in zip(*sentences)]
        with self.lock:
            self._learn(list(dict.fromkeys(word for words in texts for word in words)))
            ids = np.array([self.numbers[word] for words in texts for word in words], np.int32)
            words = SplitWords(ids, np.array(list(map(len, texts)), np.int64))
            means, _ = mean_vectors(words, self.vectors, self.known)
        return torch.from_numpy(means)

    def _forget(self) -> None:
        self.numbers: dict[str, int] = {}
        self.vectors = np.empty((0, self.width))
        self.known = np.empty(0, bool)

    def _learn(self, words: list[str]) -> None:
        new = [word for word in words if word not in self.numbers]
        if not new:
            return
        if len(self.numbers) + len(new) > MOST_WORDS:
            self._forget()
            new = words
        try:
            vectors, known = read_vectors(self.source, new)
            changed = versions(self.source) != self.opened
        except InputError as error:  # whatever is asked
            raise ModelFault(str(error)) from None
        if changed:
            raise ModelLost(
                f"the vectors in {self.source} were written to, or others put in their place, while they were in use: "
                "start again"
            )
        if vectors.shape[1] != self.width:
            raise ModelFault(
                f"the vectors in {self.source} have {vectors.shape[1]} numbers, and this model was trained on vectors "
                f"of {self.width}: name the file of these"
            )
        self.numbers.update({word: number for number, word in enumerate(new, start=len(self.numbers))})
        self.vectors, self.known = np.concatenate([self.vectors, vectors]), np.concatenate([self.known, known])


def versions(source: Path) -> list[tuple[int, ...]]:
    """What changes with the files of vectors, which are too large to be compared each time."""
    found = map(os.stat, vector_files(source))
    return [(file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns) for file in found]


def reads_vectors(model: Any) -> bool:
    """Whether the M(x) of ``roberta_idpg`` is word vectors."""
    return model.method is not None and model.method.representation == GLOVE


def find_vectors(source: str | None, model: Any, record: Record, text: TextEncoder, what: str) -> MeanVectors | None:
    """The word vectors that a model reads; None for one that reads none.

    Args:
        source: the file of vectors, if somebody has named it.
        what: the checkpoint, for errors.

    Raises:
        InputError: it is needed and was not named, or the reverse; it is not there, or another than in training.
    """
    method, named = model.args.method, spelled("vectors", what)
    if not reads_vectors(model):
        if source is not None:
            raise InputError(f"{named} {source} has no effect: --method {method} reads no word vectors: leave it out")
        return None
    if source is None:
        raise InputError(
            f"--method {method} reads word vectors: name the file that its data was made with, such as "
            f"glove.6B.300d.txt, with {named}"
        )
    files = vector_files(Path(source))
    if record.vectors is None:
        logger.warning(f"{named} {source}: whether the model was trained on these is not recorded and not checked")
    elif sorted(map(sha256, files)) != sorted(record.vectors.values()):
        names = ", ".join(record.vectors)
        raise InputError(f"{named} {source} is not what this model was trained on ({names}): name that")
    return MeanVectors(Path(source), text, model.args.representation_width)
