"""Rows of text to a binarized folder, a chunk at a time: memory does not grow with the corpus.

Besides one chunk for each worker, an example leaves behind its lengths and its label: some 20 bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path

import numpy as np

from .data_folder import left_out_file, number_file
from .dictionary import UNKNOWN
from .encoders import Encoder, load_encoder
from .errors import InputError
from .indexed import IndexedWriter
from .labels import Labels
from .questions import question_file, question_line
from .rows import MAX_POSITIONS, Row, Split
from .sources import OnBytes

CHUNK = 2000  # examples
LONGEST_CHUNK = 1 << 20  # characters: fewer examples where these are long
Encoded = list["tuple[np.ndarray, np.ndarray]"]  # ids and lengths of each input


@dataclass(frozen=True)
class Encoding:
    """How text becomes ids: ``bpe`` and ``vocab`` name the encoder; sentences are cut to ``max_length`` tokens."""

    bpe: str
    vocab: Path
    max_length: int | None = None
    workers: int = 1

    @cached_property
    def encoder(self) -> Encoder:
        return load_encoder(self.bpe, self.vocab)


def binarize(splits: Sequence[Split], labels: Labels, encoding: Encoding, folder: Path, on_bytes: OnBytes) -> None:
    """Writes ``folder/{input0,input1,label}``, ``folder/number`` where test examples have numbers of their own,
    ``folder/question`` where examples answer questions, and ``folder/left_out`` where lines gave no example.

    Raises:
        InputError: bad input; a split without examples, or with labels or numbers of some alone.
    """
    for split in splits:
        numbered = _binarize_split(split, labels, encoding, folder, on_bytes)
        _check_whole(split, labels, numbered)
    for part in sorted(folder.glob("input*")):
        (part / "dict.txt").write_bytes(encoding.encoder.dictionary_bytes())
    labels.write(folder / "label")


def _binarize_split(split: Split, labels: Labels, encoding: Encoding, folder: Path, on_bytes: OnBytes) -> int:
    """Writes the inputs, numbers and questions of a split and collects its labels; how many examples have a number."""
    writers: list[IndexedWriter] = []
    numbered = 0
    left_out: list[str] = []  # for each line without an example, the examples before it and its number
    with ExitStack() as files:
        for rows, encoded in encode_stream(encoding, _chunks(split.rows(on_bytes))):
            if not writers:
                prefixes = [folder / f"input{number}" / split.name for number in range(len(encoded))]
                writers = [files.enter_context(IndexedWriter(path, len(encoding.encoder.symbols))) for path in prefixes]
                split.tokens = [0] * len(writers)
            labels.add(split, rows)
            if split.passes == 1:
                # with workers, lines behind this chunk are known too: the next chunks place them
                for line in split.malformed.left_out[len(left_out) :]:
                    if line < rows[-1].line:
                        before = split.examples + bisect_left(rows, line, key=attrgetter("line"))
                        left_out.append(f"{before} {line}\n")
            _write(split, encoded, writers, encoding.max_length)
            numbers = [f"{row.number}\n" for row in rows if row.number is not None]
            numbered += _append(folder / number_file(split.name), numbers)
            questions = [question_line(row.question, row.answer) for row in rows if row.question is not None]
            _append(folder / question_file(split.name), questions)
    if split.passes == 1:
        left_out += [f"{split.examples} {line}\n" for line in split.malformed.left_out[len(left_out) :]]
        _append(folder / left_out_file(split.name), left_out)
    return numbered


def _check_whole(split: Split, labels: Labels, numbered: int) -> None:
    """Refuses a split without examples, and one of which only some have a label or a number."""
    if not split.examples:
        first = "".join(f", and line {line} is none: {reason}" for line, reason in split.malformed.lines[:1])
        raise InputError(
            f"{split.source.name} has no examples{first}: name the right file, or leave out split {split.name}"
        )
    for what, count in (("label", len(labels.splits[split.name])), ("number", numbered)):
        if count not in (0, split.examples):
            raise InputError(f"{split.source.name} has a {what} in some lines only: give every line its own")


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    size = 0
    for row in rows:
        length = sum(map(len, row.texts))
        if chunk and (len(chunk) == CHUNK or size + length > LONGEST_CHUNK):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += length
    if chunk:
        yield chunk


def _write(split: Split, encoded: Encoded, writers: Sequence[IndexedWriter], max_length: int | None) -> None:
    examples = len(encoded[0][1])
    joined = np.full(examples, 2 * len(encoded))  # <s> A </s>, <s> A </s> </s> B </s>
    cut = empty = np.zeros(examples, bool)
    for number, (ids, lengths) in enumerate(encoded):
        if max_length is not None and lengths.max() > max_length + 1:
            cut = cut | (lengths > max_length + 1)
            ids, lengths = truncate(ids, lengths, max_length)
        joined = joined + lengths - 1
        empty = empty | (lengths == 1)
        writers[number].write(ids, lengths)
        split.tokens[number] += len(ids)
        split.unknown += int((ids == UNKNOWN).sum())
    split.examples += examples
    split.too_long += int((joined > MAX_POSITIONS).sum())
    split.truncated += int(cut.sum())
    split.empty += int(empty.sum())


def _append(path: Path, lines: Sequence[str]) -> int:
    """Appends lines to a file, if there are any; how many."""
    if lines:
        path.parent.mkdir(exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(lines)
    return len(lines)


def truncate(ids: np.ndarray, lengths: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Keeps the first ``longest`` tokens of each row and its ``</s>``."""
    starts = np.cumsum(lengths) - lengths
    place = np.arange(len(ids)) - np.repeat(starts, lengths)
    last = np.repeat(lengths, lengths) - 1
    return ids[(place < longest) | (place == last)], np.minimum(lengths, longest + 1)


# --- workers -------------------------------------------------------------------------------------

_encoder: Encoder | None = None  # of a worker process


def _start_worker(bpe: str, vocab: Path) -> None:
    global _encoder
    _encoder = load_encoder(bpe, vocab)


def _encode(inputs: list[list[str]]) -> Encoded:
    assert _encoder is not None
    return [_encoder.encode(lines) for lines in inputs]


def _inputs(rows: Sequence[Row]) -> list[list[str]]:
    return [list(column) for column in zip(*(row.texts for row in rows))]


def encode_stream(encoding: Encoding, chunks: Iterator[list[Row]]) -> Iterator[tuple[list[Row], Encoded]]:
    """Each chunk with its ids, in order; with several workers only a few chunks are under way at a time."""
    if encoding.workers == 1:
        for rows in chunks:
            yield rows, [encoding.encoder.encode(lines) for lines in _inputs(rows)]
        return
    import multiprocessing  # these two are slow to load
    from concurrent.futures import Future, ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    under_way: deque[tuple[list[Row], Future]] = deque()
    with ProcessPoolExecutor(encoding.workers, context, _start_worker, (encoding.bpe, encoding.vocab)) as pool:
        for rows in chunks:
            under_way.append((rows, pool.submit(_encode, _inputs(rows))))
            if len(under_way) > 2 * encoding.workers:
                rows, future = under_way.popleft()
                yield rows, future.result()
        while under_way:
            rows, future = under_way.popleft()
            yield rows, future.result()
