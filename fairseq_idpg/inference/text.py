"""Text to ids as the data of a checkpoint was encoded: its encoder is found again, and any other is refused."""

import logging
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from preprocess.binarize import truncate
from preprocess.dictionary import MASK, SPECIAL
from preprocess.encoders import ENCODERS, GPT2_FOLDER, load_encoder
from preprocess.encoders.base import Encoder

from ..errors import InputError
from ..saving.record import Record, symbols_fingerprint
from .values import spelled

logger = logging.getLogger(__name__)


class TextEncoder:
    """An encoder of ``preprocess`` and its dictionary as the task has it; several threads may share one.

    Attributes:
        dictionary: the encoder's symbols, <mask> at their end.
        folder: where its files are.
        max_length: tokens that are kept of a sentence, as --max-length of ``python -m preprocess``.
    """

    def __init__(self, encoder: Encoder, folder: Path, max_length: int | None = None):
        self.encoder = encoder
        self.folder = folder
        self.max_length = max_length
        self.dictionary = task_dictionary(encoder.symbols)
        self.lock = threading.Lock()  # GPT-2's keeps the words that it has met

    def encode(self, texts: Sequence[str]) -> list[Tensor]:
        """The ids of each text, closed by ``</s>``, as ``python -m preprocess`` writes them."""
        return self.beginnings(texts)[0] if texts else []

    def beginnings(self, texts: Sequence[str]) -> tuple[list[Tensor], np.ndarray]:
        """The ids of each of N texts, see ``encode``, and N, whether it is longer than ``max_length``."""
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
        """The ids of a text as it is encoded behind another and a space, from those it has alone."""
        with self.lock:
            return self.encoder.behind_space(row)

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of rows of ids, without special symbols."""
        return self.encoder.decode(rows)


def task_dictionary(symbols: Sequence[str]) -> Dictionary:
    """The dictionary that the task reads from a dict.txt with these ``symbols``."""
    dictionary = Dictionary()
    for symbol in symbols[len(SPECIAL) :]:
        dictionary.add_symbol(symbol, overwrite=True)
    dictionary.add_symbol(MASK)
    return dictionary


def find_text_encoder(record: Record, named: str | None, others: Iterable[Path], what: str) -> TextEncoder:
    """The encoder that a checkpoint's data was made with.

    Args:
        record: of the checkpoint.
        named: the folder of its files, if somebody has named it; then no other is looked at.
        others: folders where it may be besides the one that is recorded.
        what: the checkpoint, for errors.

    Raises:
        InputError: it is in none of them, is another one, or nothing is recorded of it and no folder was named.
    """
    if named is None and record.bpe is None:
        raise InputError(
            f"{what} does not record how its text was encoded, its data was not made with python -m preprocess: name "
            f"the folder of the encoder's files with {spelled('vocab', what)}"
        )
    folders = likely_folders(record, others) if named is None else [Path(named)]
    if named is not None and not is_open(folders[0]):
        raise InputError(
            f"{spelled('vocab', what)} {named} is no folder that can be read: name that of the encoder's files"
        )
    lacking, strangers = [], []
    for folder in filter(is_open, folders):
        for bpe in [record.bpe] if record.bpe in ENCODERS else ENCODERS:
            try:
                encoder = load_encoder(str(bpe), folder, record.bpe_sha256)
            except InputError as error:
                lacking.append(error)
                continue
            try:
                check_same_encoder(record, encoder, what)
                return TextEncoder(encoder, folder, record.max_length)
            except InputError as error:
                strangers.append(error)
    reasons = [*strangers, *lacking]
    if named is not None and record.bpe is not None:
        raise reasons[0]
    places = ", ".join(map(str, folders))
    raise InputError(
        f"the encoder of {what} ({record.bpe or 'its data records none'}) is not in {places}: name the folder of its "
        f"files with {spelled('vocab', what)}{f' ({reasons[0]})' if reasons else ''}"
    )


def likely_folders(record: Record, others: Iterable[Path]) -> list[Path]:
    """Where the recorded encoder may be: where it was, in ``others``, GPT-2's where it is downloaded to."""
    recorded = [Path(record.vocab)] if record.vocab else []
    usual = [GPT2_FOLDER] if record.bpe == "gpt2" else []
    return list(dict.fromkeys([*recorded, *others, *usual]))


def is_open(folder: Path) -> bool:
    """Whether it is a folder whose files can be looked for."""
    return os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK)


def check_same_encoder(record: Record, encoder: Encoder, what: str) -> None:
    """Raises InputError where an encoder is not the one that is recorded."""
    symbols = symbols_fingerprint(task_dictionary(encoder.symbols))
    if record.dictionary not in (None, symbols):
        raise InputError(
            f"the dictionary of {encoder.files[0].parent} (SHA-256 of its symbols {symbols:.12}) is not the one that "
            f"{what} was trained with ({record.dictionary:.12}): name its own with {spelled('vocab', what)}"
        )
    if record.bpe_sha256 not in (None, encoder.fingerprint()):
        raise InputError(
            f"the encoder in {encoder.files[0].parent} (SHA-256 {encoder.fingerprint():.12}) is not the one that the "
            f"data of {what} was made with ({record.bpe_sha256:.12}): name its own with {spelled('vocab', what)}"
        )
