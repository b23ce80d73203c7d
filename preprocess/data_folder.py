"""A binarized sentence-prediction folder, read back: ``DATA/{input0,input1,label,number,question}``.

``check_split`` checks a whole split once, before anything is made of it. fairseq reads what passes without an error,
and its ids mean what the dictionaries say: rows follow one another up to the end of the file, hold ids of the
vocabulary and end with ``</s>``; every example has one label of label/dict.txt, or a finite score; all parts have as
many examples; and where the folder has checksums, its files are those that were written.
"""

import contextlib
import itertools
import json
import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .checksums import FOLDER_FACTS, RECORD, compare, read_checksums, sha256
from .dictionary import EOS, MASK, SPECIAL, read_dictionary, read_labels
from .errors import InputError
from .indexed import AGAIN, IndexedRows
from .questions import Questions, parse_questions, question_file

KINDS = ("train", "valid", "test")  # of splits: valid, valid1 ...
Parsed = TypeVar("Parsed")
CONTENT = (  # patterns of all files that such a folder has, ours or fairseq-preprocess's
    *(f"{part}/{name}" for part in ("input[01]", "label") for name in ("dict.txt", "*.idx", "*.bin", "preprocess.log")),
    *("label/*.label", "number/*.txt", "left_out/*.txt", "question/*.tsv", "glove/glove.json", "glove/*.npy"),
    *(FOLDER_FACTS, RECORD, "few_shot.json", "preprocess.log"),
)


class DataFolder:
    """What is in a folder that this package or fairseq-preprocess made; raise InputError where it is damaged.

    ``regression``: whether labels are numbers (default: whether there is a file of such); ``splits``: train, valid,
    valid1 ..., test ..., then others; ``label_names``: the classes in the order of their ids.
    """

    def __init__(self, path: Path, regression: bool | None = None):
        self.path = path
        if not (path / "input0" / "dict.txt").is_file():
            raise InputError(f"{path} is not a binarized folder (no input0/dict.txt): make it by python -m preprocess")
        self.inputs = tuple(part for part in ("input0", "input1") if (path / part).is_dir())
        self.splits = sorted({file.stem for file in (path / "input0").glob("*.idx")}, key=place_of_split)
        self.regression = any((path / "label").glob("*.label")) if regression is None else regression
        self.record = read_checksums(path)  # None where there is no record
        self.symbols = read_dictionary(path / "input0" / "dict.txt")
        self.vocabulary = len(self.symbols) + (MASK not in self.symbols)  # V, with <mask>
        second, label_dict = path / "input1" / "dict.txt", path / "label" / "dict.txt"
        if second.is_file() and read_dictionary(second) != self.symbols:
            raise InputError(f"{path}: input0/dict.txt and input1/dict.txt differ: preprocess the folder again")
        self.label_names = read_labels(label_dict) if label_dict.is_file() else []
        present = {f"{part}/dict.txt" for part in (*self.inputs, "label") if (path / part / "dict.txt").is_file()}
        recorded = {name for name in self.record or () if name == FOLDER_FACTS or name.endswith("/dict.txt")}
        compare(path, sorted(present | recorded), self.record)
        self.checked: dict[str, int] = {}  # examples of each split that ``check_split`` has read

    def rows(self, part: str, split: str) -> IndexedRows:
        """Return the token ids of one sentence of each example, each row with ``</s>`` at its end."""
        if split not in self.splits:
            raise InputError(f"{self.path} has no split {split}: it has {', '.join(self.splits)}")
        return IndexedRows(self.path / part / split)

    def has_labels(self, split: str) -> bool:
        return (self.path / self.label_file(split)).exists()  # whatever is there is read, or refused by its name

    def label_file(self, split: str) -> str:
        """Return where labels of a split are: "label/train.idx" or "label/train.label"."""
        return f"label/{split}.{'label' if self.regression else 'idx'}"

    def classes(self, split: str) -> np.ndarray:
        """Return N, the class of each example, counted from 0."""
        rows = IndexedRows(self.path / "label" / split)
        return rows.ids[rows.starts].astype(np.int64) - len(SPECIAL)

    def targets(self, split: str) -> list[str]:
        """Return N, the score of each example as it stands in the file."""
        lines = (self.path / self.label_file(split)).read_text(encoding="utf-8", errors="replace").split("\n")
        return [line.strip() for line in (lines if lines[-1] else lines[:-1])]

    def numbers(self, split: str) -> list[tuple[int, ...]] | None:
        """Return N, the numbers that a test set's examples have in its benchmark; None where the folder has none."""
        return self._parsed(f"number/{split}.txt", parse_numbers)

    def left_out(self, split: str) -> list[tuple[int, ...]]:
        """Return the lines of a split's raw file without an example: the examples before each, and its number."""
        return self._parsed(f"left_out/{split}.txt", parse_numbers) or []

    def questions(self, split: str) -> Questions | None:
        """Return which question each example of a split answers; None where examples are not answers."""
        return self._parsed(question_file(split), parse_questions)

    def facts(self) -> dict[str, Any]:
        """Return ``preprocess.json``; {} where there is no such file."""
        record = self.path / FOLDER_FACTS
        try:
            facts = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {}
        except (OSError, ValueError, RecursionError):
            facts = None
        if not isinstance(facts, dict):
            raise InputError(f"{record} is damaged: preprocess the folder again")
        return facts

    def _parsed(self, name: str, parse: Callable[[list[str]], Parsed]) -> Parsed | None:
        """Return what ``parse`` makes of a file's lines; None if the folder never had the file."""
        if not (self.path / name).is_file() and name not in (self.record or ()):
            return None
        compare(self.path, [name], self.record)
        with contextlib.suppress(OSError, ValueError, OverflowError):
            *lines, rest = (self.path / name).read_text(encoding="utf-8").split("\n")
            if not rest:
                return parse(lines)
        raise InputError(f"{self.path / name} is damaged: preprocess the folder again")


