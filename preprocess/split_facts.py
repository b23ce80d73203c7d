"""What a split holds: the number of its examples, their labels, and the digests of its files."""

from __future__ import annotations

import numpy as np

from .checksums import sha256
from .data_folder import DataFolder
from .errors import DataError


def count_examples(data: DataFolder, split: str) -> int:
    """Examples of a split.

    Raises:
        DataError: there is no such split, or its files hold different numbers of examples.
    """
    counts = {part: len(data.rows(part, split)) for part in data.inputs}
    if data.has_labels(split):
        counts["label"] = len(data.targets(split) if data.regression else data.classes(split))
    if len(set(counts.values())) > 1:
        described = ", ".join(f"{part} {count}" for part, count in counts.items())
        raise DataError(f"{data.path} {split} has different numbers of examples ({described}): preprocess it again")
    return counts["input0"]


def class_counts(data: DataFolder, split: str) -> dict[str, int]:
    """Examples of each class, in the order of the class ids.

    Raises:
        DataError: a label that label/dict.txt does not name.
    """
    classes = data.classes(split)
    unnamed = (classes < 0) | (classes >= len(data.label_names))
    if unnamed.any():
        example = int(np.flatnonzero(unnamed)[0]) + 1
        raise DataError(
            f"{data.path}/label/{split} example {example}: its label is not in label/dict.txt: preprocess it again"
        )
    counts = np.bincount(classes, minlength=len(data.label_names))
    return dict(zip(data.label_names, counts.tolist()))


def token_digests(data: DataFolder, split: str) -> dict[str, str]:
    """SHA-256 of the token file of each sentence: {"input0/train.bin": ...}."""
    names = [f"{part}/{split}.bin" for part in data.inputs]
    return {name: sha256(data.path / name) for name in names}
