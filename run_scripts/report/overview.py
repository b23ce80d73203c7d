"""What a folder of results holds."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Iterable

from .render import NOTHING, Table
from .runs import Results, Run, backbone_label, grouped, is_done

SCOPE: dict[str, Callable[[Run], str]] = {  # the columns that tell the lines apart
    "setting": lambda run: run["setting"],
    "K": lambda run: NOTHING if run["k"] is None else str(run["k"]),
    "selection": lambda run: run["selection"],
    "backbone": backbone_label,
    "row": lambda run: run["row"],
}
VARIED = {  # key of a run -> column that lists its values
    "task": "tasks",
    "position": "positions",
    "supplementary_position": "supplementary",
    "prompt_length": "lengths",
    "lr": "learning rates",
    "seed": "seeds",
}


def overview(results: Results) -> Table:
    """A line for each setting, selection, backbone and row."""
    runs = results.runs
    lines = [
        [*key, *(_values(group, name) for name in VARIED), str(_done(group)), str(len(group) - _done(group))]
        for key, group in grouped(runs, lambda run: tuple(column(run) for column in SCOPE.values())).items()
    ]
    header = [*SCOPE, *VARIED.values(), "finished", "failed"]
    title = f"{results.folder}: {len(runs)} runs, {_done(runs)} finished, {len(runs) - _done(runs)} failed"
    errors = Counter(str(run.get("error") or "no message") for run in runs if not is_done(run))
    notes = [f"{count} failed: {error}" for error, count in errors.most_common()]
    return Table(title, len(header) - 2, header, [[line] for line in lines], notes)


def _done(runs: Iterable[Run]) -> int:
    return sum(map(is_done, runs))


def _values(runs: Iterable[Run], key: str) -> str:
    found: set[Any] = {run[key] for run in runs if run.get(key) is not None}
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in sorted(found)) or NOTHING
