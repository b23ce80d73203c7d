"""Tables of the papers besides IDPG that count parameters or seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import mean
from typing import Any

from preprocess.errors import InputError

from .counts import own_logging
from .notes import seeds_of, variants_note
from .papers import PaperCosts
from .render import MISSING, Table
from .runs import Results, Run, on_one_hardware
from .scope import Choice, take_runs
from .scores import rows_of

KINDS = ("training", "prediction", "convergence")
OURS = {
    "training": "training: seconds of an update (fairseq's clock) by the batch size, which --max-tokens may cut short",
    "prediction": "prediction: seconds for an example of the reported split, in batches of 64, with loading of batches "
    "and, where an earlier pass has kept it, of M(x)",
    "convergence": "seconds of an update (fairseq's clock) times the updates before the best checkpoint",
}


def per_example(run: Run) -> float | None:
    seconds, batch = run.get("seconds_per_update"), run.get("batch_size")
    return None if seconds is None or batch is None else seconds / batch


def until_the_best(run: Run) -> float | None:
    seconds, updates = run.get("seconds_per_update"), run.get("best_update")
    return None if seconds is None or updates is None else seconds * updates


OF_RUN: dict[str, Callable[[Run], float | None]] = {
    "training": per_example,
    "prediction": lambda run: run.get("seconds_per_prediction"),
    "convergence": until_the_best,
}


def costs_table(spec: PaperCosts, results: Results, choice: Choice) -> Table:
    return parameter_table(spec, choice) if "counts" in spec.values else seconds_table(spec, results, choice)


def seconds_table(spec: PaperCosts, results: Results, choice: Choice) -> Table:
    """Seconds of ours, of the paper's machine, and how many times ours are; of the runs that a report shows.

    Raises:
        InputError: see ``take_runs``.
    """
    columns = tuple(column for column in spec.values["columns"] if not choice.tasks or column in choice.tasks)
    if not columns:
        raise InputError(f"--tasks {' '.join(choice.tasks)}: choose from {', '.join(spec.values['columns'])}")
    scope = take_runs(results, replace(choice, tasks=columns))
    rows, groups = rows_of(scope.done, failed=scope.failed), []
    runs = {name: [run for score in row.values() for run in score.runs] for name, row in rows.items()}
    timed, left_out = on_one_hardware(runs)
    kinds = [kind for kind in KINDS if kind in spec.values]
    papers = {kind: spec.values[kind] for kind in kinds}
    for name in choice.pick([*papers[kinds[0]], *rows]) if choice.rows else papers[kinds[0]]:
        for kind in kinds:
            ours = [_mean(_of_task(timed.get(name, []), column), OF_RUN[kind]) for column in columns]
            theirs = [papers[kind].get(name, {}).get(column) for column in columns]
            lines = [[name, kind, "ours", *map(seconds_text, ours)]]
            if name in papers[kind]:
                lines.append([name, kind, "paper", *map(seconds_text, theirs)])
            groups.append(lines)
    notes = [*(OURS[kind] for kind in kinds), spec.values["said"], variants_note(scope.done, "")]
    notes.append(f"ours: means over seeds {', '.join(map(str, seeds_of(scope)))} at the chosen learning rate")
    notes += left_out
    notes.append("seconds of different machines cannot be compared, those of two rows on one machine can")
    return Table(spec.heading, 3, ["method", "of", "values", *columns], groups, notes)


def _of_task(runs: Iterable[Run], task: str) -> list[Run]:
    return [run for run in runs if run["task"] == task]


def _mean(runs: Iterable[Run], value: Callable[[Run], float | None]) -> float | None:
    known = [found for run in runs if (found := value(run)) is not None]
    return mean(known) if known else None


def seconds_text(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:,.0f}" if value >= 10 else f"{value:.3f}"


def parameter_table(spec: PaperCosts, choice: Choice) -> Table:
    """Parameters counted by building the modules, and the paper's, for each architecture; runs say nothing of it."""
    groups = []
    rows: dict[str, dict[str, Any]] = spec.values["counts"]
    for name in choice.pick(rows):
        row = rows[name]
        lines = []
        for arch in (key for key in row if key.startswith("roberta_idpg")):
            ours, theirs = counted(arch, row["method"], row.get("options", {})), row[arch]
            lines.append([name, arch, f"{ours:,}", f"{theirs:,}", f"{ours / theirs - 1:+.1%}"])
        groups.append(lines)
    notes = ["ours: counted by building the modules; classification heads are not counted"]
    return Table(spec.heading, 2, ["method", "architecture", "ours", "paper", "difference"], groups, notes)


def counted(arch: str, method: str, options: dict[str, Any]) -> int:
    with own_logging():
        from fairseq_idpg.count import count_preset  # loads torch and fairseq: only where it is needed

    found = count_preset(arch, method, **{name.replace("-", "_"): value for name, value in options.items()})
    return found.own or found.of_backbone
