"""Whether a damaged text is a whole and valid one that says something else; see ``valid``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import yaml

from .valid import symbols
from .world import LABELS


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
    except (OSError, ValueError, TypeError, yaml.YAMLError, RecursionError):
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
