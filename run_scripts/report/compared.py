"""Transfer between tasks, and tables and figures of the papers besides IDPG, by their own metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import mean

from preprocess.errors import InputError

from ..run.experiment import ARROW, arrow
from .choice import TESTED, Choice, Scope, asked_columns, only_architecture, take_runs
from .notes import (
    in_one_line,
    metrics_note,
    rates_compared,
    rates_tried,
    seeds_of,
    selection_notes,
    settings_note,
    setup_notes,
    warnings,
)
from .paper import PaperSeries, PaperTable, ScoreColumns
from .records import Results, Run, grouped, has_finished
from .render import MISSING, NOTHING, Chart, Panel, Series, Table
from .scores import RowScores, Score, mean_test, rows_of
from .tables import AVERAGE, score_text, seeds_text, value_lines

# --- transfer: what models of one task say of another, as they are, or trained on K of its examples ---

HEADER = ["transfer", "K", "method", "test", "accuracy", "macro F1", "mean of both", "lr"]
WITHOUT_K = (
    "K -: the model as it is, at the learning rate with the best mean dev score on the task that it was trained on"
)
WITH_K = (
    "with K: trained on K examples of the second task, drawn anew for each seed, from what the same seed and learning "
    "rate left on the first; the learning rate with the best mean dev score on the second"
)
EXAMPLE = "QQP → MRPC: trained on QQP, tested on MRPC; labels matched by what they mean"


def answers(results: Results) -> Iterator[Run]:
    """A run for each score on another task: its task is ``QQP → MRPC``, its metric and test score those of MRPC.

    A run that failed would have answered what others of its task have.
    """
    full = [run for run in results.runs if run["k"] is None]
    asked: dict[str, set[str]] = {}
    for run in full:
        asked.setdefault(run["task"], set()).update(run.get("transfer") or ())
    for run in full:
        if not has_finished(run):
            for task in sorted(asked[run["task"]]):
                yield {**run, "task": arrow(run["task"], task), "metric": None, "test": None}
            continue
        for task, found in (run.get("transfer") or {}).items():
            scores = {"dev": (run.get("scores") or {}).get("dev") or {}, "test": found["scores"]}
            told = {"metric": found["metric"], "test": found["test"], TESTED: found.get("data"), "scores": scores}
            yield {**run, **told, "task": arrow(run["task"], task)}
    for run in results.continued:
        yield {**run, "task": arrow(run["source_task"], run["task"])}


def transfer_table(results: Results, choice: Choice) -> Table:
    """A line for each pair of tasks, K and row.

    Raises:
        InputError: see ``take_runs``; no model has answered another task.
    """
    runs = [run for run in answers(results) if not choice.tasks or {*run["task"].split(ARROW)} <= {*choice.tasks}]
    if not any(map(has_finished, runs)):
        raise InputError(
            f"{results.place} holds no model that answered another task{choice.with_options}: run a sweep with "
            "--eval-tasks first"
        )
    pairs, ks = tuple(dict.fromkeys(run["task"] for run in runs)), {run["k"] for run in runs}
    scope = take_runs(Results(results.place, tuple(runs)), replace(choice, tasks=pairs), ks)
    rows = rows_of(scope.done, itemgetter("k", "row"), scope.failed)
    names, seeds, groups = choice.pick(name for _, name in rows), seeds_of(scope), []
    for pair, of_pair in grouped(scope.done, itemgetter("task")).items():
        for k in sorted({run["k"] for run in of_pair}, key=lambda k: k or 0):
            there = {run["row"] for run in of_pair if run["k"] == k}
            shown = NOTHING if k is None else str(k)
            cells = {name: _cells(rows[k, name].get(pair), len(seeds)) for name in names if name in there}
            groups.append([[pair, shown, name, *of_row] for name, of_row in cells.items()])
    metrics = metrics_note([pair.split(ARROW)[-1] for pair in pairs])
    notes = [settings_note(seeds), EXAMPLE, *in_one_line(warnings(scope, rows))]
    tried = [*rates_tried(scope.done), *rates_compared(rows), *selection_notes(scope.done)]
    more = [WITHOUT_K, WITH_K, *tried, metrics, *setup_notes(scope.done)]
    return Table("Transfer between tasks", 3, HEADER, groups, notes, more)


def _cells(score: Score | None, seeds: int) -> list[str]:
    """Of the header, from the score on."""
    if score is None:
        return [MISSING] * (len(HEADER) - 3)
    parts = [_mean_of(score, part) for part in ("accuracy", "macro_f1", "acc_and_macro_f1")]
    return [seeds_text(score, seeds), *(score_text(part) for part in parts), f"{score.lr:g}"]


def _mean_of(score: Score, part: str) -> float | None:
    """Over the seeds; None where a run does not say."""
    found = [(run.get("scores") or {}).get("test", {}).get(part) for run in score.runs]
    return None if None in found else mean(found)


# --- score tables and figures of other papers: ours by their metric, and their values beside -----

CHOSEN_BY = (
    "at the learning rate with the best mean dev score by the same metric; checkpoints by each task's own metric"
)


@dataclass(frozen=True)
class Found:
    """Runs of the columns that are shown, their scores by row, and how many runs do not say the metric."""

    scope: Scope
    rows: dict[str, RowScores]
    columns: tuple[str, ...]
    silent: int

    def notes(self, spec: ScoreColumns, scores: str) -> list[str]:
        """The first lines: how the scores came about, by what metric, and warnings."""
        silent = [f"left out: {self.silent} runs whose records do not say the metric"] if self.silent else []
        told = warnings(self.scope, {(spec.k, name): row for name, row in self.rows.items()})
        how = f"{settings_note(seeds_of(self.scope), scores)}, {CHOSEN_BY}"
        return [how, f"metric: {spec.scored}", *in_one_line([*told, *silent])]

    def more(self, spec: ScoreColumns) -> list[str]:
        done = self.scope.done
        rates = [*rates_tried(done), *rates_compared({(spec.k, name): row for name, row in self.rows.items()})]
        return [*rates, *selection_notes(done), *setup_notes(done, "")]


def find_runs(spec: ScoreColumns, results: Results, choice: Choice) -> Found:
    """The runs of a table or figure, with scores by its metrics.

    Raises:
        InputError: see ``take_runs``; none of the columns was asked for; no record says the metric.
    """
    columns = asked_columns(spec.columns, choice)
    runs = [run for run in _by_metric(spec, results) if spec.has_row(run["row"])]
    silent = [run for run in runs if run["test"] is None and has_finished(run)]
    if silent and len(silent) == sum(map(has_finished, runs)):
        raise InputError(
            f"{results.place}: its records do not say {', '.join(sorted(set(spec.metrics.values())))}: they are of an "
            "earlier version, sweep into another folder"
        )
    kept = tuple(run for run in runs if run not in silent)
    scope = take_runs(Results(results.place, kept), replace(choice, tasks=columns), (spec.k,))
    return Found(scope, rows_of(scope.done, failed=scope.failed), columns, len(silent))


def _by_metric(spec: ScoreColumns, results: Results) -> Iterator[Run]:
    """Runs of the columns, whose scores are by the column's metric: None where a run does not say."""
    for run in answers(results) if spec.transfers else results.runs:
        if run["task"] not in spec.columns or run["k"] != spec.k:
            continue
        metric, scores = spec.metrics[run["task"]], run.get("scores") or {}
        dev, test = ((scores.get(split) or {}).get(metric) for split in ("dev", "test"))
        dev = run.get("dev") if dev is None else dev  # of zero-shot transfer: on the task that was trained on
        yield {**run, "metric": metric, "dev": dev, "test": test}


