"""What a figure shows, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from .model import Table

Point = tuple[Union[float, str], float]  # a number, or the name of a group of bars, and a score


@dataclass(frozen=True)
class Series:
    """Points of one colour and marker.

    Attributes:
        label: in the legend; none if empty.
        style: number of the colour and marker; the same for ours and the paper's, and for both kinds of tasks.
        of_paper: hollow markers, hatched bars.
        dashed: a second line of the same style.
    """

    label: str
    points: list[Point]
    style: int
    of_paper: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        kind: of the painters in ``drawing``.
        log: whether the x axis is logarithmic.
        whole: whether x has whole numbers only, each with a tick.
        groups: of bars, in their order.
    """

    title: str
    xlabel: str
    ylabel: str
    series: list[Series]
    kind: str = "lines"
    log: bool = False
    whole: bool = False
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A figure, and its numbers as a table, whose title and notes are the figure's too."""

    panels: list[Panel]
    table: Table
