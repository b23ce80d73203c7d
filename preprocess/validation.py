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

from .checksums import REMEDY, compare
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
    """No recorded file of the split is missing, and none stands in the way."""
    for name in data.record or ():
        if Path(name).stem == split and not (data.path / name).exists():
            raise InputError(f"{data.path / name} is missing: {REMEDY}")
    for part in (*data.inputs, "label"):
        if (data.path / part / split).exists():
            raise InputError(
                f"{data.path / part / split} stands beside {split}.idx, and fairseq would read it as raw text: remove "
                "it, and preprocess the folder again if it was made with --dataset-impl raw"
            )


def check_sentences(data: DataFolder, part: str, split: str) -> int:
    """Every row ends with ``</s>`` and holds ids of the vocabulary; no text becomes <s> or <pad>."""
    rows = data.rows(part, split)
    if not len(rows):
        return 0
    name = f"{data.path / part / split}.bin"
    open_ended = rows.ids[rows.starts + rows.lengths - 1] != EOS
    if open_ended.any():
        raise InputError(f"{name} example {int(open_ended.argmax()) + 1} does not end with </s>: {AGAIN}")
    lowest, highest = int(rows.ids.min()), int(rows.ids.max())
    if lowest < EOS or highest >= data.vocabulary:
        wrong = highest if highest >= data.vocabulary else lowest
        example = int(np.searchsorted(rows.starts, int((rows.ids == wrong).argmax()), side="right"))
        reason = f"not one of the {data.vocabulary} of dict.txt" if wrong == highest else "<s> or <pad> within text"
        raise InputError(f"{name} example {example} has the id {wrong}, {reason}: {AGAIN}")
    return len(rows)


def check_classes(data: DataFolder, split: str) -> int:
    """Every row is one label of label/dict.txt and ``</s>``."""
    rows = IndexedRows(data.path / "label" / split)
    if not len(rows):
        return 0
    wrong = rows.lengths != 2
    if wrong.any():
        raise InputError(f"{data.path}/label/{split}.bin example {int(wrong.argmax()) + 1} is not one label: {AGAIN}")
    labels, ends = rows.ids[rows.starts].astype(np.int64) - len(SPECIAL), rows.ids[rows.starts + 1]
    wrong = (labels < 0) | (labels >= len(data.label_names)) | (ends != EOS)
    if wrong.any():
        example = int(wrong.argmax()) + 1
        raise InputError(f"{data.path}/label/{split} example {example}: its label is not in label/dict.txt: {AGAIN}")
    return len(rows)


def check_scores(data: DataFolder, split: str) -> int:
    """Every line is a finite number."""
    lines = data.targets(split)
    for number, line in enumerate(lines, start=1):
        if not is_score(line):
            raise InputError(
                f"{data.path / data.label_file(split)} line {number}: {line[:60]!r} is not a score, a finite number: "
                f"correct the line, or {AGAIN}"
            )
    return len(lines)


def is_score(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
