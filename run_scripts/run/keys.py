"""Dataclasses from mappings that somebody wrote: OmegaConf knows keys and types, the check of a key all else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from omegaconf import OmegaConf, read_write
from omegaconf.errors import OmegaConfBaseException

from preprocess.errors import InputError, did_you_mean
from preprocess.flags import LARGEST_SEED

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Check = Callable[[Any, str], Any]  # (value, where it stands) -> the value as it is used, or an InputError
Kind = TypeVar("Kind", bound="DataclassInstance")
REMEDIES = {  # what is said of a value that has not the type that begins so
    **dict.fromkeys(("list", "tuple"), " is not a list with something in it: write [..]"),
    "dict": " is no mapping of names to values: write {NAME: VALUE}",
    "bool": ": write true or false",
    "int": ": write a whole number",
    "float": " is no learning rate: write it as 5.0e-3",
    "str": " is no text: write a name or path",
    "Any": " is nothing that can stand here: write a text or a number",
}


def key(check: Check, empty: bool = False, **default: Any) -> Any:
    """A field whose value must pass ``check``, or each of its values where it is a list, which may be ``empty``."""
    return field(metadata={"check": check, "empty": empty}, **default)


def filled(kind: type[Kind], found: Any, where: str) -> Kind:
    """A dataclass from a mapping with its keys and no others, and with values of their types.

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
    config = OmegaConf.structured(kind)
    return kind(**{name: _value(config, known[name], value, f"{where}: {name}") for name, value in found.items()})


def _value(config: Any, item: Field, value: Any, where: str) -> Any:
    check, kind = item.metadata.get("check", usual), item.type
    many = isinstance(value, list) and kind.startswith(("list", "tuple"))
    if many:
        if not value and not item.metadata.get("empty"):
            raise InputError(f"{where} {value!r}{REMEDIES['list']}")
        kind = kind[kind.index("[") + 1 : kind.index("]")]
    found = []
    for each in value if many else [value]:
        if not _has_type(config, item.name, [each] if many else each, exact=not kind.startswith("float")):
            remedy = next(said for part, said in REMEDIES.items() if kind.startswith(part))
            raise InputError(f"{where} {each!r}{remedy}")
        found.append(None if each is None and "None" in kind else check(each, where))
    return found if many else found[0]


def _has_type(config: Any, name: str, value: Any, exact: bool) -> bool:
    """Whether OmegaConf takes a value for a key; if it must be ``exact``, as it stands: 7 is not true, nor "7" 7."""
    with contextlib.suppress(OmegaConfBaseException), read_write(config):
        config[name] = value
        taken: Any = OmegaConf.to_container(config)
        return not exact or repr(taken[name]) == repr(value)
    return False


def usual(value: Any, where: str) -> Any:
    """For keys without a check of their own: a text, or a number from 0 on."""
    if isinstance(value, str):
        return text(value, where)
    return least(0)(value, where) if isinstance(value, int) else value


def text(value: Any, where: str) -> str:
    """A text that can be shown on a line."""
    if not isinstance(value, str) or not value.isprintable() or not value:
        raise InputError(f"{where} {value!r}{REMEDIES['str']}")
    return value


def least(number: int) -> Check:
    """A whole number that is not too small."""

    def check(value: Any, where: str) -> int:
        if not isinstance(value, int) or value < number:
            raise InputError(f"{where} {value!r}: write a whole number from {number} on")
        return value

    return check


def random_seed(value: Any, where: str) -> int:
    """What numpy takes for one."""
    if not isinstance(value, int) or not 0 <= value <= LARGEST_SEED:
        raise InputError(f"{where} {value!r}: write a whole number from 0 to {LARGEST_SEED}")
    return value


def rate(value: Any, where: str) -> float:
    """A learning rate; YAML takes 5e-3, without a point, for a text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 < number < float("inf"):
        raise InputError(f"{where} {value!r}{REMEDIES['float']}")
    return number


def share(value: Any, where: str) -> float:
    """A part of 1, less than all of it."""
    if not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise InputError(f"{where} {value!r}: write a share from 0 up to 1, such as 0.06")
    return float(value)


def one_of(known: Iterable[str]) -> Check:
    """One of some names, in upper or lower case."""
    by_lower = {item.lower(): item for item in known}

    def check(value: Any, where: str) -> str:
        if str(value).lower() not in by_lower:
            raise unknown(where, value, by_lower.values())
        return by_lower[str(value).lower()]

    return check


def unknown(what: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that is none of the known ones."""
    known = list(known)
    hint = did_you_mean(str(name), known, any_case=True)
    shown = name if str(name).isprintable() else repr(name)
    return InputError(f"{what} {shown} is unknown: {hint}Known: {', '.join(known)}")
