"""Figures 1, 3, 7 and 9, and dev scores over the updates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from statistics import mean
from typing import Any, NamedTuple

from preprocess.errors import InputError

from .choice import Choice, Scope, take_runs
from .costs import printed_count, trainable_counts
from .notes import failures, fewer_seeds, protocol, seeds_of
from .paper import paper
from .records import PAIRS, POSITIONS, Results, Run, is_prompted, kind_of, task_label
from .render import MISSING, NOTHING, Chart, Panel, Point, Series, Table
from .scores import DIGITS, RowScores, Score, mean_dev, mean_test, rows_of, std_of_mean
from .tables import LEFT_OUT, SCORE_TABLES, score_text, signed_difference

SHARING = ("S", "M", "L")
INPUTS = {"layer0": "layer 0", "previous": "previous layer"}
HELD = "(a) holds the supplementary and (b) the downstream position at the place with the best mean dev score"


@dataclass(frozen=True)
class Averages:
    """Rows, by name or another key, and the tasks that averages are over: a row that lacks one has none."""

    tasks: tuple[str, ...]
    rows: Mapping[Any, RowScores]

    def test(self, key: Any) -> float | None:
        """Mean of the test scores, x100."""
        return mean_test(self.rows.get(key, {}), self.tasks)

    def dev(self, key: Any) -> float | None:
        return mean_dev(self.rows.get(key, {}), self.tasks)

    def text(self, key: Any) -> str:
        """The mean of the test scores, and what it deviates by over the seeds."""
        return score_text(self.test(key), std_of_mean(self.rows.get(key, {}), self.tasks))

    @property
    def axis_label(self) -> str:
        return f"mean test score over {len(self.tasks)} task{'s' * (len(self.tasks) > 1)} (x100)"


def averages_of(results: Results, choice: Choice, scope: Scope, key: Callable[[Run], Any]) -> Averages:
    """Of the runs by ``key``, over the tasks that were asked for, or over all that have runs.

    Raises:
        InputError: nothing has runs of all tasks.
    """
    found = Averages(tasks_of(scope, choice), rows_of(scope.done, key, scope.failed))
    refuse_empty(results, found.tasks, map(found.test, found.rows))
    return found


def average_notes(scope: Scope, tasks: Collection[str], of_kinds: bool = False) -> list[str]:
    """``of_kinds``: each mean is over the tasks of one kind."""
    means = {f" of {kind}": [task for task in tasks if kind_of(task) == kind] for kind in POSITIONS}
    if not of_kinds or not all(means.values()):
        means = {"": list(tasks)}
    over = ",".join(f"{kind} over {', '.join(named)}" for kind, named in means.items())
    notes = [*protocol(scope, tasks), f"scores: means{over}; a row without one of them is missing"]
    return [*notes, *fewer_seeds(scope), *failures(scope.failed)]


def tasks_of(scope: Scope, choice: Choice) -> tuple[str, ...]:
    there = {run["task"] for run in scope.done}
    return choice.tasks or tuple(task for task in choice.shown_tasks if task in there)


def refuse_empty(results: Results, tasks: Collection[str], scores: Iterable[float | None]) -> None:
    if all(score is None for score in scores):
        raise InputError(f"{results.place}: no row has runs of all of {', '.join(tasks)}: name fewer with --tasks")


def take_varying(results: Results, choice: Choice, free: Collection[str]) -> Scope:
    """The runs with prompts that differ in what ``free`` names, within a row and task.

    Raises:
        InputError: see ``take_runs``; there are no such runs.
    """
    scope = take_runs(results, choice, (choice.k,), free, is_prompted).varying(free)
    if not scope.done:
        what = " or ".join(name.replace("_", " ") for name in free)
        raise InputError(f"{results.place}: no row has runs of a task with more than one {what}: run a sweep of them")
    return scope


def parameter_chart(results: Results, choice: Choice) -> Chart:
    """Figure 1: average score against trainable parameters."""
    counts = trainable_counts(results, choice)
    scope = take_runs(results, choice, (choice.k,), wants=SCORE_TABLES[1].wants)
    ours = averages_of(results, choice, scope, itemgetter("row"))
    beside_paper = scope.stands_beside_paper(choice)
    block = paper().blocks[3 if choice.k else 1].get(choice.k, {}) if beside_paper else {}
    series, lines = [], []
    for style, row in enumerate(choice.pick([*block, *ours.rows])):
        trainable, score, theirs = counts.trainable(row), ours.test(row), printed_count(row) if beside_paper else None
        papers = block[row].average(ours.tasks) if row in block else None
        mine, printed = _point(trainable, score), _point(theirs.parameters if theirs else None, papers)
        series += [Series(row, mine, style)] if mine else []
        series += [Series("" if mine else row, printed, style, of_paper=True)] if printed else []
        cells = [MISSING if trainable is None else f"{trainable:,}", ours.text(row)]
        of_paper = [theirs.printed if theirs else NOTHING, score_text(papers, unknown=NOTHING)]
        lines.append([row, *cells, *(of_paper if beside_paper else [])])
    header = ["method", "trainable", "Avg", *(["paper: trainable", "paper: Avg"] if beside_paper else [])]
    markers = "filled: ours; hollow: the paper's, of RoBERTa-large" if beside_paper else LEFT_OUT
    notes = [*average_notes(scope, ours.tasks), f"{markers}; heads not counted; 0 is not drawn"]
    title = "Figure 1: average score against trainable parameters"
    panel = Panel("", "trainable parameters without the head (log scale)", ours.axis_label, series, log=True)
    return Chart([panel], Table(title, 1, header, [[line] for line in lines], notes))


def _point(parameters: int | None, score: float | None) -> list[Point]:
    """Nothing where one of them is not known, and for no parameters, which a logarithmic axis has no place for."""
    return [(parameters, score)] if parameters and score is not None else []


def generator_chart(results: Results, choice: Choice) -> Chart:
    """Figure 3: S, M and L generators whose input is the same for all layers or the previous layer's output."""
    scope = take_runs(results, choice, (choice.k,), wants=SCORE_TABLES[6].wants)
    ours = averages_of(results, choice, scope, itemgetter("row"))
    beside_paper = scope.stands_beside_paper(choice)
    block = paper().blocks[6].get(choice.k, {}) if beside_paper else {}
    series, groups = [], []
    for style, (size, source) in enumerate(dict.fromkeys(map(_variant, choice.pick([*block, *ours.rows])))):
        names = [f"{sharing}-{size}-{source}" for sharing in SHARING]
        mine = [ours.test(name) for name in names]
        papers = [block[name].average(ours.tasks) if name in block else None for name in names]
        for whose, heights in (("ours", mine), ("paper", papers)):
            points = [(sharing, height) for sharing, height in zip(SHARING, heights) if height is not None]
            label = f"{whose}: m = {size}, input: {INPUTS[source]}"
            series += [Series(label, points, style, of_paper=whose == "paper")] if points else []
        lines = {
            "ours": [ours.text(name) for name in names],
            "paper": [score_text(score, unknown=NOTHING) for score in papers],
            "difference": [signed_difference(*both) for both in zip(mine, papers)],
        }
        lines = lines if beside_paper else {"ours": lines["ours"]}
        groups.append([[size, INPUTS[source], name, *cells] for name, cells in lines.items()])
    title = "Figure 3: multi-layer generators that share weights and bias (S), weights (M) or nothing (L)"
    panel = Panel("", "sharing over layers", ours.axis_label, series, groups=SHARING)
    notes = [*average_notes(scope, ours.tasks), *([] if beside_paper else [LEFT_OUT])]
    return Chart([panel], Table(title, 3, ["m", "input", "values", *SHARING], groups, notes))


