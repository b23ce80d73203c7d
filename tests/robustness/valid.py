"""Whether a damaged file is a whole and valid one that merely says something else.

Decided without the code under test. Where nothing in a file could tell (it has no checksum, or it was written anew with
one), another answer is right; each target names the function that decides, and most have none.
"""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any, Callable

import numpy as np
import torch
import yaml

from .checkpoints import options
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


def same_run(path: Path, original: Path) -> bool:
    """Another checkpoint of the run in the checkpoint's place, as it was saved."""
    if not path.is_file():
        return False
    return path.read_bytes() in [other.read_bytes() for other in original.parent.glob("*.pt")]


def backbone(path: Path, original: Path) -> bool:
    """Before any training nothing knows the weights of a backbone but the zip format's own checksums."""
    if not path.is_file() or zipfile.is_zipfile(original) and not _whole_zip(path):
        return False
    try:
        state, other = (torch.load(file, map_location="cpu", weights_only=False) for file in (path, original))
        return options(state) == options(other) and _all_alike(state["model"], other["model"])
    except Exception:  # unpickling damaged files raises anything
        return False


def old_checkpoint(path: Path, original: Path) -> bool:
    """Checkpoints of version 0.1 kept no checksum; those of now have none of this."""
    return backbone(path, original)


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
    return torch.is_tensor(one) and one.shape == other.shape and one.dtype == other.dtype and bool(one.isfinite().all())


def hf_texts(path: Path, original: Path) -> bool:
    """config.json with the same kinds of values, vocab.txt with as many tokens: nothing tells that they were others."""
    try:
        config, other = (json.loads((place / "config.json").read_text(encoding="utf-8")) for place in (path, original))
        tokens, others = ((place / "vocab.txt").read_text(encoding="utf-8") for place in (path, original))
        lines = tokens.split("\n")
        return (
            _like(config, other) and len(set(lines)) == len(others.split("\n")) == len(lines) and "" not in lines[:-1]
        )
    except (OSError, ValueError, AttributeError):
        return False


# --- text ----------------------------------------------------------------------------------------


def raw_rte(path: Path, original: Path) -> bool:
    """Another text, every line of it with the columns and labels that RTE has; its test set need not be there."""
    if path.name == "test.tsv" and not path.exists():
        return True
    try:
        header, *lines = path.read_bytes().decode("utf-8").rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError):
        return False
    if header.rstrip("\r").split("\t") != original.read_text().split("\n")[0].split("\t") or not lines:
        return False
    rows = [line.rstrip("\r").split("\t") for line in lines]
    columns = header.count("\t") + 1
    labels = {row[-1].strip() for row in rows if columns == 4}  # the test set has none
    return "\0" not in "".join(lines) and {len(row) for row in rows} == {columns} and labels <= set(LABELS)


def raw_scores(path: Path, original: Path) -> bool:
    try:
        lines = path.read_bytes().decode("utf-8").rstrip("\n").split("\n")
        rows = [line.rstrip("\r").split("\t") for line in lines]
        finite = all(math.isfinite(float(row[2])) for row in rows)
    except (OSError, ValueError, IndexError):
        return False
    return finite and {len(row) for row in rows} == {3} and "\0" not in "".join(lines)


def vocabulary(path: Path, original: Path) -> bool:
    """All 256 bytes of GPT-2's vocabulary, each with a number of its own, and a dictionary with each symbol once.

    A dictionary that lacks a piece which no sentence has is the dictionary of another model: training compares it.
    """
    try:
        pieces = json.loads((path / "encoder.json").read_text(encoding="utf-8"))
        listed = symbols(path / "dict.txt")
        merges = (path / "vocab.bpe").read_text(encoding="utf-8")
        others = json.loads((original / "encoder.json").read_text(encoding="utf-8"))
        return (
            pieces.keys() == others.keys()
            and sorted(pieces.values()) == list(range(len(pieces)))
            and len(listed) > 0
            and not merges.partition("\n")[2].strip()
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def results(path: Path, original: Path) -> bool:
    """Lines of whole records whose values have the types, and the strings and signs, of some record of a sweep."""
    try:
        model = json.loads(original.read_text(encoding="utf-8").split("\n")[0])
        text = path.read_text(encoding="utf-8")
        records = [json.loads(line, object_pairs_hook=_unique) for line in text.split("\n")[:-1]]
    except (OSError, ValueError, RecursionError):
        return False
    return text.endswith("\n") and all(_like(record, model) for record in records)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _like(value: Any, model: Any) -> bool:
    """The same keys and types; numbers finite and not negative; text that is not empty."""
    if isinstance(model, dict):
        return (
            isinstance(value, dict) and value.keys() == model.keys() and all(_like(value[k], model[k]) for k in model)
        )
    if isinstance(model, float):
        return type(value) in (int, float) and math.isfinite(value) and 0 <= value
    if model is None:
        return value is None or type(value) is int and value >= 0
    return type(value) is type(model) and value != "" and (not isinstance(model, int) or value >= 0)


class _OneOfEach(yaml.SafeLoader):
    """Raises where a mapping has a key twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        keys = [key.value for key, _ in node.value]
        if len(set(keys)) < len(keys):
            raise yaml.YAMLError("a key twice")
        return super().construct_mapping(node, deep)


def sweep(path: Path, original: Path) -> bool:
    """Other values of the same kinds under the same keys, or fewer keys."""
    try:
        keys = yaml.load(path.read_text(encoding="utf-8"), _OneOfEach)
        model = yaml.safe_load(original.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return False
    return isinstance(keys, dict) and keys.keys() <= model.keys() and all(_kind(keys[k], model[k]) for k in keys)


def _kind(value: Any, model: Any) -> bool:
    if isinstance(model, dict):
        return isinstance(value, dict) and all(_kind(value[name], model[name]) for name in value if name in model)
    if isinstance(model, list):
        return isinstance(value, list) and len(value) > 0
    if isinstance(model, float):
        return type(value) in (int, float) and 0 < value < math.inf
    return type(value) is type(model) and value != ""
