"""Figures 1, 3 and 9: average scores against trainable parameters, generators and prompt lengths."""

from __future__ import annotations

from typing import Callable

from .averages import Averages, refuse_empty, take_averages, take_varying, tasks_of
from .columns import Value, minus, signed
from .counts import counts, printed
from .paper import paper
from .positions import position_chart
from .render import MISSING, NOTHING, Chart, Panel, Point, Series, Table
from .runs import Results
from .scope import Choice
from .scores import rows_of
from .tables import SCORE_TABLES

SHARING = ("S", "M", "L")
INPUTS = {"layer0": "layer 0", "previous": "previous layer"}


def parameter_chart(results: Results, choice: Choice) -> Chart:
    """Figure 1: average score against trainable parameters."""
    found = counts(results, choice)
    ours = take_averages(results, choice, SCORE_TABLES[1].wants, lambda run: run["row"])
    block = paper().blocks[1][None]
    series, lines = [], []
    for style, row in enumerate(choice.pick([*block, *ours.rows])):
        trainable, score, theirs = found.trainable(row), ours.mean(row), printed(row)
        papers = block[row].average(ours.tasks) if row in block else None
        mine, printed_point = _point(trainable, score), _point(theirs and theirs.parameters, papers)
        series += [Series(row, mine, style)] if mine else []
        series += [Series("" if mine else row, printed_point, style, of_paper=True)] if printed_point else []
        cells = [MISSING if trainable is None else f"{trainable:,}", shown(score)]
        lines.append([row, *cells, theirs.printed if theirs else NOTHING, shown(papers, NOTHING)])
    header = ["method", "trainable", "Avg", "paper: trainable", "paper: Avg"]
    notes = [*ours.notes, "filled: ours; hollow: the paper's, of RoBERTa-large; heads not counted; 0 is not drawn"]
    title = "Figure 1: average score against trainable parameters"
    panel = Panel("", "trainable parameters without the head (log scale)", ours.label, series, log=True)
    return Chart([panel], Table(title, 1, header, [[line] for line in lines], notes))


def _point(parameters: int | None, score: float | None) -> list[Point]:
    """Nothing where one of them is not known, and for no parameters, which a logarithmic axis has no place for."""
    return [(parameters, score)] if parameters and score is not None else []


def generator_chart(results: Results, choice: Choice) -> Chart:
    """Figure 3: S, M and L generators whose input is the same for all layers or the previous layer's output."""
    ours = take_averages(results, choice, SCORE_TABLES[6].wants, lambda run: run["row"])
    block = paper().blocks[6][None]
    series, groups = [], []
    for style, (size, source) in enumerate(dict.fromkeys(map(_variant, choice.pick([*block, *ours.rows])))):
        names = [f"{sharing}-{size}-{source}" for sharing in SHARING]
        mine = [ours.mean(name) for name in names]
        papers = [block[name].average(ours.tasks) if name in block else None for name in names]
        for whose, heights in (("ours", mine), ("paper", papers)):
            points = [(sharing, height) for sharing, height in zip(SHARING, heights) if height is not None]
            label = f"{whose}: m = {size}, input: {INPUTS[source]}"
            series += [Series(label, points, style, of_paper=whose == "paper")] if points else []
        lines = {
            "ours": [shown(score) for score in mine],
            "paper": [shown(score, NOTHING) for score in papers],
            "difference": [signed(minus(*both)) for both in zip(mine, papers)],
        }
        groups.append([[size, INPUTS[source], name, *cells] for name, cells in lines.items()])
    title = "Figure 3: multi-layer generators that share weights and bias (S), weights (M) or nothing (L)"
    panel = Panel("", "sharing over layers", ours.label, series, groups=SHARING)
    return Chart([panel], Table(title, 3, ["m", "input", "values", *SHARING], groups, ours.notes))


def _variant(row: str) -> tuple[str, str]:
    """Hidden size and input of a row of Table 6."""
    _, size, source = row.split("-")
    return size, source


def length_chart(results: Results, choice: Choice) -> Chart:
    """Figure 9: average score against prompt length, of all rows with more than one length.

    Raises:
        RunError: see ``take_varying``; no row has runs of all tasks.
    """
    scope = take_varying(results, choice, ["prompt_length"])
    rows = rows_of(scope.done, lambda run: (run["row"], run["prompt_length"]), scope.failed)
    ours = Averages(scope, tasks_of(scope, choice), rows)
    refuse_empty(results, ours.tasks, map(ours.mean, rows))
    lengths = sorted({length for _, length in rows})
    series, lines = [], []
    for style, row in enumerate(choice.pick(row for row, _ in rows)):
        scores = [ours.mean((row, length)) for length in lengths]
        points = [(length, score) for length, score in zip(lengths, scores) if score is not None]
        series += [Series(row, points, style)] if points else []
        lines.append([row, *map(shown, scores)])
    panel = Panel("", "prompt length (rows)", ours.label, series, whole=True)
    table = Table(
        *("Figure 9: impact of prompt length", 1, ["method", *map(str, lengths)], [[line] for line in lines]),
        ours.notes,
    )
    return Chart([panel], table)


def shown(score: float | None, unknown: str = MISSING) -> str:
    return Value(score).text(unknown=unknown)


CHARTS: dict[int, Callable[[Results, Choice], Chart]] = {
    1: parameter_chart,
    3: generator_chart,
    7: position_chart,
    9: length_chart,
}
