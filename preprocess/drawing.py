"""What all figures share: a paper's widths and type size, colours for any vision, bars side by side, whole files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .errors import InputError
from .writing import new_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers tell apart; markers and their lightness distinguish them in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")  # with 7 colours: 77 styles
IMAGES = (".png", ".svg", ".pdf")
ONE_COLUMN, TWO_COLUMNS, PANEL_HEIGHT = 3.3, 6.8, 2.2  # inches, of a paper's page
GROUP = 0.8  # share of the room between two groups of bars
LINE = 0.15  # inches, of a legend
LABEL = 5.5  # points: the size of labels beside points
ANGLES = np.radians((0, 30, -30, 60, -60, 180, 150, -150, 120, -120, 90, -90))  # of labels to points, best first
TOWARDS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
LEADER = {"arrowstyle": "-", "linewidth": 0.3, "shrinkA": 0, "shrinkB": 2}  # line to a label that is further off
ERROR_BAR = {"elinewidth": 0.5, "capsize": 1.2, "capthick": 0.5}
LABELLED = 14  # lines of a legend in an empty cell, at most
DODGE = 2.0  # points between the error bars of two rows at one place
STYLE: dict[Any, Any] = {
    **{"font.size": 7, "axes.titlesize": 7, "axes.linewidth": 0.5, "lines.linewidth": 0.9, "lines.markersize": 3.5},
    **{"axes.grid": True, "axes.axisbelow": True, "grid.alpha": 0.3, "grid.linewidth": 0.4, "legend.frameon": False},
    **{"legend.handlelength": 1.6, "legend.columnspacing": 1, "legend.fontsize": 6.5},
    **{"axes.spines.top": False, "axes.spines.right": False},
    # text stays text, which is small and can be searched; the same figure gives the same bytes
    **{"svg.fonttype": "none", "svg.hashsalt": "fairseq_idpg", "pdf.fonttype": 42},
}


def check_image(path: Path, option: str) -> None:
    """Raise InputError, before the work, where matplotlib is not there or writes no such files."""
    known = {}
    if find_spec("matplotlib") is not None:
        from matplotlib.backend_bases import FigureCanvasBase

        known = FigureCanvasBase.filetypes
    if path.suffix[1:].lower() not in known:
        remedy = f"name a file that ends in {', '.join(IMAGES)}" if known else "pip install matplotlib, or leave it out"
        raise InputError(f"{option} {path}: {remedy}")


def save(draw: Callable[[], Figure], path: Path) -> None:
    """Write the figure that ``draw`` returns into a .png, .svg or .pdf file, whole or not at all."""
    import matplotlib

    with matplotlib.rc_context(STYLE), new_file(path) as work:
        draw().savefig(work, dpi=300, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def draw_bars(axes: Any, values: Sequence[Sequence[float | None]], names: Sequence[str], number: str) -> list[Any]:
    """Draw a group of bars for each name, side by side, with their values; return the bars of each colour."""
    width, drawn = GROUP / max(map(len, values)), []
    for kind in range(max(map(len, values))):
        found = [(place, group) for place, group in enumerate(values) if kind < len(group) and group[kind] is not None]
        places = [place + width * (kind - (len(group) - 1) / 2) for place, group in found]
        look = {"color": COLOURS[kind], "hatch": "///" * (kind % 2), "edgecolor": "white", "linewidth": 0}
        drawn.append(axes.bar(places, [group[kind] for _, group in found], width=0.95 * width, **look))
        axes.bar_label(drawn[-1], fmt=number, fontsize=5, padding=1)
    crowded = sum(map(len, names)) > 40
    axes.set_xticks(range(len(names)), names, rotation=30 * crowded, ha="right" if crowded else "center")
    axes.set_xlim(-0.7, len(names) - 0.3)
    axes.grid(axis="x", visible=False)
    axes.margins(y=0.15)
    return drawn


# --- lines and points, in panels ------------------------------------------------------------------


class Point(NamedTuple):
    """A number, or the place of a name, with a score and half of its error bar."""

    x: float
    y: float
    std: float | None = None


@dataclass(frozen=True)
class Series:
    """Points of one colour and marker."""

    label: str  # beside the last point or in the legend, which leave an empty one out
    points: Sequence[Point]
    style: int  # number of the colour and marker, which ours and the paper's share, and both kinds of tasks
    of_paper: bool = False  # hollow markers
    dashed: bool = False  # a second line of the same style


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    xlabel: str
    ylabel: str
    series: list[Series]  # those without points are left out
    log: bool = False  # a logarithmic x axis
    whole: bool = False  # a tick for each x, all of which are whole numbers
    groups: tuple[str, ...] = ()  # names of x = 0, 1, ...; no lines between them
    zero: bool = False  # both axes begin at 0

    def __post_init__(self) -> None:
        self.series[:] = [series for series in self.series if series.points]


def draw(panels: Sequence[Panel], sharey: bool = False) -> Figure:
    """Draw panels side by side at a paper's size, those without points left out; raise InputError if all are."""
    from matplotlib.figure import Figure  # without pyplot there is neither a window nor global state

    panels = [panel for panel in panels if panel.series]
    if not panels:
        raise InputError("the figure has no points: run what its table lacks first")
    # Two by two, three or four beside each other: at most the end of the last row is empty, and has the legend.
    columns = 2 if len(panels) == 4 else 4 if len(panels) in (7, 8) or len(panels) > 9 else min(3, len(panels))
    rows, width = -(-len(panels) // columns), ONE_COLUMN if columns == 1 else TWO_COLUMNS
    figure = Figure(figsize=(width, PANEL_HEIGHT * rows), layout="constrained")
    # Panels whose lines end at very different places keep their own scales.
    ends = [max(point.x for series in panel.series for point in series.points) for panel in panels]
    sharex = len({panel.xlabel for panel in panels}) == 1 and max(ends) <= 1.5 * min(ends)
    cells = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    handles: dict[str, Any] = {}
    for number, (axes, panel) in enumerate(zip(cells.flat, panels)):
        below = {each.xlabel for each in panels[number + columns :: columns]}
        beside = {each.ylabel for each in panels[number - number % columns : number]}
        axes.tick_params(labelbottom=not (sharex and below))
        axes.set_title(panel.title if len(panels) > 1 else "")
        axes.set_xlabel("" if panel.xlabel in below else panel.xlabel)
        axes.set_ylabel("" if panel.ylabel in beside else panel.ylabel)
        drawn = _paint(axes, panel)
        handles |= {series.label: line for series, line in zip(panel.series, drawn) if series.label}
    empty = [*cells.flat][len(panels) :]
    for axes in empty:
        axes.axis("off")
    # Among many points without lines a label would not say which of them are its own.
    scattered = panels[0].groups and len(panels[0].series) > 3
    if len(panels) == 1 and not scattered and _label(cells[0, 0], panels[0], drawn):
        return figure
    if empty and len(handles) <= LABELLED:
        empty[0].legend([*handles.values()], [*handles], loc="center left")
    elif handles:
        entries = max(1, int(width / (0.4 + 0.046 * max(map(len, handles)))))  # inches of a handle and a letter
        figure.set_figheight(PANEL_HEIGHT * rows + LINE * -(-len(handles) // entries))
        figure.legend([*handles.values()], [*handles], loc="outside lower center", ncols=entries)
    return figure


def _paint(axes: Any, panel: Panel) -> list[Any]:
    """Draw lines with error bars; the paper's hollow markers are larger, so that both are seen where they coincide."""
    from matplotlib.transforms import ScaledTranslation

    drawn = []
    for number, series in enumerate(panel.series):
        x, y, std = zip(*series.points)
        # Side by side where error bars would cover each other, ours and the paper's at one place.
        aside = 3 * DODGE if panel.groups else 0 if panel.log or not any(std) else DODGE
        place, last = (series.style, panel.series[-1].style) if panel.groups else (number, len(panel.series) - 1)
        shift = ScaledTranslation(aside * (place - last / 2) / 72, 0, axes.figure.dpi_scale_trans)
        line = "" if len(x) == 1 or panel.groups else "--" if series.dashed else "-"
        look: dict[str, Any] = {"linestyle": line, "color": COLOURS[series.style % len(COLOURS)]}
        look |= {"marker": MARKERS[series.style % len(MARKERS)], "markevery": max(1, len(x) // 12)}
        look |= {"markerfacecolor": "none", "markersize": 6} if series.of_paper else {}
        look["label"] = series.label or "_"  # which matplotlib leaves out of legends
        bars = axes.errorbar(x, y, [each or 0 for each in std] if any(std) else None, **ERROR_BAR, **look)
        for artist in bars.get_children():  # now that the limits of the axes know where it is
            artist.set_transform(axes.transData + shift)
        drawn.append(bars[0])
    if panel.log:
        axes.set_xscale("log")
    if panel.whole:
        axes.set_xticks(sorted({point.x for series in panel.series for point in series.points}))
    if panel.zero:
        axes.set(xlim=(0, None), ylim=(0, 1.08 * axes.dataLim.y1))
    if panel.groups:
        axes.set_xticks(range(len(panel.groups)), panel.groups)
        axes.set_xlim(-0.5, len(panel.groups) - 0.5)
    return drawn


def _label(axes: Any, panel: Panel, drawn: Sequence[Any]) -> bool:
    """Write each label near the last point of its series; return whether all have found a free place."""
    from matplotlib.colors import to_rgb
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    left, right = axes.get_xlim()
    downwards = sorted(zip(panel.series, drawn), key=lambda each: -each[0].points[-1].y)
    # Near labels are worth some empty room: at the right of lines, at both sides of a cloud of points.
    for furthest, room in itertools.product((8, 26), (0.0, 0.2, 0.4, 0.6)):
        more = (right / left) ** (room / 2) if panel.log else room * (right - left)
        axes.set_xlim(*((left / more, right * more) if panel.log else (left, right + more)))
        axes.figure.draw_without_rendering()
        point = axes.figure.dpi / 72  # pixels
        taken = [box for series, line in downwards for box in _boxes(series, line, point)]
        inside, texts = axes.get_window_extent(), []
        for series, line in (each for each in downwards if each[0].label):
            end, colour = series.points[-1][:2], [0.75 * part for part in to_rgb(line.get_color())]
            how = {"xycoords": line.get_transform(), "textcoords": "offset points", "va": "bottom"}
            how |= {"color": colour, "fontsize": LABEL, "arrowprops": {**LEADER, "color": colour}}
            texts.append(axes.annotate(series.label, end, (0, 0), **how))
            at, size = line.get_transform().transform(end), Text.get_window_extent(texts[-1]).size
            places = (
                (distance, Bbox([corner, corner + size]))
                for distance, towards in itertools.product(range(4, furthest + 1, 4), TOWARDS)
                for corner in [at + distance * point * towards - (1 - towards) / 2 * size]
            )
            free = (
                (distance, box)
                for distance, box in places
                if inside.contains(*box.min) and inside.contains(*box.max) and not box.count_overlaps(taken)
            )
            distance, box = next(free, (0, None))
            if box is None:
                break
            texts[-1].set_position((box.min - at) / point)
            texts[-1].arrow_patch.set_visible(distance > 8)
            taken.append(box)
        else:
            return True
        for text in texts:
            text.remove()
    axes.set_xlim(left, right)
    return False


def _boxes(series: Series, line: Any, point: float) -> Iterator[Any]:
    """Yield the boxes of a series that no label may cover: markers, error bars and steps of lines, in pixels."""
    from matplotlib.transforms import Bbox

    transform = line.get_transform()
    path = line.get_path().interpolated(1 if line.get_linestyle() == "None" else 40)
    yield from (Bbox([at - point / 2, at + point / 2]) for at in transform.transform_path(path).vertices)
    marker = (line.get_markersize() + 0.5) / 2 * point
    for each in series.points:
        at, (_, top) = transform.transform([each[:2], (each.x, each.y + (each.std or 0))])
        half = np.array([marker, max(top - at[1], marker)])
        yield Bbox([at - half, at + half])
