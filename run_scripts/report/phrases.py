"""Parts of what is said under a table: values of runs, and the rows, tasks and prompts that have them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from .record_schema import PROMPT
from .runs import Run, grouped


def places_of(run: Run, runs: Collection[Run]) -> str:
    """What of a run's prompt others of ``runs`` have otherwise."""
    differing = [key for key in PROMPT if len({other[key] for other in runs}) > 1]
    return "".join(f", {key.replace('_', ' ')} {run[key]}" for key in differing)


def distinct(runs: Iterable[Run], value: Callable[[Run], Any]) -> str:
    return ", ".join(map(str, sorted({value(run) for run in runs})))


def rows_by_place(found: Mapping[str, list[str]]) -> str:
    """Place -> rows; the place "" is everywhere."""
    return "; ".join(", ".join(rows) + (place and f" on {place}") for place, rows in found.items())


def of_rows(runs: Iterable[Run], value: Callable[[Run], str]) -> str:
    """The value that all runs have, or each with the rows that have it."""
    found = {each: dict.fromkeys(run["row"] for run in group) for each, group in grouped(runs, value).items()}
    return ", ".join(f"{each} ({', '.join(found[each])})" if len(found) > 1 else each for each in sorted(found))
