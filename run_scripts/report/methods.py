"""Methods side by side on one task: score, trainable parameters, seconds and memory."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean
from typing import Callable, Iterable

from preprocess.errors import InputError
from preprocess.tasks import TASKS
from run_scripts.run.fairseq_train import seconds_per_update

from .counts import only_count, own_logging
from .notes import failures, incomplete, protocol, seeds_of
from .render import MISSING, NOTHING, Table
from .runs import Results, Run, has_finished, task_label
from .scope import Choice, take_runs
from .scores import RowScores, Score, rows_of
from .tables import score_text

HEADER = ["method", "test", "lr", "trainable", "s/update", "peak MiB"]
COSTS = (
    "trainable: parameters of the method, or of what it trains of the backbone, without the classification head",
    "s/update: of fairseq's clock, without start-up, loading, validation and saving, in whole seconds for each 100 "
    "updates; of the machine as it was, with whatever else ran there",
    "peak MiB: the most that a run held, of the GPU where there was one, else of the process with all that it loads",
)


def methods_table(results: Results, choice: Choice) -> Table:
    """A line for each row with runs, as ``fairseq_idpg``'s presets are sorted; costs are those of the shown scores.

    Raises:
        InputError: see ``take_runs``; there are several tasks and no choice of one; a row trains more and less.
    """
    choice = replace(choice, tasks=tasks_of(results, choice))
    scope = take_runs(results, choice, (choice.k,))
    (task,) = choice.tasks
    rows = rows_of(scope.done, failed=scope.failed)
    seeds = seeds_of(scope)
    of_rows = {run["row"]: run for run in scope.done}
    names = sorted(choice.pick(rows), key=_preset_order(of_rows.values()))
    groups = [[[name, *_cells(results, name, rows[name].get(task), len(seeds))]] for name in names]
    by_k: dict[tuple[int | None, str], RowScores] = {(choice.k, name): row for name, row in rows.items()}
    notes = [*protocol(scope, [task], "test"), *COSTS, *incomplete(by_k, seeds), *failures(scope.failed)]
    return Table(f"Methods on {task_label(task, choice.k)}", 1, HEADER, groups, notes)


def tasks_of(results: Results, choice: Choice) -> tuple[str, ...]:
    """The one that was asked for, or that has runs; () where none has.

    Raises:
        InputError: there are several.
    """
    of_any = replace(choice, tasks=tuple(TASKS))
    there = [run["task"] for run in results.runs if has_finished(run) and run["k"] == choice.k and of_any.accepts(run)]
    tasks = choice.tasks or tuple(dict.fromkeys(there))
    if len(tasks) > 1:
        what = f"--tasks {' '.join(tasks)}" if choice.tasks else f"{results.folder} has runs of {', '.join(tasks)}"
        raise InputError(f"{what}: the table of methods is of one task: give --tasks with one of them")
    return tasks


def _preset_order(runs: Iterable[Run]) -> Callable[[str], int]:
    """Rows by their presets' place in the registry, methods that are joined by + at the end."""
    with own_logging():
        from fairseq_idpg.methods.registry import PRESETS  # loads torch and fairseq: only where it is needed

    presets = list(PRESETS)
    of_row = {run["row"]: run.get("method") or run["row"] for run in runs}
    return lambda row: presets.index(of_row[row]) if of_row[row] in presets else len(presets)


def _cells(results: Results, row: str, score: Score | None, seeds: int) -> list[str]:
    """Of the header, but for the name; a row all of whose rates are out has none."""
    if score is None:
        return [MISSING] * (len(HEADER) - 1)
    few = f" (n={len(score.seeds)})" if len(score.seeds) < seeds else ""
    seconds = _known(seconds_of(results, run) for run in score.runs)
    peaks = _known(run.get("peak_mib") for run in score.runs)
    return [
        score_text(score.test, score.std) + few,
        f"{score.lr:g}",
        f"{only_count(results, row, score.runs):,}",
        f"{mean(seconds):.3f}" if seconds else NOTHING,
        f"{max(peaks):,.0f}" if peaks else NOTHING,
    ]


def seconds_of(results: Results, run: Run) -> float | None:
    """Of an update; of runs whose records do not say, by the log that they left beside their results."""
    if "seconds_per_update" in run:
        return run["seconds_per_update"]
    log = results.folder / "runs" / run["run"] / "train.log"
    inside = results.folder.resolve() in log.resolve().parents
    return seconds_per_update(log) if inside and log.is_file() else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
