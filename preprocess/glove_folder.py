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
        whole = isinstance(facts["dim"], int) and facts["dim"] > 0 and all(isinstance(part, dict) for part in sums)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise InputError(f"{path} is missing or damaged: {REMEDY} {folder}")
    return facts


def read_means(data: DataFolder, split: str, warn: Callable[[str], object]) -> np.ndarray:
    """N x dim float32, mapped into memory; ``warn`` is told when nothing says whether they are whole.

    Raises:
        InputError: the file is missing, damaged, or made from other text.
    """
    facts, path = read_facts(data.path), data.path / "glove" / f"{split}.npy"
    if any(facts["sha256"].get(name) != digest for name, digest in token_digests(data, split).items()):
        raise InputError(f"{path} was made from other text than {data.path} holds: {REMEDY} {data.path} --overwrite")
    try:
        means = open_array(path)
        if SUMS not in facts:
            warn(f"{path.parent / GLOVE_FACTS} is of an earlier version, without checksums: {REMEDY} {data.path}")
            whole = means.ndim == 2 and means.dtype.kind == "f" and bool(np.isfinite(means).all())
        else:
            whole = facts[SUMS].get(path.name) == sha256(path)
    except UNREADABLE:
        whole = False
    if not whole:
        raise InputError(f"{path} is missing or damaged: {REMEDY} {data.path} --overwrite")
    return means


def write_facts(folder: Path, facts: dict[str, Any]) -> None:
    """glove.json of ``folder`` (DATA/glove), whose vectors are written already."""
    sums = {path.name: sha256(path) for path in sorted(folder.glob("*.npy"))}
    (folder / GLOVE_FACTS).write_text(f"{json.dumps({**facts, SUMS: sums}, indent=2)}\n", encoding="utf-8")
