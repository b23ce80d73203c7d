"""Transfer between tasks, and tables and figures of the papers besides IDPG, by their own metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import mean

from preprocess.errors import InputError

from ..run.experiment import ARROW
from ..run.metrics import ACC_AND_MACRO_F1, MACRO_F1
from ..run.transfer import arrow
from .choice import TESTED, Choice, Scope, refuse_mixture, settle, take_runs
from .notes import (
    data_note,
    failures,
    incomplete,
    metrics_note,
    options_note,
    rates_notes,
    rates_tried,
    seeds_of,
    selection_notes,
    settings_note,
    sizes_note,
    variants_note,
    versions_note,
)
from .paper import PaperSeries, PaperTable, Printed, ScoreColumns
from .records import Results, Run, architecture, grouped, has_finished
from .render import MISSING, NOTHING, Chart, Panel, Series, Table
from .scores import RowScores, Score, mean_over, mean_test, rows_of
from .tables import AVERAGE, score_text, seeds_text, signed_difference

HEADER = ["transfer", "K", "method", "test", "accuracy", "macro F1", "mean of both", "lr"]
NOTES = (
    "QQP → MRPC: trained on QQP, tested on MRPC; labels matched by what they mean",
    "K -: the model as it is, at the learning rate with the best mean dev score on the task that it was trained on",
    "with K: trained on K examples of the second task, drawn anew for each seed, from what the same seed and learning "
    "rate left on the first; the learning rate with the best mean dev score on the second",
)


@dataclass(frozen=True)
class Pair:
    """Finished and failed runs of one task's models on another, by K (None: as they are) and row."""

    source: str
    target: str
    scope: Scope
    rows: dict[tuple[int | None, str], RowScores]

    @property
    def name(self) -> str:
        return arrow(self.source, self.target)

    def score(self, k: int | None, row: str) -> Score | None:
        return self.rows[k, row].get(self.target)


def answers(results: Results) -> Iterator[Run]:
    """A run for each score on another task: its task is that one, ``source_task`` the one that it was trained on.

    A run that failed would have answered what others of its task have.
    """
    full = [run for run in results.runs if run["k"] is None]
    of_tasks = grouped(full, itemgetter("task")).items()
    asked = {task: sorted({other for run in runs for other in run.get("transfer") or ()}) for task, runs in of_tasks}
    for run in full:
        own = {"source_task": run["task"], "metric": None, "test": None}
        for task in asked[run["task"]] if not has_finished(run) else ():
            yield {**run, **own, "task": task}
        for task, found in (run.get("transfer") or {}).items() if has_finished(run) else ():
            scores = {"dev": (run.get("scores") or {}).get("dev") or {}, "test": found["scores"]}
            said = {"metric": found["metric"], "test": found["test"], TESTED: found.get("data")}
            yield {**run, **own, **said, "task": task, "scores": scores}
    yield from results.continued


def pairs_of(results: Results, choice: Choice) -> list[Pair]:
    """The pairs that have runs, of the tasks that were asked for.

    Raises:
        InputError: see ``take_runs``; there are none; two pairs have other selections, backbones or settings of ours.
    """
    found = []
    for (source, target), runs in grouped(answers(results), lambda run: (run["source_task"], run["task"])).items():
        if choice.tasks and not {source, target} <= set(choice.tasks):
            continue
        ks = {run["k"] for run in runs}
        of_pair, chosen = Results(results.place, tuple(runs)), replace(choice, tasks=(target,))
        if any(has_finished(run) and chosen.accepts(run) for run in runs):
            scope = take_runs(of_pair, chosen, ks)
            found.append(
                Pair(source, target, scope, rows_of(scope.done, lambda run: (run["k"], run["row"]), scope.failed))
            )
    if not found:
        raise InputError(
            f"{results.place} holds no model that answered another task{choice.with_options}: run a sweep with "
            "--eval-tasks first"
        )
    done = [run for pair in found for run in pair.scope.done]
    refuse_mixture(settle(done, choice, results, ("selection", "backbone")), results)
    return found


def transfer_table(results: Results, choice: Choice) -> Table:
    """A line for each pair of tasks, K and row.

    Raises:
        InputError: see ``pairs_of``.
    """
    pairs = pairs_of(results, choice)
    names = choice.pick(name for pair in pairs for _, name in pair.rows)
    both = Scope(
        [run for pair in pairs for run in pair.scope.done], [run for p in pairs for run in p.scope.failed], choice.seeds
    )
    seeds, groups = seeds_of(both), []
    for pair in pairs:
        for k in sorted({k for k, _ in pair.rows}, key=lambda k: k or 0):
            rows = [name for name in names if (k, name) in pair.rows]
            shown = NOTHING if k is None else str(k)
            groups.append([[pair.name, shown, name, *cells(pair.score(k, name), len(seeds))] for name in rows])
    by_k: dict[tuple[int | None, str], dict[str, Score]] = {}
    for pair in pairs:
        for place in pair.rows:
            if score := pair.score(*place):
                by_k.setdefault(place, {})[pair.name] = score
    notes = [settings_note(seeds), *NOTES, *rates_tried(both.done, pair_of), *rates_notes(by_k)]
    notes += selection_notes(both.done)
    notes += [metrics_note([pair.target for pair in pairs])]
    notes += [variants_note(both.done), *options_note(both.done)]
    notes += data_note(both.done, pair_of)
    notes += versions_note(both.done)
    notes += [*incomplete(by_k, seeds), *failures(both.failed)]
    return Table("Transfer between tasks", 3, HEADER, groups, notes)


def pair_of(run: Run) -> str:
    return arrow(run["source_task"], run["task"])


