"""Whether a damaged file is a whole and valid one that merely says something else.

Decided without the code under test. Where nothing in a file could tell (it has no checksum, or it was written anew with
one), another answer is right; each target names the function that decides, and most have none.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any, Callable

import numpy as np
import torch

from .configurations import options, sections
from .folders import HEADER, read_rows
from .world import LABELS

Valid = Callable[[Path, Path], bool]  # (the damaged file, the same undamaged)
SPECIAL = 4
MAGIC = b"MMIDIDX\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x08"


def nothing(path: Path, original: Path) -> bool:
    """The file carries a checksum, or is compared with what a checkpoint knows: damage must be found."""
    return False


# --- binarized folders without digests -----------------------------------------------------------


def symbols(path: Path) -> list[str]:
    """Of a dict.txt; raises ValueError if there is one twice."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        symbol, count = line.rsplit(" ", 1)
        int(count)
        found.append(symbol)
    if len(set(found)) < len(found):
        raise ValueError("a symbol twice")
    return found


def rows_of(prefix: Path) -> list[list[int]]:
    """Raises ValueError unless the two files are as fairseq's builder writes them."""
    if not Path(f"{prefix}.idx").read_bytes().startswith(MAGIC):
        raise ValueError("no index of 16 bits")
    ids, lengths, starts = read_rows(prefix)
    size = Path(f"{prefix}.idx").stat().st_size
    if size != HEADER + 12 * len(lengths) or not (0 < lengths).all() or Path(f"{prefix}.bin").stat().st_size % 2:
        raise ValueError("lengths")
    if (starts != (np.cumsum(lengths) - lengths) * 2).any() or lengths.sum() != len(ids):
        raise ValueError("offsets")
    return [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])]


def folder(path: Path, original: Path, same_names: bool = False) -> bool:
    """A folder as fairseq-preprocess writes it: nothing tells that its text or labels were others."""
    try:
        parts = [part for part in ("input0", "input1") if (path / part).is_dir()]
        vocabulary = symbols(original / "input0" / "dict.txt")
        if len(parts) < 2 or any(symbols(path / part / "dict.txt") != vocabulary for part in parts):
            return False
        names = symbols(path / "label" / "dict.txt") if (original / "label" / "dict.txt").is_file() else None
        classes = [name for name in names or () if not name.startswith("madeupword")]
        if same_names and set(classes) != set(LABELS) or names is not None and len(classes) != len(LABELS):
            return False
        for split in ("train", "valid"):
            inputs = [rows_of(path / part / split) for part in parts]
            if not all(_sentence(row, SPECIAL + len(vocabulary) + 1) for rows in inputs for row in rows):
                return False
            count = len(inputs[0])
            if names is None:
                lines = (path / "label" / f"{split}.label").read_text(encoding="utf-8").splitlines()
                good = all(math.isfinite(float(line)) for line in lines)
            else:
                lines = rows_of(path / "label" / split)
                good = all(len(row) == 2 and 0 <= row[0] - SPECIAL < len(classes) and row[1] == 2 for row in lines)
            if not good or {len(rows) for rows in (*inputs, lines)} != {count}:
                return False
        return True
    except (OSError, ValueError, IndexError):
        return False


def folder_of_the_model(path: Path, original: Path) -> bool:
    """The same, read with a checkpoint, which knows the names of the classes."""
    return folder(path, original, same_names=True)


def _sentence(row: list[int], size: int) -> bool:
    """``</s>`` may stand within a text, as fairseq-preprocess reads it; <s> and <pad> are no text."""
    return row[-1] == 2 and all(2 <= token < size for token in row[:-1])


# --- checkpoints and backbones that no checksum covers --------------------------------------------


def any_run(path: Path, original: Path) -> bool:
    """The checkpoint of another run, whose method the answer names; or one without a checksum."""
    runs = [run.read_bytes() for run in original.parents[1].glob("*/checkpoint_*.pt")]
    return path.is_file() and path.read_bytes() in runs or same_run(path, original)


def same_run(path: Path, original: Path) -> bool:
    """Another checkpoint of the run in the checkpoint's place, as it was saved; or one without a checksum."""
    if not path.is_file():
        return False
    same = path.read_bytes() in [other.read_bytes() for other in original.parent.glob("*.pt")]
    return same or unsigned_checkpoint(path, original)


def backbone(path: Path, original: Path) -> bool:
    """Before any training nothing knows the weights of a backbone but the zip format's own checksums."""
    if not path.is_file() or zipfile.is_zipfile(original) and not _whole_zip(path):
        return False
    try:
        state, other = (torch.load(file, map_location="cpu", weights_only=False) for file in (path, original))
        return options(state) == options(other) and _all_alike(state["model"], other["model"])
    except Exception:  # unpickling damaged files raises anything
        return False


def unsigned_checkpoint(path: Path, original: Path) -> bool:
    """As version 0.1 wrote them, without a checksum; those of now have one, which must be taken out by hand."""
    if not backbone(path, original):
        return False
    return "checksum" not in sections(torch.load(path, map_location="cpu", weights_only=False))


def flat_tensors(path: Path, original: Path) -> bool:
    """Weights of Hugging Face, in a zip archive."""
    if not path.is_file() or not _whole_zip(path):
        return False
    try:
        return _all_alike(*(torch.load(file, map_location="cpu", weights_only=False) for file in (path, original)))
    except Exception:  # as above
        return False


def _all_alike(tensors: Any, others: Any) -> bool:
    return tensors.keys() == others.keys() and all(_alike(tensors[name], others[name]) for name in others)


def _whole_zip(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as file:
            return file.testzip() is None
    except Exception:
        return False


def _alike(one: Any, other: Any) -> bool:
    """Of the same shape, and finite; half and double precision are numbers as well."""
    if not torch.is_tensor(one) or not torch.is_tensor(other):
        return one == other or isinstance(other, dict)  # a section is judged by the answer
    floating = one.is_floating_point() == other.is_floating_point() is True
    return one.shape == other.shape and (floating or one.dtype == other.dtype) and bool(one.isfinite().all())
