"""Each example as the mean of its words' GloVe vectors (Section 4.5.1), computed once: DATA/glove/SPLIT.npy.

Only words that have a vector count. The released code draws N(0, 0.6) for an example without any, anew each time and
even in evaluation; here all such examples have one fixed draw.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .checksums import sha256
from .data_folder import DataFolder
from .encoders import ENCODERS, load_encoder
from .errors import InputError, escaped
from .flags import named_path
from .glove_folder import GLOVE_FACTS, write_facts
from .split_facts import token_digests
from .vector_files import read_vectors, vector_files
from .words import BATCH, SplitWords, check_encoder, folder_encoder, read_words
from .writing import check_only, new_folder

FORMAT = 1  # of the folder DATA/glove
UNKNOWN_STD = 0.6


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
