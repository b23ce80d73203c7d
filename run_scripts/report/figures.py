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
from .notes import in_one_line, protocol, score_note, seeds_of, warnings
from .paper import paper
from .records import PAIRS, POSITIONS, PROMPT, Results, Run, is_prompted, kind_of, task_label
from .render import MISSING, NOTHING, Chart, Panel, Point, Series, Table
from .scores import DIGITS, RowScores, Score, mean_dev, mean_test, rows_of, std_of_mean
from .tables import LEFT_OUT, SCORE_TABLES, score_text, signed_difference

SHARING = ("S", "M", "L")
INPUTS = {"layer0": "layer 0", "previous": "previous layer"}


@dataclass(frozen=True)
class Averages:
    """Rows, by name or another key, and the tasks that averages are over: a row that lacks one has none."""

    tasks: tuple[str, ...]
    rows: Mapping[Any, RowScores]

    def test(self, key: Any) -> float | None:
        """Mean of the test scores, x100."""
        return mean_test(self.rows.get(key, {}), self.tasks)

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


def tasks_of(scope: Scope, choice: Choice) -> tuple[str, ...]:
    there = {run["task"] for run in scope.done}
    return choice.tasks or tuple(task for task in choice.shown_tasks if task in there)


def refuse_empty(results: Results, tasks: Collection[str], scores: Iterable[float | None]) -> None:
    if all(score is None for score in scores):
        raise InputError(f"{results.place}: no row has runs of all of {', '.join(tasks)}: name fewer with --tasks")


def average_notes(scope: Scope, tasks: Collection[str], of_kinds: bool = False) -> list[str]:
    """The first lines below a figure; ``of_kinds``: each mean is over the tasks of one kind."""
    means = {f" of {kind}": [task for task in tasks if kind_of(task) == kind] for kind in POSITIONS}
    if not of_kinds or not all(means.values()):
        means = {"": list(tasks)}
    over = ",".join(f"{kind} over {', '.join(named)}" for kind, named in means.items())
    said = f"scores: means{over}; a row without one of them is missing"
    return [score_note(scope), said, *figure_warnings(scope)]


def figure_warnings(scope: Scope, more: Iterable[str] = ()) -> list[str]:
    rows = rows_of(scope.done, itemgetter("k", "row", *PROMPT), scope.failed)
    return in_one_line([*more, *warnings(scope, rows, "fewer seeds:")])


def parameter_chart(results: Results, choice: Choice) -> Chart:
    """Figure 1: average score against trainable parameters."""
    _, _, counts = trainable_counts(results, choice)
    scope = take_runs(results, choice, (choice.k,), wants=SCORE_TABLES[1].wants)
    ours = averages_of(results, choice, scope, itemgetter("row"))
    beside_paper = scope.stands_beside_paper(choice)
    block = paper().blocks[3 if choice.k else 1].get(choice.k, {}) if beside_paper else {}
    series, lines = [], []
    for style, row in enumerate(choice.pick([*block, *ours.rows])):
        trainable, _ = counts.get(row, (None, ""))
        score, theirs = ours.test(row), printed_count(row) if beside_paper else None
        papers = block[row].average(ours.tasks, paper().tasks) if row in block else None
        mine, printed = _point(trainable, score), _point(theirs.parameters if theirs else None, papers)
        series += [Series(row, mine, style)] if mine else []
        series += [Series("" if mine else row, printed, style, of_paper=True)] if printed else []
        cells = [MISSING if trainable is None else f"{trainable:,}", ours.text(row)]
        of_paper = [theirs.printed if theirs else NOTHING, score_text(papers, unknown=NOTHING)]
        lines.append([row, *cells, *(of_paper if beside_paper else [])])
    header = ["method", "trainable", "Avg", *(["paper: trainable", "paper: Avg"] if beside_paper else [])]
    markers = "filled: ours; hollow: the paper's, of RoBERTa-large" if beside_paper else LEFT_OUT
    more = [f"{markers}; heads not counted; 0 is not drawn", *protocol(scope, ours.tasks)]
    title = "Figure 1: average score against trainable parameters"
    panel = Panel("", "trainable parameters without the head (log scale)", ours.axis_label, series, log=True)
    notes = average_notes(scope, ours.tasks)
    return Chart([panel], Table(title, 1, header, [[line] for line in lines], notes, more))


