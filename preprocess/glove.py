"""Each example as the mean of its words' GloVe vectors (Section 4.5.1), computed once: DATA/glove/SPLIT.npy.

Words are taken apart as the paper's released code does: both sentences joined by a space, split on white space, all
ASCII punctuation deleted ("isn't" is "isnt"), lower-cased; what is punctuation alone is no word. Only words that have a
vector count. The released code draws N(0, 0.6) for an example without any, anew each time and even in evaluation; here
all such examples have one fixed draw.
"""

from __future__ import annotations

import argparse
import json
import string
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .checksums import sha256
from .data_folder import DataFolder
from .encoders import ENCODERS, check_encoder, folder_encoder, load_encoder
from .encoders.base import Encoder
from .errors import InputError, escaped
from .flags import named_path
from .indexed import IndexedRows
from .validation import check_split, token_digests
from .vector_files import UNREADABLE, open_array, read_vectors, vector_files
from .writing import check_only, new_folder

FORMAT = 1  # of the folder DATA/glove
UNKNOWN_STD = 0.6
BATCH = 4096
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
REMEDY = "run python -m preprocess glove --vectors FILE --data"
GLOVE_FACTS, SUMS = "glove.json", "means_sha256"


# --- words ----------------------------------------------------------------------------------------


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
    for start in range(0, check_split(data, split), BATCH):
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


# --- means ----------------------------------------------------------------------------------------


