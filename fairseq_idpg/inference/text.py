"""Text to ids, and to mean word vectors, as the data of a checkpoint was encoded; other encoders are refused."""

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from torch import Tensor

from preprocess.build import truncate
from preprocess.checksums import sha256
from preprocess.dictionary import MASK, SPECIAL
from preprocess.encoders import ENCODERS, GPT2_FOLDER, Encoder, load_encoder
from preprocess.glove import mean_vectors, read_vectors, text_words, vector_files

from ..errors import InputError, ModelLost
from ..representations.kinds import GLOVE
from ..saving.record import Record, symbols_fingerprint

logger = logging.getLogger(__name__)

File = str | Path | None
MOST_WORDS = 100_000  # whose vectors are kept


@dataclass
class TextEncoder:
    """An encoder of ``preprocess`` and its dictionary as the task has it; several threads may share one."""

    encoder: Encoder
    max_length: int | None = None  # tokens that are kept of a sentence, as python -m preprocess does

    def __post_init__(self) -> None:
        self.dictionary = task_dictionary(self.encoder.symbols)
        self.lock = threading.Lock()  # GPT-2's encoder keeps the words that it has met

    def encode(self, texts: Sequence[str]) -> list[Tensor]:
        """Return the ids of each text, closed by ``</s>``, as ``python -m preprocess`` writes them."""
        return self.beginnings(texts)[0]

    def beginnings(self, texts: Sequence[str]) -> tuple[list[Tensor], np.ndarray]:
        """Return the ids of each of N texts, see ``encode``, and N, whether it is longer than ``max_length``."""
        with self.lock:
            ids, lengths = self.encoder.encode(texts)
        cut = np.zeros(len(texts), bool)
        if self.max_length is not None:
            cut = lengths > self.max_length + 1
            ids, lengths = truncate(ids, lengths, self.max_length)
        if cut.any():
            logger.warning("shortening %d sentences to %d tokens, as in the data", cut.sum(), self.max_length)
        return list(torch.tensor(ids, dtype=torch.long).split(lengths.tolist())), cut

    def behind_space(self, row: Sequence[int]) -> list[int]:
        """Return the ids that a text has behind another text and a space, from those that it has alone."""
        with self.lock:
            return self.encoder.behind_space(row)


def task_dictionary(symbols: Sequence[str]) -> Dictionary:
    """Return the dictionary that the task reads from a dict.txt with these ``symbols``."""
    dictionary = Dictionary()
    for symbol in symbols[len(SPECIAL) :]:
        dictionary.add_symbol(symbol, overwrite=True)
    dictionary.add_symbol(MASK)
    return dictionary


def load_dictionary(path: str) -> Dictionary:
    """Return a dict.txt as the task reads it, <mask> at its end; raise InputError where there is none."""
    try:
        return SentencePredictionTask.load_dictionary(path)
    except Exception as error:  # which fairseq raises for bytes that are not UTF-8
        raise InputError(f"{path} is not a dictionary ({error}): name a dict.txt or a binarized folder") from None


def find_text_encoder(record: Record, named: File, others: Iterable[Path], what: str) -> TextEncoder:
    """Return the encoder that a checkpoint's data was made with, from the folder ``named`` or the likely ones."""
    if named is None and record.bpe is None:
        raise InputError(
            f"{what} does not record how its text was encoded, its data was not made with python -m preprocess: name "
            "the folder of the encoder's files with `vocab`"
        )
    likely = [record.vocab, *others, GPT2_FOLDER if record.bpe == "gpt2" else None]
    folders = dict.fromkeys(Path(place) for place in (likely if named is None else [named]) if place)
    reason = ""
    for folder in folders:
        if not os.path.isdir(folder) or not os.access(folder, os.R_OK | os.X_OK):
            continue
        for bpe in [record.bpe] if record.bpe in ENCODERS else ENCODERS:
            try:
                encoder = load_encoder(str(bpe), folder)
            except InputError as error:
                reason = reason or f" ({error})"
                continue
            problem = difference(record, encoder)
            if problem is None:
                return TextEncoder(encoder, record.max_length)
            reason = f" ({problem})"  # says more than that files are missing
    raise InputError(
        f"the encoder of {what} ({record.bpe or 'its data records none'}) is not in {', '.join(map(str, folders))}: "
        f"name the folder of its files with `vocab`{reason}"
    )


