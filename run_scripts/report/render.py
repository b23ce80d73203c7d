"""Tables as text, with the same cells in every format, and figures as images."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tabulate import tabulate

from preprocess.drawing import COLOURS, MARKERS, ONE_COLUMN, PANEL_HEIGHT, TWO_COLUMNS
from preprocess.errors import escaped, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MISSING = "missing"
NOTHING = "-"  # where there cannot be a value


def signed(difference: float) -> str:
    return f"{round(difference, 1) + 0:+.1f}"  # adding 0 makes -0.0 positive


def score_text(score: float | None, std: float | None = None, unknown: str = MISSING) -> str:
    if score is None:
        return unknown
    return f"{score:.1f}" if std is None else f"{score:.1f}±{std:.1f}"


def signed_difference(ours: float | None, papers: float | None) -> str:
    return NOTHING if ours is None or papers is None else signed(ours - papers)


@dataclass(frozen=True)
class Table:
    """Lines of cells, in groups that stay together, and the notes under them."""

    title: str
    names: int  # number of the first columns that hold names; the others hold numbers
    header: list[str]
    groups: list[list[list[str]]]
    notes: list[str]  # three at most
    more: list[str] = field(default_factory=list)  # further notes, for --notes
    scores: int = 0  # number of columns behind the names in which the highest number is the best

    @property
    def lines(self) -> list[list[str]]:
        return [line for group in self.groups for line in group]


MARKDOWN_SIGNS = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_|<>[]"})
LATEX_SIGNS = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "<": "$<$", ">": "$>$", "*": r"$^{*}$", '"': r"\textquotedbl{}"}
)


def _aligned(table: Table, layout: str, in_layout: Callable[[str], str]) -> list[str]:
    """Return the header, a rule and the lines; names are flush left and numbers flush right."""
    cells = [[in_layout(cell) for cell in line] for line in (table.header, *table.lines)]
    sides = ["left" if number < table.names else "right" for number in range(len(table.header))]
    return tabulate(cells[1:], cells[0], layout, colalign=sides, disable_numparse=True).split("\n")


def _apart(lines: Iterable[str], table: Table, gap: str) -> list[str]:
    """Return the lines of a table, with a gap between groups if one of these has several lines."""
    if all(len(group) == 1 for group in table.groups):
        return list(lines)
    left = iter(lines)
    return [line for group in table.groups for line in (gap, *(next(left) for _ in group))][1:]


def terminal(table: Table) -> str:
    head, rule, *body = _aligned(table, "simple", shown)
    lines = [table.title, "", head, rule, *_apart(body, table, ""), "", *table.notes]
    return "".join(f"{escaped(line)}\n" for line in lines)


def _in_markdown(text: str) -> str:
    return text.translate(MARKDOWN_SIGNS)


def markdown(table: Table) -> str:
    notes = [f"- {_in_markdown(note)}" for note in table.notes]
    return "\n".join([f"**{_in_markdown(table.title)}**", "", *_aligned(table, "pipe", _in_markdown), "", *notes, ""])


def _in_latex(text: str) -> str:
    return re.sub(r"^-(?=\d)", "$-$", text.replace("**", "\0").translate(LATEX_SIGNS)).replace("\0", "$^{**}$")


def _best_cells(table: Table) -> set[tuple[int, int]]:
    """Return (line, column) of the highest scores of each K and of each kind of values, without differences."""
    found: dict[tuple[str, ...], list[tuple[float, int, int]]] = {}
    for number, line in enumerate(table.lines):
        names = [name for title, name in zip(table.header, line[: table.names]) if title != "method"]
        for column in range(table.names, table.names + table.scores):
            score = re.match(r"\d+\.\d", line[column])
            if score and "difference" not in names:
                found.setdefault((*names, str(column)), []).append((float(score[0]), number, column))
    return {(line, column) for cells in found.values() for score, line, column in cells if score == max(cells)[0]}


def latex(table: Table) -> str:
    """Return a ``table*`` that is at most as wide as the page; it needs the packages booktabs and graphicx."""
    columns = "l" * table.names + "r" * (len(table.header) - table.names)
    best = _best_cells(table)
    lines = [[_in_latex(cell) for cell in line] for line in table.lines]
    for line, column in best:
        lines[line][column] = rf"\textbf{{{lines[line][column]}}}"
    head, *body = (" & ".join(line) + r" \\" for line in (map(_in_latex, table.header), *lines))
    rows = [r"\toprule", head, r"\midrule", *_apart(body, table, r"\addlinespace"), r"\bottomrule"]
    tabular = "\n".join(rows)
    # LaTeX numbers the table itself, so "Table 3: words" becomes the words and the label.
    caption = re.sub(r"^Table \w+: ", "", table.title)
    label = re.sub(r"\W+", "-", caption.lower()).strip("-_")
    notes = "".join(f"% {escaped(note)}\n" for note in table.notes)
    return rf"""% \usepackage{{booktabs,graphicx}}
