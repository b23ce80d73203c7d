"""A binarized sentence-prediction folder, read back: ``DATA/{input0,input1,label}``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .dictionary import SPECIAL, read_labels
from .errors import DataError
from .indexed import IndexedRows

KINDS = ("train", "valid", "test")  # of splits: valid, valid1 ...


class DataFolder:
    """What is in a folder that this package or fairseq-preprocess made.

    ``inputs``: ("input0",) or ("input0", "input1"); ``splits``: train, valid, valid1 ..., test ...;
    ``regression``: whether labels are numbers; ``label_names``: the classes in the order of their ids.

    Raises:
        DataError: the folder does not exist or is not such a folder.
    """

    def __init__(self, path: Path):
        self.path = path
        if not (path / "input0" / "dict.txt").is_file():
            raise DataError(f"{path} is not a binarized folder (no input0/dict.txt): make it with python -m preprocess")
        self.inputs = tuple(part for part in ("input0", "input1") if (path / part).is_dir())
        names = {file.stem for file in (path / "input0").glob("*.idx")}
        self.splits = sorted(
            names, key=lambda name: (["train", "valid", "test"].index(name.rstrip("0123456789")), name)
        )
        self.regression = any((path / "label").glob("*.label"))
        has_names = (path / "label" / "dict.txt").is_file()
        self.label_names = read_labels(path / "label" / "dict.txt") if has_names else []

    def rows(self, part: str, split: str) -> IndexedRows:
        """Token ids of one sentence of each example, ``</s>`` at the end of each row."""
        if split not in self.splits:
            raise DataError(f"{self.path} has no split {split}: it has {', '.join(self.splits)}")
        return IndexedRows(self.path / part / split)

    def has_labels(self, split: str) -> bool:
        name = f"{split}.label" if self.regression else f"{split}.idx"
        return (self.path / "label" / name).is_file()

    def classes(self, split: str) -> np.ndarray:
        """N, the class of each example, counted from 0."""
        rows = IndexedRows(self.path / "label" / split)
        return rows.ids[rows.starts].astype(np.int64) - len(SPECIAL)

    def targets(self, split: str) -> list[str]:
        """N, the number of each example as it stands in the file, for regression."""
        return (self.path / "label" / f"{split}.label").read_text(encoding="utf-8").split()