def difference(record: Record, encoder: Encoder) -> str | None:
    """Return how an encoder differs from the recorded one; None if it does not."""
    symbols = symbols_fingerprint(task_dictionary(encoder.symbols))
    pairs = (("dictionary", record.dictionary, symbols), ("encoder", record.bpe_sha256, encoder.fingerprint()))
    for kind, recorded, present in pairs:
        if recorded not in (None, present):
            folder = encoder.files[0].parent
            return f"the {kind} of {folder}, SHA-256 {present:.12}, is not the one that is recorded, {recorded:.12}"
    return None


@dataclass
class MeanVectors:
    """Mean word vectors, as ``python -m preprocess glove`` makes them of ``source``, which is read for new words."""

    source: Path
    text: TextEncoder
    width: int

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.opened = versions(self.source)
        self._forget()

    def rows(self, parts: Sequence[list[Tensor]]) -> Tensor:
        """Return N x width for texts whose sentences have these ids, each closed by ``</s>``."""
        sentences = [self.text.encoder.decode([ids[:-1].tolist() for ids in part]) for part in parts]
        texts = [text_words(" ".join(both)) for both in zip(*sentences)]
        with self.lock:
            self._learn(list(dict.fromkeys(word for words in texts for word in words)))
            ids = np.array([self.numbers[word] for words in texts for word in words], np.int32)
            means, _ = mean_vectors((ids, np.array(list(map(len, texts)), np.int64)), self.vectors, self.known)
        return torch.from_numpy(means)

    def _forget(self) -> None:
        self.numbers: dict[str, int] = {}
        self.vectors = np.empty((0, self.width))
        self.known = np.empty(0, bool)

    def _learn(self, words: list[str]) -> None:
        new = [word for word in words if word not in self.numbers]
        if not new:
            return
        if len(self.numbers) + len(new) > MOST_WORDS:  # so that a server does not grow
            self._forget()
            new = words
        with contextlib.suppress(InputError):
            vectors, known = read_vectors(self.source, new)
            if versions(self.source) == self.opened:
                self.numbers.update({word: number for number, word in enumerate(new, start=len(self.numbers))})
                self.vectors, self.known = np.concatenate([self.vectors, vectors]), np.concatenate([self.known, known])
                return
        raise ModelLost(
            f"the vectors in {self.source} were written to, moved or replaced while they were in use: start again"
        )


def versions(source: Path) -> list[tuple[int, ...]]:
    """Return what changes with the files of vectors, which are too large to be read each time."""
    return [(f.st_dev, f.st_ino, f.st_size, f.st_mtime_ns) for f in map(os.stat, vector_files(source))]


def find_vectors(source: File, model: Any, record: Record, text: TextEncoder) -> MeanVectors | None:
    """Return the word vectors of the file ``source``; None for a model that reads none."""
    if model.method is None or model.method.representation != GLOVE:
        return None
    if source is None:
        raise InputError(
            f"--method {model.args.method} reads word vectors: name the file that its data was made with, such as "
            "glove.6B.300d.txt, with `vectors`"
        )
    files = vector_files(Path(source))
    if record.vectors is None:
        logger.warning(f"`vectors` {source}: whether the model was trained on these is not recorded and not checked")
    elif sorted(map(sha256, files)) != sorted(record.vectors.values()):
        names = ", ".join(record.vectors)
        raise InputError(f"`vectors` {source} is not what this model was trained on ({names}): name that")
    return MeanVectors(Path(source), text, model.args.representation_width)
