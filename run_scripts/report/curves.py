"""The score on the development set over the updates, of the runs whose scores a table shows."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from preprocess.errors import InputError

from .drawing import Chart, Panel, Series
from .figures import tasks_of
from .notes import failures, fewer_seeds, protocol, seeds_of
from .render import MISSING, Table
from .runs import Results, task_label
from .scope import Choice, take_runs
from .scores import DIGITS, RowScores, Score, rows_of
from .tables import score_text

HEADER = ["task", "method", "lr", "first", "half", "best", "at update", "last", "updates"]
SAID = (
    "scores: means over seeds {} of the score on the development set, x100: at the first validation, the one nearest "
    "to half of the updates, the best and the last; at the learning rate with the best mean dev score",
    "the checkpoint of each run is that of its own best validation",
)


def curve_of(score: Score) -> list[tuple[float, float]]:
    """(updates, mean over seeds) where all of the seeds were validated; of a run that does not say, nothing."""
    curves = [{updates: dev for updates, dev in run.get("dev_curve") or ()} for run in score.runs]
    shared = set.intersection(*map(set, curves))
    return [(updates, mean(curve[updates] for curve in curves)) for updates in sorted(shared)]


def unshared(rows: Mapping[str, RowScores]) -> list[str]:
    """Where a mean leaves validations out: batches of at most so many tokens end epochs at a seed's own updates.

    And where there are none, as in old records.
    """
    parts, silent = [], []
    for row, of_row in rows.items():
        for task, score in of_row.items():
            most = max(len(run.get("dev_curve") or ()) for run in score.runs)
            if not most:
                silent.append(f"{row} on {task}")
            elif (shared := len(curve_of(score))) < most:
                parts.append(f"{row} on {task} has {shared} of {most}")
    said = {
        "validations that not all seeds have after the same updates are left out": parts,
        "no line, as the records do not say the dev score over the updates": silent,
    }
    return [f"{what}: {'; '.join(where)}" for what, where in said.items() if where]


def curve_chart(results: Results, choice: Choice) -> Chart:
    """A panel for each task, a line for each row; the table has what decides whether training was long enough.

    Raises:
        InputError: see ``take_runs``; no record says the dev score over the updates.
    """
    scope = take_runs(results, choice, (choice.k,))
    rows, tasks = rows_of(scope.done, failed=scope.failed), tasks_of(scope, choice)
    names = choice.pick(rows)
    if not any(curve_of(score) for row in rows.values() for score in row.values()):
        raise InputError(f"{results.place}: its records do not say the dev score over the updates: sweep again")
    panels, groups = [], []
    for task in tasks:
        series = [
            Series(name, curve, style)
            for style, name in enumerate(names)
            if task in rows[name] and (curve := curve_of(rows[name][task]))
        ]
        panels.append(Panel(task_label(task, choice.k), "updates", "mean dev score (x100)", series))
        groups.append([[task, name, *_cells(rows[name], task)] for name in names])
    named = ", ".join(map(str, seeds_of(scope)))
    notes = [*(note.format(named) for note in SAID), *protocol(scope, tasks)[1:]]
    notes += [*unshared(rows), *fewer_seeds(scope), *failures(scope.failed)]
    return Chart(panels, Table("Dev scores over the updates", 2, HEADER, groups, notes))


def _cells(row: RowScores, task: str) -> list[str]:
    """Of the header, from the learning rate on."""
    curve = curve_of(row[task]) if task in row else []
    if not curve:
        return [MISSING] * (len(HEADER) - 2)
    last, end = curve[-1]
    at, best = max(curve, key=lambda point: (round(point[1], DIGITS), -point[0]))
    _, half = min(curve, key=lambda point: abs(point[0] - last / 2))
    scores = [curve[0][1], half, best]
    return [f"{row[task].lr:g}", *map(score_text, scores), f"{at:,}", score_text(end), f"{last:,}"]