def cells(score: Score | None, seeds: int) -> list[str]:
    """Of the header, from the score on."""
    if score is None:
        return [MISSING] * (len(HEADER) - 3)
    parts = [mean_of(score, part) for part in ("accuracy", MACRO_F1, ACC_AND_MACRO_F1)]
    return [seeds_text(score, seeds), *(score_text(part) for part in parts), f"{score.lr:g}"]


def mean_of(score: Score, part: str) -> float | None:
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

    def notes(self, spec: ScoreColumns, scores: str, averages: bool = True) -> list[str]:
        seeds, by_k = seeds_of(self.scope), {(spec.k, name): row for name, row in self.rows.items()}
        over = f"{AVERAGE}: mean of {', '.join(self.columns)}; the paper's as printed, or of its printed values"
        return [
            f"{settings_note(seeds, scores)}, {CHOSEN_BY}",
            *rates_tried(self.scope.done),
            *rates_notes(by_k),
            *selection_notes(self.scope.done),
            *([] if spec.transfers else sizes_note(self.scope.done)),
            f"metric: {spec.scored}",
            variants_note(self.scope.done, ""),
            *options_note(self.scope.done),
            *data_note(self.scope.done),
            *versions_note(self.scope.done),
            *([over] if averages else []),
            *incomplete(by_k, seeds),
            *([f"left out: {self.silent} runs whose records do not say the metric"] if self.silent else []),
            *failures(self.scope.failed),
        ]


def find_runs(spec: ScoreColumns, results: Results, choice: Choice) -> Found:
    """The runs of a table or figure, with scores by its metrics.

    Raises:
        InputError: see ``take_runs``; none of the columns was asked for; no record says the metric.
    """
    columns = tuple(c for c in spec.columns if not choice.tasks or set(c.split(ARROW)) <= set(choice.tasks))
    if not columns:
        raise InputError(f"--tasks {' '.join(choice.tasks)}: choose from the columns {', '.join(spec.columns)}")
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
    """Runs whose task is the column, and whose scores are by its metric: None where a run does not say."""
    for run in answers(results) if spec.transfers else results.runs:
        column = pair_of(run) if spec.transfers else run["task"]
        if column not in spec.columns or run["k"] != spec.k:
            continue
        metric, scores = spec.metrics[column], run.get("scores") or {}
        dev, test = ((scores.get(split) or {}).get(metric) for split in ("dev", "test"))
        dev = run.get("dev") if dev is None else dev  # of zero-shot transfer: on the task that was trained on
        yield {**run, "task": column, "metric": metric, "dev": dev, "test": test}


def compared_table(spec: PaperTable, results: Results, choice: Choice) -> Table:
    """Ours, and beside the paper's backbone its values and the difference, for each row and column.

    Raises:
        InputError: see ``find_runs``; there are runs of several architectures.
    """
    found = find_runs(spec, results, choice)
    arch = _only_architecture(results, found.scope)
    beside = (arch in spec.blocks or choice.beside_paper) and spec.says_something
    block = spec.blocks.get(arch, [*spec.blocks.values()][-1] if beside else {})
    more = spec.beside if beside else ()
    groups = []
    for name in choice.pick([*block, *found.rows]):
        lines = _lines(found, name, block.get(name))
        texts = [block[name].texts.get(column, NOTHING) if name in block else NOTHING for column in more]
        tails = {"ours": [""] * len(more), "paper": texts, "difference": [""] * len(more)}
        kinds = [[kind] if beside else [] for kind in lines]
        groups.append([[name, *kind, *cells, *tails[of]] for kind, (of, cells) in zip(kinds, lines.items())])
    names = ["method", *(["values"] if beside else [])]
    notes = found.notes(spec, "ours" if beside else "scores")
    if not beside and spec.says_something:
        notes.append(f"the paper's values are of {', '.join(spec.blocks)} and not beside these; --paper shows them")
    elif beside and arch not in spec.blocks:
        notes.append(f"the paper's values are of {[*spec.blocks][-1]}")
    return Table(spec.heading, len(names), [*names, *found.columns, AVERAGE, *more], groups, notes)


def _only_architecture(results: Results, scope: Scope) -> str:
    found = grouped(scope.done, architecture)
    if len(found) > 1:
        raise InputError(f"{results.place} has runs of {' and '.join(found)}: give --backbone")
    return next(iter(found))


def _lines(found: Found, name: str, printed: Printed | None) -> dict[str, list[str]]:
    """What the values are -> cells of the columns and of their average."""
    row, seeds, columns = found.rows.get(name, {}), len(seeds_of(found.scope)), (*found.columns, AVERAGE)
    ours = {column: score.test for column, score in row.items()} | {AVERAGE: mean_test(row, found.columns)}
    texts = {column: seeds_text(score, seeds) for column, score in row.items()}
    lines = {"ours": [texts.get(column) or score_text(ours.get(column)) for column in columns]}
    if printed is not None and printed.says_something:
        whole = printed.avg is not None and printed.mean.keys() == set(found.columns)
        average = printed.avg if whole else mean_over(printed.mean, found.columns)
        theirs = {**printed.mean, AVERAGE: average}
        lines["paper"] = [score_text(theirs.get(column), printed.std.get(column), NOTHING) for column in columns]
        if printed.mean:
            lines["difference"] = [signed_difference(ours.get(column), theirs.get(column)) for column in columns]
    return lines


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
    notes = [f"{name}: mean of {', '.join(columns)}" for name, columns in means.items()]
    header = ["method", "task", *map(str, numbers)]
    return Chart(
        panels, Table(spec.heading, 2, header, groups, [*found.notes(spec, "scores", False), *notes, spec.xlabel])
    )