def mean_vectors(words: SplitWords, vectors: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """N x dim float32, the mean over the known words of each example, and N, how many these are."""
    from scipy.sparse import csr_matrix

    is_known = known[words.ids]
    ends = np.concatenate([[0], np.cumsum(is_known)])[np.concatenate([[0], np.cumsum(words.lengths)])]
    ids, counts = words.ids[is_known], np.diff(ends)
    means = np.empty((len(counts), vectors.shape[1]), np.float32)
    occurrences = csr_matrix((np.ones(len(ids)), ids, ends), shape=(len(counts), len(vectors)))
    for start in range(0, len(counts), BATCH):
        batch = slice(start, start + BATCH)
        means[batch] = (occurrences[batch] @ vectors) / np.maximum(counts[batch, None], 1)
    means[counts == 0] = np.random.RandomState(0).normal(0, UNKNOWN_STD, vectors.shape[1])
    return means, counts


def write_means(
    data: DataFolder, words: dict[str, SplitWords], vectors: np.ndarray, known: np.ndarray, record: dict[str, Any]
) -> dict[str, dict[str, int]]:
    """Fills DATA/glove; returns what glove.json says of each split.

    ``words`` and ``known_words`` are counted over all examples; ``without_known_words`` counts those with the draw.
    """
    splits = {}
    with new_folder(data.path / "glove", overwrite=True) as folder:
        for split, split_words in words.items():
            means, counts = mean_vectors(split_words, vectors, known)
            np.save(folder / f"{split}.npy", means)
            splits[split] = {
                "examples": len(means),
                "words": len(split_words.ids),
                "known_words": int(counts.sum()),
                "without_known_words": int((counts == 0).sum()),
            }
        digests = {name: digest for split in words for name, digest in token_digests(data, split).items()}
        write_facts(folder, {"format": FORMAT, **record, "splits": splits, "sha256": digests})
    return splits


# --- DATA/glove, written and read back ------------------------------------------------------------


def read_facts(folder: Path) -> dict[str, Any]:
    """What glove.json says: ``dim``, ``sha256`` of the text, ``means_sha256`` of the vectors and more.

    Raises:
        InputError: it is missing or damaged.
    """
    path = folder / "glove" / GLOVE_FACTS
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        sums = (facts["sha256"], facts.get(SUMS, {}))
        whole = isinstance(facts["dim"], int) and facts["dim"] > 0 and all(isinstance(part, dict) for part in sums)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise InputError(f"{path} is missing or damaged: {REMEDY} {folder}")
    return facts


def read_means(data: DataFolder, split: str, warn: Callable[[str], object]) -> np.ndarray:
    """N x dim float32, mapped into memory; ``warn`` is told when nothing says whether they are whole.

    Raises:
        InputError: the file is missing, damaged, or made from other text.
    """
    facts, path = read_facts(data.path), data.path / "glove" / f"{split}.npy"
    of_text = all(facts["sha256"].get(name) == digest for name, digest in token_digests(data, split).items())
    try:
        means = open_array(path)
        if SUMS not in facts:
            warn(f"{path.parent / GLOVE_FACTS} is old and has no checksums of the vectors: {REMEDY} {data.path}")
            whole = means.ndim == 2 and means.dtype.kind == "f" and bool(np.isfinite(means).all())
        else:
            whole = facts[SUMS].get(path.name) == sha256(path)
    except UNREADABLE:
        whole = False
    if not (whole and of_text):
        what = "is missing or damaged" if of_text else f"was made from other text than {data.path} holds"
        raise InputError(f"{path} {what}: {REMEDY} {data.path} --overwrite")
    return means


def write_facts(folder: Path, facts: dict[str, Any]) -> None:
    """glove.json of ``folder`` (DATA/glove), whose vectors are written already."""
    sums = {path.name: sha256(path) for path in sorted(folder.glob("*.npy"))}
    (folder / GLOVE_FACTS).write_text(f"{json.dumps({**facts, SUMS: sums}, indent=2)}\n", encoding="utf-8")


# --- the command ----------------------------------------------------------------------------------


def read_all_words(
    folders: Sequence[DataFolder], bpe: str | None, vocab: Path | None
) -> tuple[list[tuple[str, dict[str, SplitWords]]], list[str]]:
    """For each folder (its bpe, {split: SplitWords}); and the words, in the order of their numbers."""
    choices = [folder_encoder(data, bpe, vocab) for data in folders]
    encoders = {choice: load_encoder(*choice) for choice in dict.fromkeys(choices)}
    for data, choice in zip(folders, choices):
        check_encoder(data, encoders[choice])
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a word that is looked up for the first time gets the next number
    read = [
        (choice[0], {split: read_words(data, split, encoders[choice], numbers) for split in data.splits})
        for data, choice in zip(folders, choices)
    ]
    return read, list(numbers)


def report(data: DataFolder, splits: dict[str, dict[str, int]], source: Path) -> None:
    """Prints the counts of each split, and a warning where no word was known."""
    print(f"saved: {data.path / 'glove'}")
    for split, counts in splits.items():
        described = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())
        print(escaped(f"  {split}: {described}"))
        if counts["examples"] and not counts["known_words"]:
            print(f"warning: no word of {data.path} {split} has a vector in {source}", file=sys.stderr)


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m preprocess glove", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--vectors", metavar="FILE", type=named_path, required=True, help="glove.6B.300d.txt, .gz, .zip, or a folder")
    add("--data", metavar="DIR", type=named_path, nargs="+", action="extend", required=True, help="binarized folders")
    add("--bpe", choices=list(ENCODERS), help="encoder of the folders (default: the one they record, or gpt2)")
    add("--vocab", metavar="DIR", type=named_path, help="its files (default: the folder that the data records)")
    add("--overwrite", action="store_true", help="replace DATA/glove where it is there")
    args = parser.parse_args(argv)
    sources = vector_files(args.vectors)
    folders = [DataFolder(path) for path in dict.fromkeys(args.data)]
    for data in folders:
        check_only(data.path / "glove", (GLOVE_FACTS, "*.npy"))
        if (data.path / "glove").exists() and not args.overwrite:
            raise InputError(f"{data.path / 'glove'} exists already: remove it, or give --overwrite")
    read, words = read_all_words(folders, args.bpe, args.vocab)
    vectors, known = read_vectors(args.vectors, words)
    digests = {path.name: sha256(path) for path in sources}
    record = {"vectors": args.vectors.resolve().name, "vectors_sha256": digests, "dim": vectors.shape[1]}
    for data, (bpe, split_words) in zip(folders, read):
        splits = write_means(data, split_words, vectors, known, {**record, "bpe": bpe})
        report(data, splits, args.vectors)