def _point(parameters: int | None, score: float | None) -> list[Point]:
    """Nothing where one of them is not known, and for no parameters, which a logarithmic axis has no place for."""
    return [(parameters, score)] if parameters and score is not None else []


def generator_chart(results: Results, choice: Choice) -> Chart:
    """Figure 3: S, M and L generators whose input is the same for all layers or the previous layer's output."""
    scope = take_runs(results, choice, (choice.k,), wants=SCORE_TABLES[6].wants)
    ours = averages_of(results, choice, scope, itemgetter("row"))
    beside_paper = scope.stands_beside_paper(choice)
    block = paper().blocks[6].get(choice.k, {}) if beside_paper else {}
    variants = dict.fromkeys(tuple(row.split("-")[1:]) for row in choice.pick([*block, *ours.rows]))
    series, groups = [], []
    for style, (size, source) in enumerate(variants):
        names = [f"{sharing}-{size}-{source}" for sharing in SHARING]
        mine = [ours.test(name) for name in names]
        papers = [block[name].average(ours.tasks, paper().tasks) if name in block else None for name in names]
        for whose, heights in (("ours", mine), ("paper", papers)):
            points = [(sharing, height) for sharing, height in zip(SHARING, heights) if height is not None]
            label = f"{whose}: m = {size}, input: {INPUTS[source]}"
            series += [Series(label, points, style, of_paper=whose == "paper")] if points else []
        lines = {"ours": [ours.text(name) for name in names]}
        if beside_paper:
            lines["paper"] = [score_text(score, unknown=NOTHING) for score in papers]
            lines["difference"] = [signed_difference(*both) for both in zip(mine, papers)]
        groups.append([[size, INPUTS[source], name, *cells] for name, cells in lines.items()])
    title = "Figure 3: multi-layer generators that share weights and bias (S), weights (M) or nothing (L)"
    panel = Panel("", "sharing over layers", ours.axis_label, series, groups=SHARING)
    more = [*([] if beside_paper else [LEFT_OUT]), *protocol(scope, ours.tasks)]
    header, notes = ["m", "input", "values", *SHARING], average_notes(scope, ours.tasks)
    return Chart([panel], Table(title, 3, header, groups, notes, more))


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


def length_chart(results: Results, choice: Choice) -> Chart:
    """Figure 9: average score against prompt length, of all rows with more than one length."""
    scope = take_varying(results, choice, ["prompt_length"])
    ours = averages_of(results, choice, scope, itemgetter("row", "prompt_length"))
    lengths = sorted({length for _, length in ours.rows})
    series, lines = [], []
    for style, row in enumerate(choice.pick(row for row, _ in ours.rows)):
        scores = [ours.test((row, length)) for length in lengths]
        points = [(length, score) for length, score in zip(lengths, scores) if score is not None]
        series += [Series(row, points, style)] if points else []
        lines.append([[row, *(ours.text((row, length)) for length in lengths)]])
    panel = Panel("", "prompt length (rows)", ours.axis_label, series, whole=True)
    header, notes, more = ["method", *map(str, lengths)], average_notes(scope, ours.tasks), protocol(scope, ours.tasks)
    return Chart([panel], Table("Figure 9: impact of prompt length", 1, header, lines, notes, more))


# --- Figure 7: the prompt's position in downstream tasks and in supplementary training -----------

LINES = (
    "solid: single sentences; dashed: pairs; (a) holds the supplementary and (b) the downstream position at the place "
    "with the best mean dev score"
)


class GridPlace(NamedTuple):
    """Positions of the prompt; ``supplementary`` is None without supplementary training."""

    supplementary: int | None
    downstream: int


