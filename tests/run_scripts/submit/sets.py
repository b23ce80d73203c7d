"""Tiny test sets, as ``python -m preprocess`` leaves those of the benchmarks: without labels, with numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from tests.folders import words_dictionary, write_indexed
from tests.helpers import WORDS


def add_test_set(folder: Path, split: str, numbers: Sequence[str]) -> Path:
    """Adds pairs without labels to a folder, or makes a folder of them alone."""
    draw = random.Random(split)
    for part in ("input0", "input1"):
        rows = [[draw.randrange(6, 4 + WORDS) for _ in range(draw.randint(1, 12))] + [2] for _ in numbers]
        write_indexed(folder / part / split, rows)
        words_dictionary().save(str(folder / part / "dict.txt"))
    (folder / "number").mkdir(exist_ok=True)
    (folder / "number" / f"{split}.txt").write_text("".join(f"{number}\n" for number in numbers))
    return folder