def joined(split: str, splits: Collection[str]) -> list[str]:
    """Return what fairseq reads as one training set: train, train1 ... up to the first that is not in ``splits``."""
    numbered = (f"{split}{number}" for number in itertools.count(1))
    return [split, *itertools.takewhile(splits.__contains__, numbered)]


def parse_numbers(lines: list[str]) -> list[tuple[int, ...]]:
    return [tuple(map(int, line.split(" "))) for line in lines]


def place_of_split(name: str) -> tuple[int, str]:
    """Sort train, valid, valid1, test, and then other names."""
    kind = name.rstrip("0123456789")
    return KINDS.index(kind) if kind in KINDS else len(KINDS), name


def token_digests(data: DataFolder, split: str) -> dict[str, str]:
    """Return the SHA-256 of each sentence's token file: {"input0/train.bin": ...}."""
    return {name: sha256(data.path / name) for name in (f"{part}/{split}.bin" for part in data.inputs)}


def has_exchanged_pairs(data: DataFolder) -> bool:
    """Return whether the second half of the training set is the first one with exchanged sentences."""
    rows = [data.rows(part, "train") for part in data.inputs] if "train" in data.splits else []
    half, odd = divmod(len(rows[0]), 2) if len(rows) == 2 else (0, 0)
    if odd or not half:
        return False
    return all(
        np.array_equal(one.lengths[:half], other.lengths[half:])
        and np.array_equal(one.ids[: one.starts[half]], other.ids[other.starts[half] :])
        for one, other in (rows, rows[::-1])
    )


def check_split(data: DataFolder, split: str) -> int:
    """Return N, the examples of a split; read and check its files the first time only."""
    if split in data.checked:
        return data.checked[split]
    for part in (*data.inputs, "label"):
        if (data.path / part / split).exists():
            raise InputError(f"{data.path / part / split} beside {split}.idx would be raw text to fairseq: remove it")
    counts = {part: _check_sentences(data, part, split) for part in data.inputs}
    files = [f"{part}/{split}.{end}" for part in data.inputs for end in ("idx", "bin")]
    if data.has_labels(split):
        counts["label"] = _check_scores(data, split) if data.regression else _check_classes(data, split)
        files += [data.label_file(split)] if data.regression else [f"label/{split}.idx", f"label/{split}.bin"]
    if (data.path / question_file(split)).is_file():
        counts["question"] = (data.path / question_file(split)).read_bytes().count(b"\n")
        files.append(question_file(split))
    if len(set(counts.values())) > 1:
        described = ", ".join(f"{part} {count}" for part, count in counts.items())
        raise InputError(f"{data.path} {split} has different numbers of examples ({described}): preprocess it again")
    # recorded files too: one that is missing, such as labels, would seem not to be wanted
    recorded = [name for name in data.record or () if Path(name).stem == split]
    compare(data.path, dict.fromkeys([*files, *recorded]), data.record)
    data.checked[split] = counts["input0"]
    return counts["input0"]


def _check_rows(data: DataFolder, part: str, split: str, wrong: np.ndarray, reason: str) -> None:
    if wrong.any():
        example = int(wrong.argmax()) + 1
        raise InputError(f"{data.path / part / split}.bin example {example} {reason}: {AGAIN}")


def _check_sentences(data: DataFolder, part: str, split: str) -> int:
    """Return N; raise InputError unless every row ends with ``</s>``, and has ids of the vocabulary that text has."""
    rows = data.rows(part, split)
    if len(rows):
        _check_rows(data, part, split, rows.ids[rows.starts + rows.lengths - 1] != EOS, "does not end with </s>")
        lowest, highest = (bound.reduceat(rows.ids, rows.starts) for bound in (np.minimum, np.maximum))
        strange = (lowest < EOS) | (highest >= data.vocabulary)
        _check_rows(data, part, split, strange, "has the id of <s> or <pad>, or one that is not in dict.txt")
    return len(rows)


def _check_classes(data: DataFolder, split: str) -> int:
    """Return N; raise InputError unless every row is one label of label/dict.txt and ``</s>``."""
    rows = IndexedRows(data.path / "label" / split)
    if len(rows):
        labels, ends = data.classes(split), rows.ids[rows.starts + rows.lengths - 1]
        strange = (rows.lengths != 2) | (labels < 0) | (labels >= len(data.label_names)) | (ends != EOS)
        _check_rows(data, "label", split, strange, "is not one label of label/dict.txt")
    return len(rows)


def _check_scores(data: DataFolder, split: str) -> int:
    """Return N; raise InputError unless every line is a finite number."""
    lines = data.targets(split)
    for number, line in enumerate(lines, start=1):
        with contextlib.suppress(ValueError):
            if math.isfinite(float(line)):
                continue
        where = f"{data.path / data.label_file(split)} line {number}"
        raise InputError(f"{where}: {line[:60]!r} is not a score, a finite number: correct it")
    return len(lines)