\begin{{table*}}
\centering
\footnotesize
\setlength{{\tabcolsep}}{{3pt}}
\caption{{{_in_latex(caption)}}}
\label{{tab:{label}}}
\resizebox{{\ifdim\width>\linewidth\linewidth\else\width\fi}}{{!}}{{\begin{{tabular}}{{{columns}}}
{tabular}
\end{{tabular}}}}
\end{{table*}}
{notes}"""


def comma_separated(table: Table) -> str:
    """Return header and lines without title and notes, which other programs could not read."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.header, *table.lines])
    return text.getvalue()


FORMATS = {"terminal": terminal, "markdown": markdown, "latex": latex, "csv": comma_separated}
SUFFIXES = {".md": "markdown", ".tex": "latex", ".csv": "csv"}  # of --out -> default of --format


# --- figures -------------------------------------------------------------------------------------

UNLABELLED = "_"  # matplotlib's name of what has none
LINE = 0.15  # inches, of a legend
LABEL = 5.5  # points: the size of labels beside points
ANGLES = (0, 30, -30, 60, -60, 180, 150, -150, 120, -120, 90, -90)  # of a label to its point, best first
LEADER = {"arrowstyle": "-", "linewidth": 0.3, "shrinkA": 0, "shrinkB": 2}  # line to a label that is further off
LABELLED = 14  # lines of a legend in an empty cell, at most
DODGE = 2.0  # points between the error bars of two rows at one place


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
    series: list[Series]  # those without points are left out
    log: bool = False  # a logarithmic x axis
    whole: bool = False  # a tick for each x, all of which are whole numbers
    groups: tuple[str, ...] = ()  # names of x = 0, 1, ...; no lines between them

    def __post_init__(self) -> None:
        self.series[:] = [series for series in self.series if series.points]


@dataclass(frozen=True)
class Chart:
    """A figure, and its numbers as a table with the same title and notes; panels without points are left out."""

    panels: list[Panel]
    ylabel: str
    table: Table
    caption: Sequence[str] = ()  # what a reader of the figure needs besides the table's notes
    sharey: bool = False

    def __post_init__(self) -> None:
        self.panels[:] = [panel for panel in self.panels if panel.series]


