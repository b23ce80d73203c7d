"""A split of a binarized folder is checked once, whole, before anything is made of it.

What passes is read by fairseq without an error and means what its dictionaries say: rows follow one another up to the
end of the file, hold ids of the vocabulary and end with ``</s>``; every example has one label of label/dict.txt, or a
finite score; all parts have as many examples; and where the folder keeps checksums, its files are those that were
written. One pass over each file, N and the tokens vectorised.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from .checksums import REMEDY, compare, sha256
from .data_folder import DataFolder
from .dictionary import EOS, SPECIAL
from .errors import InputError
from .indexed import AGAIN, IndexedRows
from .questions import question_file


def check_split(data: DataFolder, split: str) -> int:
    """N, the examples of a split; its files are read the first time only.

    Raises:
        InputError: there is no such split; a file that is missing or damaged, by its name and the example.
    """
    if split not in data.checked:
        check_names(data, split)
        counts = {part: check_sentences(data, part, split) for part in data.inputs}
        if data.has_labels(split):
            counts["label"] = check_scores(data, split) if data.regression else check_classes(data, split)
        if (data.path / question_file(split)).is_file():
            counts["question"] = (data.path / question_file(split)).read_bytes().count(b"\n")
        if len(set(counts.values())) > 1:
            described = ", ".join(f"{part} {count}" for part, count in counts.items())
            raise InputError(
                f"{data.path} {split} has different numbers of examples ({described}): preprocess it again"
            )
        compare(data.path, files_of(data, split), data.record)
        data.checked[split] = counts["input0"]
    return data.checked[split]


def files_of(data: DataFolder, split: str) -> list[str]:
    """The files that a split consists of, below the folder."""
    files = [f"{part}/{split}.{end}" for part in data.inputs for end in ("idx", "bin")]
    if data.has_labels(split):
        files += [data.label_file(split)] if data.regression else [f"label/{split}.{end}" for end in ("idx", "bin")]
    return files + [name for name in (question_file(split),) if (data.path / name).is_file()]


def check_names(data: DataFolder, split: str) -> None:
    """Raise InputError where a recorded file of the split is missing, or fairseq would read one of another format."""
    for name in data.record or ():
        if Path(name).stem == split and not (data.path / name).exists():
            raise InputError(f"{data.path / name} is missing: {REMEDY}")
    for part in (*data.inputs, "label"):
        if (data.path / part / split).exists():
            raise InputError(
                f"{data.path / part / split} beside {split}.idx would be read as raw text by fairseq: remove it"
            )


def check_rows(data: DataFolder, part: str, split: str, wrong: np.ndarray, reason: str) -> None:
    """Raise InputError for the first of N examples that is wrong."""
    if wrong.any():
        example = int(wrong.argmax()) + 1
        raise InputError(f"{data.path / part / split}.bin example {example} {reason}: {AGAIN}")


def check_sentences(data: DataFolder, part: str, split: str) -> int:
    """Return N; every row ends with ``</s>`` and holds ids of the vocabulary; no text becomes <s> or <pad>."""
    rows = data.rows(part, split)
    if len(rows):
        check_rows(data, part, split, rows.ids[rows.starts + rows.lengths - 1] != EOS, "does not end with </s>")
        lowest, highest = (bound.reduceat(rows.ids, rows.starts) for bound in (np.minimum, np.maximum))
        strange = (lowest < EOS) | (highest >= data.vocabulary)
        check_rows(data, part, split, strange, "has the id of <s> or <pad>, or one that is not in dict.txt")
    return len(rows)


def check_classes(data: DataFolder, split: str) -> int:
    """Return N; every row is one label of label/dict.txt and ``</s>``."""
    rows = IndexedRows(data.path / "label" / split)
    if len(rows):
        labels, ends = rows.ids[rows.starts].astype(np.int64) - len(SPECIAL), rows.ids[rows.starts + rows.lengths - 1]
        strange = (rows.lengths != 2) | (labels < 0) | (labels >= len(data.label_names)) | (ends != EOS)
        check_rows(data, "label", split, strange, "is not one label of label/dict.txt")
    return len(rows)


def check_scores(data: DataFolder, split: str) -> int:
    """Return N; every line is a finite number."""
    lines = data.targets(split)
    for number, line in enumerate(lines, start=1):
        if not is_score(line):
            where = f"{data.path / data.label_file(split)} line {number}"
            raise InputError(f"{where}: {line[:60]!r} is not a score, a finite number: correct it")
    return len(lines)


def is_score(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


# --- what a split holds ----------------------------------------------------------------------------


def class_counts(data: DataFolder, split: str) -> dict[str, int]:
    """Examples of each class, in the order of the class ids."""
    check_split(data, split)
    counts = np.bincount(data.classes(split), minlength=len(data.label_names))
    return dict(zip(data.label_names, counts.tolist()))


def token_digests(data: DataFolder, split: str) -> dict[str, str]:
    """SHA-256 of the token file of each sentence: {"input0/train.bin": ...}."""
    names = [f"{part}/{split}.bin" for part in data.inputs]
    return {name: sha256(data.path / name) for name in names}