@dataclass(frozen=True)
class Grid:
    """The scores of a row at all its places, and the tasks of one kind that averages are over."""

    row: str
    kind: str
    tasks: tuple[str, ...]
    places: dict[GridPlace, RowScores]

    def test(self, place: GridPlace) -> float | None:
        return mean_test(self.places[place], self.tasks)

    @property
    def best(self) -> GridPlace | None:
        """By dev score, of equal ones the first: without supplementary training, then by position."""
        devs = {place: mean_dev(scores, self.tasks) for place, scores in self.places.items()}
        known = {place: round(dev, DIGITS) for place, dev in devs.items() if dev is not None}
        return min(known, key=lambda place: (-known[place], _first(place)), default=None)

    @property
    def supplementary(self) -> list[int | None]:
        return list(dict.fromkeys(place.supplementary for place in sorted(self.places, key=_first)))

    def cell(self, place: GridPlace) -> str:
        if place.downstream not in POSITIONS[self.kind]:
            return NOTHING
        scores = self.places.get(place, {})
        return score_text(mean_test(scores, self.tasks), std_of_mean(scores, self.tasks))

    def points(self, axis: str) -> list[tuple[int, float]]:
        """(position, score) along ``downstream`` or ``supplementary`` through the best place."""
        best, held = self.best, "supplementary" if axis == "downstream" else "downstream"
        through = [place for place in self.places if best and getattr(place, held) == getattr(best, held)]
        points = [(getattr(place, axis), self.test(place)) for place in through]
        return sorted((position, score) for position, score in points if position is not None and score is not None)


def _first(place: GridPlace) -> tuple[int, int]:
    """What places are sorted by."""
    return -1 if place.supplementary is None else place.supplementary, place.downstream


def position_chart(results: Results, choice: Choice) -> Chart:
    """Figure 7: lines for each row with prompts and each kind of tasks; the table has the whole grid."""
    scope = take_varying(results, choice, ["position", "supplementary_position"])
    choice.pick(run["row"] for run in scope.done)
    tasks = tasks_of(scope, choice)
    grids = [grid for kind in POSITIONS for grid in _grids(scope, tasks, kind)]
    refuse_empty(results, tasks, [grid.test(place) for grid in grids for place in grid.places])
    panels = [
        _panel(grids, "(a) downstream tasks", "downstream"),
        _panel(grids, "(b) supplementary training", "supplementary"),
    ]
    downstream = sorted({place.downstream for grid in grids for place in grid.places})
    groups = [
        [
            [grid.row, grid.kind, "none" if position is None else str(position)]
            + [grid.cell(GridPlace(position, other)) for other in downstream]
            for position in grid.supplementary
        ]
        for grid in grids
    ]
    header = ["method", "tasks", "supplementary", *(f"position {position}" for position in downstream)]
    notes, more = average_notes(scope, tasks, of_kinds=True), [LINES, *protocol(scope, tasks)]
    return Chart(panels, Table("Figure 7: impact of the prompt's position", 3, header, groups, notes, more))


def _grids(scope: Scope, tasks: Collection[str], kind: str) -> list[Grid]:
    of_kind = tuple(task for task in tasks if kind_of(task) == kind)
    done = [run for run in scope.done if kind_of(run["task"]) == kind]
    places: dict[str, dict[GridPlace, RowScores]] = {}
    keys = itemgetter("row", "supplementary_position", "position")
    for (row, *place), scores in rows_of(done, keys, scope.failed).items():
        places.setdefault(row, {})[GridPlace(*place)] = scores
    return [Grid(row, kind, of_kind, there) for row, there in places.items()]


def _panel(grids: list[Grid], title: str, axis: str) -> Panel:
    """A line for each grid that has points."""
    rows = list(dict.fromkeys(grid.row for grid in grids))
    series = [
        Series(f"{grid.row}, {grid.kind}", points, rows.index(grid.row), dashed=grid.kind == PAIRS)
        for grid in grids
        if (points := grid.points(axis))
    ]
    return Panel(title, f"prompt position, {title[4:]}", "mean test score (x100)", series, whole=True)


# --- dev scores over the updates -----------------------------------------------------------------

HEADER = ["task", "method", "lr", "first", "half", "best", "at update", "last", "updates"]
DEV_SCORES = (
    "scores: means over seeds {} of the score on the development set, x100: at the first validation, the one nearest "
    "to half of the updates, the best and the last; at the learning rate with the best mean dev score"
)
BEST = "the checkpoint of each run is that of its own best validation"


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
    how = DEV_SCORES.format(", ".join(map(str, seeds_of(scope))))
    notes, more = [how, BEST, *figure_warnings(scope, unshared(rows))], protocol(scope, tasks)
    return Chart(panels, Table("Dev scores over the updates", 2, HEADER, groups, notes, more))


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


CHARTS: dict[int | str, Callable[[Results, Choice], Chart]] = {
    1: parameter_chart,
    3: generator_chart,
    7: position_chart,
    9: length_chart,
    "curves": curve_chart,
}