def draw(chart: Chart) -> Figure:
    """Draw panels side by side at a paper's size, with labels beside points, or one legend for all panels."""
    from matplotlib.figure import Figure  # without pyplot there is neither a window nor global state

    panels = chart.panels
    # Two by two, three or four beside each other: at most the end of the last row is empty, and has the legend.
    columns = 2 if len(panels) == 4 else 4 if len(panels) in (7, 8) or len(panels) > 9 else min(3, len(panels))
    rows = -(-len(panels) // columns)
    labels = {series.label for panel in panels for series in panel.series if series.label}
    width = ONE_COLUMN if columns == 1 else TWO_COLUMNS
    figure = Figure(figsize=(width, PANEL_HEIGHT * rows), layout="constrained")
    ends = [max(point.x for series in panel.series for point in series.points) for panel in panels]
    alike = len({panel.xlabel for panel in panels}) == 1
    # Panels whose lines end at very different places keep their own scales.
    sharex = alike and max(ends) <= 1.5 * min(ends)
    cells = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=chart.sharey)
    handles: dict[str, Any] = {}
    for number, (axes, panel) in enumerate(zip(cells.flat, panels)):
        lowest = number + columns >= len(panels)
        axes.tick_params(labelbottom=lowest or not sharex)
        axes.set_title(panel.title if len(panels) > 1 else "")
        axes.set_xlabel(panel.xlabel if lowest or not alike else "")
        axes.set_ylabel("" if number % columns else chart.ylabel)
        drawn = _paint(axes, panel)
        handles |= {series.label: line for series, line in zip(panel.series, drawn) if series.label}
    empty = [*cells.flat][len(panels) :]
    for axes in empty:
        axes.axis("off")
    if len(panels) == 1 and _label(cells[0, 0], panels[0], drawn):
        return figure
    if empty and len(handles) <= LABELLED:
        empty[0].legend([*handles.values()], [*handles], loc="center left")
    elif handles:
        entries = max(1, int(width / (0.4 + 0.046 * max(map(len, labels)))))  # inches of a handle and a letter
        figure.set_figheight(PANEL_HEIGHT * rows + LINE * -(-len(handles) // entries))
        figure.legend([*handles.values()], [*handles], loc="outside lower center", ncols=entries)
    return figure


def _paint(axes: Any, panel: Panel) -> list[Any]:
    """Draw lines with error bars; the paper's hollow markers are larger, so that both are seen where they coincide."""
    from matplotlib.transforms import ScaledTranslation

    drawn = []
    for number, series in enumerate(panel.series):
        x, y, std = zip(*series.points)
        colour = COLOURS[series.style % len(COLOURS)]
        aside = 0 if panel.log or not any(std) else DODGE * (1 + 2 * bool(panel.groups))
        shift = ScaledTranslation(aside * (number - (len(panel.series) - 1) / 2) / 72, 0, axes.figure.dpi_scale_trans)
        bars = axes.errorbar(
            x,
            y,
            [each or 0 for each in std] if any(std) else None,
            label=series.label or UNLABELLED,
            linestyle="" if len(x) == 1 or panel.groups else "--" if series.dashed else "-",
            color=colour,
            elinewidth=0.5,
            capsize=1.2,
            capthick=0.5,
            markevery=max(1, len(x) // 12),
            marker=MARKERS[series.style % len(MARKERS)],
            markerfacecolor="none" if series.of_paper else colour,
            markersize=6 if series.of_paper else 3.5,
        )
        for artist in bars.get_children():  # now that the limits of the axes know where it is
            artist.set_transform(axes.transData + shift)
        drawn.append(bars[0])
    if panel.log:
        axes.set_xscale("log")
    if panel.whole:
        axes.set_xticks(sorted({point.x for series in panel.series for point in series.points}))
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
            end, how = series.points[-1][:2], {"xycoords": line.get_transform(), "textcoords": "offset points"}
            colour = [0.75 * part for part in to_rgb(line.get_color())]
            how |= {"color": colour, "fontsize": LABEL, "va": "bottom", "arrowprops": {**LEADER, "color": colour}}
            texts.append(axes.annotate(series.label, end, (0, 0), **how))
            at, size = line.get_transform().transform(end), Text.get_window_extent(texts[-1])
            for distance, angle in itertools.product(range(4, furthest + 1, 4), ANGLES):
                towards = np.array([math.cos(math.radians(angle)), math.sin(math.radians(angle))])
                corner = at + distance * point * towards - (1 - towards) / 2 * size.size
                box = Bbox([corner, corner + size.size])
                fits = inside.contains(*box.min) and inside.contains(*box.max)
                if fits and not any(box.overlaps(other) for other in taken):
                    texts[-1].set_position((corner - at) / point)
                    texts[-1].arrow_patch.set_visible(distance > 8)
                    taken.append(box)
                    break
            else:
                break
        else:
            return True
        for text in texts:
            text.remove()
    axes.set_xlim(left, right)
    return False


def _boxes(series: Series, line: Any, point: float) -> Iterator[Any]:
    """Yield the boxes of a series that no label may cover: markers, error bars and steps of lines, in pixels."""
    from matplotlib.transforms import Bbox

    last = None
    for each in series.points:
        at = line.get_transform().transform(each[:2])
        half = line.get_transform().transform((each.x, each.y + (each.std or 0)))[1] - at[1]
        yield Bbox([at - (2 * point, max(half, 2 * point)), at + (2 * point, max(half, 2 * point))])
        if last is not None and line.get_linestyle() != "None":
            steps = [last + (at - last) * step / 40 for step in range(40)]
            yield from (Bbox([step - point / 2, step + point / 2]) for step in steps)
        last = at
