"""Methods side by side: scores on one task or several, trainable parameters, seconds and memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from statistics import median

from preprocess.tasks import TASKS

from ..run.fairseq_train import seconds_per_update
from .counts import only_count, own_logging
from .notes import failures, incomplete, protocol, seeds_of
from .render import MISSING, NOTHING, Table
from .runs import Results, Run, has_finished, on_one_hardware, task_label
from .scope import Choice, take_runs
from .scores import RowScores, Score, rows_of
from .tables import seeds_text

COST_HEADER = ["trainable", "s/update", "peak MiB"]
COSTS = (
    "trainable: parameters of the method, or of what it trains of the backbone, without the classification head",
    "s/update: of fairseq's clock, without start-up, loading, validation and saving, in whole seconds for each 100 "
    "updates; median of the runs; of the machine as it was, with whatever else ran there",
    "peak MiB: the most that a run held, of the GPU where there was one, else of the process with all that it loads",
)


def methods_table(results: Results, choice: Choice) -> Table:
    """A line for each row with runs, as ``fairseq_idpg``'s presets are sorted; costs are those of the shown scores.

    Of one task, the learning rate stands beside the score. Of several, they have a column each.

    Raises:
        InputError: see ``take_runs``; a row trains more and less.
    """
    choice = replace(choice, tasks=tasks_of(results, choice))
    scope = take_runs(results, choice, (choice.k,))
    rows = rows_of(scope.done, failed=scope.failed)
    seeds = seeds_of(scope)
    of_rows = {run["row"]: run for run in scope.done}
    names = sorted(choice.pick(rows), key=_preset_order(of_rows.values()))
    shown = {name: [rows[name].get(task) for task in choice.tasks] for name in names}
    runs = {name: [run for score in scores if score for run in score.runs] for name, scores in shown.items()}
    timed, left_out = on_one_hardware(runs)
    groups = [
        [[name, *_scores(scores, len(seeds)), *_costs(results, name, runs[name], timed[name])]]
        for name, scores in shown.items()
    ]
    by_k: dict[tuple[int | None, str], RowScores] = {(choice.k, name): row for name, row in rows.items()}
    notes = [*protocol(scope, choice.tasks, "test"), *COSTS, *left_out]
    notes += [*incomplete(by_k, seeds), *failures(scope.failed)]
    labels = [task_label(task, choice.k) for task in choice.tasks]
    header = ["method", *(["test", "lr"] if len(labels) == 1 else labels), *COST_HEADER]
    return Table(f"Methods on {', '.join(labels)}", 1, header, groups, notes)


def tasks_of(results: Results, choice: Choice) -> tuple[str, ...]:
    """Those that were asked for, or that have runs, in the order of ``TASKS``; () where none has."""
    of_any = replace(choice, tasks=tuple(TASKS))
    there = {run["task"] for run in results.runs if has_finished(run) and run["k"] == choice.k and of_any.accepts(run)}
    return choice.tasks or tuple(filter(there.__contains__, TASKS))


def _preset_order(runs: Iterable[Run]) -> Callable[[str], int]:
    """Rows by their presets' place in the registry, methods that are joined by + at the end."""
    with own_logging():
        from fairseq_idpg.methods.registry import PRESETS  # loads torch and fairseq: only where it is needed

    presets = list(PRESETS)
    of_row = {run["row"]: run.get("method") or run["row"] for run in runs}
    return lambda row: presets.index(of_row[row]) if of_row[row] in presets else len(presets)


def _scores(scores: list[Score | None], seeds: int) -> list[str]:
    """Of each task; a row all of whose rates are out has none."""
    cells = [seeds_text(score, seeds) if score else MISSING for score in scores]
    if len(scores) == 1:
        cells.append(f"{scores[0].lr:g}" if scores[0] else MISSING)
    return cells


def _costs(results: Results, row: str, runs: Collection[Run], timed: Collection[Run]) -> list[str]:
    """``timed``: those of the row's runs whose seconds and memory count."""
    if not runs:
        return [MISSING] * len(COST_HEADER)
    seconds, peaks = _known(seconds_of(results, run) for run in timed), _known(run.get("peak_mib") for run in timed)
    return [
        f"{only_count(results, row, runs):,}",
        f"{median(seconds):.3f}" if seconds else NOTHING,
        f"{max(peaks):,.0f}" if peaks else NOTHING,
    ]


def seconds_of(results: Results, run: Run) -> float | None:
    """Of an update; of runs whose records do not say, by the log that they left beside their results."""
    if "seconds_per_update" in run:
        return run["seconds_per_update"]
    log = results.log(run)
    return None if log is None else seconds_per_update(log)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
