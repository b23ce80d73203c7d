"""Figure 7: impact of the prompt's position in downstream tasks and in supplementary training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Collection, NamedTuple

from .averages import Averages, average_notes, refuse_empty, take_varying, tasks_of
from .columns import Value
from .render import NOTHING, Chart, Panel, Series, Table
from .runs import PAIRS, SINGLE, Results, Run, kind_of
from .scope import Choice, Scope
from .scores import rows_of

POSITIONS = {SINGLE: (0, 1, 4), PAIRS: (0, 1, 2, 3, 4)}  # Figure 6
HELD = "(a) holds the supplementary and (b) the downstream position at the place with the best mean dev score"


class Place(NamedTuple):
    """Positions of the prompt; ``supplementary`` is None without supplementary training."""

    supplementary: int | None
    downstream: int


@dataclass(frozen=True)
class Grid:
    """The averages of a row over one kind of tasks at all its places; None where a task is missing."""

    row: str
    kind: str
    tests: dict[Place, float | None]
    devs: dict[Place, float | None]

    @property
    def best(self) -> Place | None:
        """By dev score."""
        known = {place: dev for place, dev in self.devs.items() if dev is not None}
        return max(known, key=known.__getitem__) if known else None

    @property
    def supplementary(self) -> list[int | None]:
        return sorted({place.supplementary for place in self.tests}, key=lambda p: -1 if p is None else p)

    def cell(self, place: Place) -> str:
        impossible = place.downstream not in POSITIONS[self.kind]
        return NOTHING if impossible else Value(self.tests.get(place)).text()

    def points(self, axis: str) -> list[tuple[int, float]]:
        """(position, score) along ``downstream`` or ``supplementary`` through the best place."""
        if self.best is None:
            return []
        through = self.best._replace(**{axis: None})
        line = {place: score for place, score in self.tests.items() if place._replace(**{axis: None}) == through}
        points = [(getattr(place, axis), score) for place, score in line.items()]
        return sorted((position, score) for position, score in points if position is not None and score is not None)


def place_of(run: Run) -> Place:
    return Place(run["supplementary_position"], run["position"])


def position_chart(results: Results, choice: Choice) -> Chart:
    """Lines for each row with prompts and each kind of tasks; the table has the whole grid.

    Raises:
        RunError: see ``take_varying``; no row has runs of all tasks of a kind at one place.
    """
    scope = take_varying(results, choice, ["position", "supplementary_position"])
    choice.pick(run["row"] for run in scope.done)
    tasks = tasks_of(scope, choice)
    grids = [grid for kind in POSITIONS for grid in _grids(scope, tasks, kind)]
    refuse_empty(results, tasks, [score for grid in grids for score in grid.tests.values()])
    panels = [
        _panel(grids, "(a) downstream tasks", "downstream"),
        _panel(grids, "(b) supplementary training", "supplementary"),
    ]
    notes = [*average_notes(scope, tasks), "solid: single sentences; dashed: pairs", HELD]
    return Chart(panels, _table(grids, notes))


def _grids(scope: Scope, tasks: Collection[str], kind: str) -> list[Grid]:
    done = [run for run in scope.done if kind_of(run["task"]) == kind]
    of_kind = Averages(
        scope,
        tuple(task for task in tasks if kind_of(task) == kind),
        rows_of(done, lambda run: (run["row"], place_of(run)), scope.failed),
    )
    places: dict[str, list[Place]] = {}
    for row, place in of_kind.rows:
        places.setdefault(row, []).append(place)
    return [
        Grid(row, kind, *({p: of((row, p)) for p in there} for of in (of_kind.mean, of_kind.dev)))
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
            + [grid.cell(Place(position, other)) for other in downstream]
            for position in grid.supplementary
        ]
        for grid in grids
    ]
    header = ["method", "tasks", "supplementary", *(f"position {position}" for position in downstream)]
    return Table("Figure 7: impact of the prompt's position", 3, header, groups, notes)
