"""Dataclasses from YAML: each field says what its value must be, and whatever is not so is one line of error."""

from __future__ import annotations

from dataclasses import MISSING, field, fields
from difflib import get_close_matches
from typing import Any, Callable, Iterable, TypeVar

import yaml

from preprocess.errors import InputError

Check = Callable[[Any, str], Any]  # (value, where it stands) -> the value as it is used, or a InputError
Kind = TypeVar("Kind")


class KeyTwice(yaml.YAMLError):
    """A mapping has a key twice."""


class UniqueKeys(yaml.SafeLoader):
    """YAML whose mappings have every key once: of two, PyYAML takes the last without a word."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)  # before what "<<" names is merged into it
        seen: dict[str, yaml.Node] = {}
        for name in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if (first := seen.setdefault(name.value, name)) is not name:
                lines = f"lines {first.start_mark.line + 1} and {name.start_mark.line + 1}"
                raise KeyTwice(f"key {name.value} stands twice, on {lines}")
        return node


def read_yaml(source: str | bytes, where: str) -> Any:
    """What a YAML text holds: plain values, lists and mappings.

    Raises:
        InputError: it is no YAML, or a key stands twice.
    """
    try:
        return yaml.load(source, UniqueKeys)  # a SafeLoader
    except KeyTwice as error:
        raise InputError(f"{where}: {error}: leave one out") from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:  # "!!bool maybe"
        raise InputError(f"{where} is no YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InputError(f"{where}: it is nested too deeply: write it flat") from None


def key(check: Check, **default: Any) -> Any:
    """A field whose value must pass ``check``."""
    return field(metadata={"check": check}, **default)


def parsed(kind: type[Kind], found: Any, where: str) -> Kind:
    """A dataclass of ``key`` fields from a mapping with its keys and no others.

    Raises:
        InputError: a key is missing or not known, or its value is wrong.
    """
    if not isinstance(found, dict):
        raise InputError(f"{where}: {found!r} is no mapping of keys to values")
    known = {item.name: item for item in fields(kind)}
    for name in found:
        if name not in known:
            raise unknown(f"{where}: key", name, known)
    for name, item in known.items():
        if name not in found and item.default is item.default_factory is MISSING:
            raise InputError(f"{where}: {name} is missing: write it")
    return kind(**{name: known[name].metadata["check"](value, f"{where}: {name}") for name, value in found.items()})


def unknown(what: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that is none of the known ones."""
    by_lower = {item.lower(): item for item in known}
    near = get_close_matches(str(name).lower(), by_lower, 1)
    hint = f"did you mean {by_lower[near[0]]}? " if near else ""
    shown = name if str(name).isprintable() else repr(name)
    return InputError(f"{what} {shown} is unknown: {hint}Known: {', '.join(by_lower.values())}")


def text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.isprintable() or not value:
        raise InputError(f"{where} {value!r} is no text: write a name or path")
    return value


def one_of(known: Iterable[str]) -> Check:
    """One of some names, in upper or lower case."""
    by_lower = {item.lower(): item for item in known}

    def check(value: Any, where: str) -> str:
        if str(value).lower() not in by_lower:
            raise unknown(where, value, by_lower.values())
        return by_lower[str(value).lower()]

    return check


def whole(least: int) -> Check:
    """A whole number."""

    def check(value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(f"{where} {value!r}: write a whole number from {least} on")
        return value

    return check


def rate(value: Any, where: str) -> float:
    """A learning rate; YAML takes 5e-3, without a point, for a text."""
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 < number < float("inf"):
        raise InputError(f"{where} {value!r} is no learning rate: write it as 5.0e-3")
    return number


def yes_or_no(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{where} {value!r}: write true or false")
    return value


def optional(check: Check) -> Check:
    return lambda value, where: None if value is None else check(value, where)


def list_of(check: Check, empty: bool = False) -> Check:
    def check_all(value: Any, where: str) -> list[Any]:
        if not isinstance(value, list) or not (value or empty):
            raise InputError(f"{where} {value!r} is not a list with something in it: write [..]")
        return [check(item, where) for item in value]

    return check_all