def _variant(row: str) -> tuple[str, str]:
    """Hidden size and input of a row of Table 6."""
    _, size, source = row.split("-")
    return size, source


def length_chart(results: Results, choice: Choice) -> Chart:
    """Figure 9: average score against prompt length, of all rows with more than one length."""
    scope = take_varying(results, choice, ["prompt_length"])
    ours = averages_of(results, choice, scope, lambda run: (run["row"], run["prompt_length"]))
    lengths = sorted({length for _, length in ours.rows})
    series, lines = [], []
    for style, row in enumerate(choice.pick(row for row, _ in ours.rows)):
        scores = [ours.test((row, length)) for length in lengths]
        points = [(length, score) for length, score in zip(lengths, scores) if score is not None]
        series += [Series(row, points, style)] if points else []
        lines.append([row, *(ours.text((row, length)) for length in lengths)])
    panel = Panel("", "prompt length (rows)", ours.axis_label, series, whole=True)
    header, notes = ["method", *map(str, lengths)], average_notes(scope, ours.tasks)
    table = Table("Figure 9: impact of prompt length", 1, header, [[line] for line in lines], notes)
    return Chart([panel], table)


# --- Figure 7: the prompt's position in downstream tasks and in supplementary training -----------


class GridPlace(NamedTuple):
    """Positions of the prompt; ``supplementary`` is None without supplementary training."""

    supplementary: int | None
    downstream: int