def compared_table(spec: PaperTable, results: Results, choice: Choice) -> Table:
    """Ours, and beside the paper's backbone its values and the difference, for each row and column.

    Raises:
        InputError: see ``find_runs``; there are runs of several architectures.
    """
    found = find_runs(spec, results, choice)
    arch = only_architecture(found.scope.done, results) or ""
    beside = (arch in spec.blocks or choice.beside_paper) and spec.says_something
    block = spec.blocks.get(arch, [*spec.blocks.values()][-1] if beside else {})
    extra = spec.beside if beside else ()
    groups = []
    for name in choice.pick([*block, *found.rows]):
        printed, theirs = block.get(name), None
        if printed is not None and printed.says_something:
            theirs = {**printed.mean, AVERAGE: printed.average(found.columns, printed.mean)}
        row, columns = found.rows.get(name, {}), (*found.columns, AVERAGE)
        lines = value_lines(
            row, columns, found.columns, len(seeds_of(found.scope)), {}, theirs, printed.std if printed else {}
        )
        texts = printed.texts if printed else {}
        groups.append(
            [
                [name, *([kind] if beside else []), *cells]
                + [texts.get(column, NOTHING) if kind == "paper" else "" for column in extra]
                for kind, cells in lines
                if kind != "difference" or (printed and printed.mean)
            ]
        )
    names = ["method", *(["values"] if beside else [])]
    over = f"{AVERAGE}: mean of {', '.join(found.columns)}; the paper's as printed, or of its printed values"
    more = [over, *found.more(spec)]
    if not beside and spec.says_something:
        more.append(f"the paper's values are of {', '.join(spec.blocks)} and not beside these; --paper shows them")
    elif beside and arch not in spec.blocks:
        more.append(f"the paper's values are of {[*spec.blocks][-1]}")
    header = [*names, *found.columns, AVERAGE, *extra]
    return Table(spec.heading, len(names), header, groups, found.notes(spec, "ours" if beside else "scores"), more)


def series_chart(spec: PaperSeries, results: Results, choice: Choice) -> Chart:
    """Scores of rows against the number in their names.

    Raises:
        InputError: see ``find_runs``.
    """
    found = find_runs(spec, results, choice)
    places = {place: name for name in choice.pick(found.rows) if (place := spec.parts(name)) is not None}
    numbers = sorted({number for _, number in places})
    panels, groups = [], []
    for over, columns in spec.panels(found.columns).items():
        series = []
        for style, line in enumerate(dict.fromkeys(line for line, _ in places)):
            rows = [found.rows.get(places.get((line, number), ""), {}) for number in numbers]
            scores = [mean_test(row, columns) for row in rows]
            points = [(number, score) for number, score in zip(numbers, scores) if score is not None]
            series += [Series(line, points, style)] if points else []
            groups.append([[line, over, *map(score_text, scores)]])
        panels.append(Panel(over, spec.xlabel, "mean test score (x100)", series, whole=True))
    means = spec.panels(found.columns) if spec.averages else {}
    more = [*(f"{name}: mean of {', '.join(columns)}" for name, columns in means.items()), spec.xlabel]
    header, notes = ["method", "task", *map(str, numbers)], found.notes(spec, "scores")
    return Chart(panels, Table(spec.heading, 2, header, groups, notes, [*more, *found.more(spec)]))
