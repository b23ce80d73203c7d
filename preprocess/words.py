"""The words of binarized examples, taken apart as the paper's released code does for GloVe.

Both sentences joined by a space, split on white space, all ASCII punctuation deleted ("isn't" is "isnt"), lower-cased;
what is punctuation alone is no word.
"""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .checksums import FOLDER_FACTS
from .data_folder import DataFolder
from .dictionary import read_dictionary
from .encoders import ENCODERS
from .encoders.base import Encoder
from .errors import InputError
from .indexed import IndexedRows
from .split_facts import count_examples

BATCH = 4096
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class SplitWords(NamedTuple):
    """``ids``: the numbers of all words of a split, one after the other; ``lengths``: N, words of each example."""

    ids: np.ndarray
    lengths: np.ndarray


def text_words(text: str) -> list[str]:
    return text.translate(NO_PUNCTUATION).lower().split()


def read_words(data: DataFolder, split: str, encoder: Encoder, numbers: dict[str, int]) -> SplitWords:
    """The words of each example of a split; ``numbers`` gives a new word the next number."""
    parts = [data.rows(part, split) for part in data.inputs]
    ids, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    for start in range(0, count_examples(data, split), BATCH):
        sentences = [encoder.decode(token_lists(rows, start)) for rows in parts]
        words = [text_words(" ".join(texts)) for texts in zip(*sentences)]
        lengths.append(np.fromiter(map(len, words), np.int64, len(words)))
        ids.append(np.fromiter((numbers[word] for line in words for word in line), np.int32, int(lengths[-1].sum())))
    return SplitWords(np.concatenate(ids), np.concatenate(lengths))


def token_lists(rows: IndexedRows, start: int) -> list[list[int]]:
    """Ids of the BATCH rows from ``start`` on, without ``</s>``."""
    starts, lengths = rows.starts[start : start + BATCH], rows.lengths[start : start + BATCH]
    first = int(starts.min())
    tokens = rows.ids[first : int((starts + lengths).max())].tolist()
    return [tokens[at : at + length - 1] for at, length in zip((starts - first).tolist(), lengths.tolist())]


def folder_facts(data: DataFolder) -> dict[str, Any]:
    """What the folder's ``preprocess.json`` says; nothing where there is none.

    Raises:
        InputError: it is damaged.
    """
    record = data.path / FOLDER_FACTS
    try:
        facts = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
    except (OSError, ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise InputError(f"{record} is damaged: preprocess the folder again")
    return facts


def folder_encoder(data: DataFolder, bpe: str | None, vocab: Path | None) -> tuple[str, Path, str | None]:
    """What the folder was encoded with: the options where given, else its ``preprocess.json``; its fingerprint."""
    recorded = folder_facts(data)
    name, folder = bpe or recorded.get("bpe", "gpt2"), vocab or recorded.get("vocab")
    if name not in list(ENCODERS) or not folder or not isinstance(folder, (str, Path)):
        raise InputError(f"{data.path} does not say how it was encoded: name its encoder with --bpe and --vocab")
    return name, Path(folder), recorded.get("vocab_sha256")


def check_encoder(data: DataFolder, encoder: Encoder) -> None:
    """Raises InputError unless the folder was made with the encoder: its ids would read as other text."""
    for part in data.inputs:
        if read_dictionary(data.path / part / "dict.txt") != encoder.symbols:
            raise InputError(
                f"{data.path}/{part}/dict.txt differs from {encoder.dictionary}: name with --bpe and --vocab what the "
                "folder was made with"
            )
    made_with = encoder.fingerprint()
    if folder_facts(data).get("vocab_sha256", made_with) != made_with:
        raise InputError(
            f"{encoder.files[0]} is not what {data.path} was made with: name that with --vocab, or preprocess "
            "the folder again"
        )