@dataclass(frozen=True)
class Grid:
    """The averages of a row over one kind of tasks at all its places; None where a task is missing."""

    row: str
    kind: str
    tests: dict[GridPlace, float | None]
    texts: dict[GridPlace, str]
    devs: dict[GridPlace, float | None]

    @property
    def best(self) -> GridPlace | None:
        """By dev score, of equal ones the first: without supplementary training, then by position."""
        known = {place: round(dev, DIGITS) for place, dev in self.devs.items() if dev is not None}
        return min(known, key=lambda place: (-known[place], _first(place)), default=None)

    @property
    def supplementary(self) -> list[int | None]:
        return list(dict.fromkeys(place.supplementary for place in sorted(self.tests, key=_first)))

    def cell(self, place: GridPlace) -> str:
        impossible = place.downstream not in POSITIONS[self.kind]
        return NOTHING if impossible else self.texts.get(place, MISSING)

    def points(self, axis: str) -> list[tuple[int, float]]:
        """(position, score) along ``downstream`` or ``supplementary`` through the best place."""
        if self.best is None:
            return []
        held = "supplementary" if axis == "downstream" else "downstream"
        line = {place: score for place, score in self.tests.items() if getattr(place, held) == getattr(self.best, held)}
        points = [(getattr(place, axis), score) for place, score in line.items()]
        return sorted((position, score) for position, score in points if position is not None and score is not None)


def _first(place: GridPlace) -> tuple[int, int]:
    """What places are sorted by."""
    return -1 if place.supplementary is None else place.supplementary, place.downstream


def place_of(run: Run) -> GridPlace:
    return GridPlace(run["supplementary_position"], run["position"])


def position_chart(results: Results, choice: Choice) -> Chart:
    """Figure 7: lines for each row with prompts and each kind of tasks; the table has the whole grid."""
    scope = take_varying(results, choice, ["position", "supplementary_position"])
    choice.pick(run["row"] for run in scope.done)
    tasks = tasks_of(scope, choice)
    grids = [grid for kind in POSITIONS for grid in _grids(scope, tasks, kind)]
    refuse_empty(results, tasks, [score for grid in grids for score in grid.tests.values()])
    panels = [
        _panel(grids, "(a) downstream tasks", "downstream"),
        _panel(grids, "(b) supplementary training", "supplementary"),
    ]
    notes = [*average_notes(scope, tasks, of_kinds=True), "solid: single sentences; dashed: pairs", HELD]
    return Chart(panels, _table(grids, notes))


def _grids(scope: Scope, tasks: Collection[str], kind: str) -> list[Grid]:
    done = [run for run in scope.done if kind_of(run["task"]) == kind]
    of_kind = Averages(
        tuple(task for task in tasks if kind_of(task) == kind),
        rows_of(done, lambda run: (run["row"], place_of(run)), scope.failed),
    )
    places: dict[str, list[GridPlace]] = {}
    for row, place in of_kind.rows:
        places.setdefault(row, []).append(place)
    return [
        Grid(
            row,
            kind,
            tests={place: of_kind.test((row, place)) for place in there},
            texts={place: of_kind.text((row, place)) for place in there},
            devs={place: of_kind.dev((row, place)) for place in there},
        )
        for row, there in places.items()
    ]


def _panel(grids: list[Grid], title: str, axis: str) -> Panel:
    """A line for each grid that has points."""
    rows = list(dict.fromkeys(grid.row for grid in grids))
    series = [
        Series(f"{grid.row}, {grid.kind}", points, rows.index(grid.row), dashed=grid.kind == PAIRS)
        for grid in grids
        if (points := grid.points(axis))
    ]
    return Panel(title, f"prompt position, {title[4:]}", "mean test score (x100)", series, whole=True)


def _table(grids: list[Grid], notes: list[str]) -> Table:
    downstream = sorted({place.downstream for grid in grids for place in grid.tests})
    groups = [
        [
            [grid.row, grid.kind, "none" if position is None else str(position)]
            + [grid.cell(GridPlace(position, other)) for other in downstream]
            for position in grid.supplementary
        ]
        for grid in grids
    ]
    header = ["method", "tasks", "supplementary", *(f"position {position}" for position in downstream)]
    return Table("Figure 7: impact of the prompt's position", 3, header, groups, notes)


CHARTS: dict[int | str, Callable[[Results, Choice], Chart]] = {
    1: parameter_chart,
    3: generator_chart,
    7: position_chart,
    9: length_chart,
}


# --- dev scores over the updates -----------------------------------------------------------------

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
