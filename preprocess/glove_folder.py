"""``DATA/glove``, read back: the mean word vectors that ``python -m preprocess glove`` left in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .checksums import sha256
from .data_folder import DataFolder
from .errors import InputError
from .split_facts import token_digests
from .vector_files import UNREADABLE, open_array

REMEDY = "run python -m preprocess glove --vectors FILE --data"
GLOVE_FACTS, SUMS = "glove.json", "means_sha256"


def read_facts(folder: Path) -> dict[str, Any]:
    """What glove.json says: ``dim``, ``sha256`` of the text, ``means_sha256`` of the vectors and more.

    Raises:
        InputError: it is missing or damaged.
    """
    path = folder / "glove" / GLOVE_FACTS
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        sums = (facts["sha256"], facts.get(SUMS, {}))
        if not isinstance(facts["dim"], int) or facts["dim"] < 1 or not all(isinstance(part, dict) for part in sums):
            raise ValueError(facts["dim"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path} is missing or damaged: {REMEDY} {folder}") from None
    return facts


def read_means(data: DataFolder, split: str, warn: Callable[[str], object]) -> np.ndarray:
    """N x dim float32, mapped into memory; ``warn`` is told when nothing says whether they are whole.

    Raises:
        InputError: the file is missing, damaged, or made from other text.
    """
    facts, path = read_facts(data.path), data.path / "glove" / f"{split}.npy"
    damaged = InputError(f"{path} is missing or damaged: {REMEDY} {data.path} --overwrite")
    if not path.is_file():
        raise damaged
    text = token_digests(data, split)
    if any(facts["sha256"].get(name) != digest for name, digest in text.items()):
        raise InputError(
            f"{path} was made from other text than {data.path} holds now: {REMEDY} {data.path} --overwrite"
        )
    try:
        if SUMS in facts and facts[SUMS].get(path.name) != sha256(path):
            raise damaged
        means = open_array(path)
    except UNREADABLE:
        raise damaged from None
    if SUMS not in facts:
        warn(
            f"{path.parent / GLOVE_FACTS} is of an earlier version and has no checksums of the vectors: {REMEDY} "
            f"{data.path}"
        )
        if means.ndim != 2 or means.dtype.kind != "f" or not np.isfinite(means).all():
            raise damaged
    return means


def write_facts(folder: Path, facts: dict[str, Any]) -> None:
    """glove.json of ``folder`` (DATA/glove), whose vectors are written already."""
    sums = {path.name: sha256(path) for path in sorted(folder.glob("*.npy"))}
    (folder / GLOVE_FACTS).write_text(f"{json.dumps({**facts, SUMS: sums}, indent=2)}\n", encoding="utf-8")
