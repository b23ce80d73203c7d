"""What a split holds: the number of its examples, their labels, and the digests of its files."""

from __future__ import annotations

import numpy as np

from .checksums import sha256
from .data_folder import DataFolder
from .validation import check_split


def count_examples(data: DataFolder, split: str) -> int:
    """Examples of a split, whose files are checked.

    Raises:
        InputError: see ``validation.check_split``.
    """
    return check_split(data, split)


def class_counts(data: DataFolder, split: str) -> dict[str, int]:
    """Examples of each class, in the order of the class ids."""
    check_split(data, split)
    counts = np.bincount(data.classes(split), minlength=len(data.label_names))
    return dict(zip(data.label_names, counts.tolist()))


def token_digests(data: DataFolder, split: str) -> dict[str, str]:
    """SHA-256 of the token file of each sentence: {"input0/train.bin": ...}."""
    names = [f"{part}/{split}.bin" for part in data.inputs]
    return {name: sha256(data.path / name) for name in names}
