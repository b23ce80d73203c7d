"""Text to ids, and to mean word vectors, as the data of a checkpoint was encoded; any other encoder is refused."""

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Sequence
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


class TextEncoder:
    """An encoder of ``preprocess`` and its dictionary as the task has it; several threads may share one. ``folder``:
    where its files are; ``max_length``: tokens that are kept of a sentence, as python -m preprocess does.
    """

    def __init__(self, encoder: Encoder, folder: Path, max_length: int | None = None):
        self.encoder = encoder
        self.folder = folder
        self.max_length = max_length
        self.dictionary = task_dictionary(encoder.symbols)
        self.lock = threading.Lock()  # GPT-2's keeps the words that it has met

    def encode(self, texts: Sequence[str]) -> list[Tensor]:
        """Return the ids of each text, closed by ``</s>``, as ``python -m preprocess`` writes them."""
        return self.beginnings(texts)[0] if texts else []

    def beginnings(self, texts: Sequence[str]) -> tuple[list[Tensor], np.ndarray]:
        """Return the ids of each of N texts, see ``encode``, and N, whether it is longer than ``max_length``."""
        with self.lock:
            ids, lengths = self.encoder.encode(texts)
        cut = np.zeros(len(texts), bool)
        if self.max_length is not None:
            cut = lengths > self.max_length + 1
            ids, lengths = truncate(ids, lengths, self.max_length)
        if cut.any():
            logger.warning(
                "shortening %d sentences to %d tokens, as those of the data were", cut.sum(), self.max_length
            )
        return list(torch.tensor(ids, dtype=torch.long).split(lengths.tolist())), cut

    def behind_space(self, row: Sequence[int]) -> list[int]:
        """Return the ids of a text as it is encoded behind another and a space, from those it has alone."""
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
    except Exception as error:  # fairseq raises that, of bytes that are no UTF-8
        raise InputError(f"{path} is not a dictionary ({error}): name a dict.txt or a binarized folder") from None


def find_text_encoder(record: Record, named: File, others: Iterable[Path], what: str) -> TextEncoder:
    """Return the encoder that a checkpoint's data was made with; ``what``: the checkpoint, for errors.

    ``named``: the folder of its files, if somebody has named it; then no other is looked at. ``others``: folders where
    it may be besides the one that is recorded, and for GPT-2's where it is downloaded to. Raise InputError where it is
    in none of them, is another one, or nothing is recorded of it and no folder was named.
    """
    if named is None and record.bpe is None:
        raise InputError(
            f"{what} does not record how its text was encoded, its data was not made with python -m preprocess: name "
            "the folder of the encoder's files with `vocab`"
        )
    usual = [GPT2_FOLDER] if record.bpe == "gpt2" else []
    folders = list(dict.fromkeys([*([Path(record.vocab)] if record.vocab else []), *others, *usual]))
    folders = folders if named is None else [Path(named)]
    lacking, strangers = [], []
    for folder in folders:
        if not os.path.isdir(folder) or not os.access(folder, os.R_OK | os.X_OK):
            continue
        for bpe in [record.bpe] if record.bpe in ENCODERS else ENCODERS:
            try:
                encoder = load_encoder(str(bpe), folder)
            except InputError as error:
                lacking.append(str(error))
                continue
            problem = difference(record, encoder)
            if problem is None:
                return TextEncoder(encoder, folder, record.max_length)
            strangers.append(problem)
    places, reason = ", ".join(map(str, folders)), next(iter([*strangers, *lacking]), "")
    raise InputError(
        f"the encoder of {what} ({record.bpe or 'its data records none'}) is not in {places}: name the folder of its "
        f"files with `vocab`{reason and f' ({reason})'}"
    )


def difference(record: Record, encoder: Encoder) -> str | None:
    """Return in what an encoder is not the recorded one; None if it is."""
    symbols = symbols_fingerprint(task_dictionary(encoder.symbols))
    compared = (("dictionary", record.dictionary, symbols), ("encoder", record.bpe_sha256, encoder.fingerprint()))
    for kind, recorded, found in compared:
        if recorded not in (None, found):
            folder = encoder.files[0].parent
            return f"the {kind} of {folder}, SHA-256 {found:.12}, is not the one that is recorded, {recorded:.12}"
    return None


# --- word vectors --------------------------------------------------------------------------------


class MeanVectors:
    """Mean word vectors, ``width`` numbers each, as ``python -m preprocess glove`` makes them of ``source``.

    The file is read again whenever there are words that were not met before. Of more than ``MOST_WORDS`` words all are
    forgotten but those of the texts at hand, so that a server does not grow.
    """

    def __init__(self, source: Path, text: TextEncoder, width: int):
        self.source = source
        self.text = text
        self.width = width
        self.lock = threading.Lock()
        self.opened = versions(source)
        self._forget()

    def rows(self, parts: Sequence[list[Tensor]]) -> Tensor:
        """Return N x width, of texts whose sentences have these ids, each closed by ``</s>``.

        Raise ModelLost where the file is gone, or no longer the one that was named.
        """
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
        if len(self.numbers) + len(new) > MOST_WORDS:
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
    """Return what changes with the files of vectors, which are too large to be compared each time."""
    found = map(os.stat, vector_files(source))
    return [(file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns) for file in found]


def find_vectors(source: File, model: Any, record: Record, text: TextEncoder) -> MeanVectors | None:
    """Return the word vectors that a model reads, from the file ``source``; None for a model that reads none.

    Raise InputError where they are needed and not named, are not there, or are others than in training.
    """
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
