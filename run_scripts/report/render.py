"""Tables as text, with the same cells in every format, and figures as images."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

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

# Okabe and Ito's colours, which colour-blind readers tell apart; markers distinguish the rows in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h")  # with 7 colours: 77 styles
UNLABELLED = "_"  # matplotlib leaves such labels out of legends
BARS = 0.8  # share of the room between two groups
COLUMNS = 3
ONE_COLUMN, TWO_COLUMNS, PANEL_HEIGHT = 3.3, 6.8, 2.3  # inches, of a paper's page
LEGEND_LINE = 0.15  # inches
STYLE: dict[Any, Any] = {
    "font.size": 7,
    "axes.linewidth": 0.5,
    "lines.linewidth": 0.9,
    "grid.linewidth": 0.4,
    "hatch.linewidth": 0.5,
}

Point = tuple[float | str, float]  # a number, or the name of a group of bars, and a score


@dataclass(frozen=True)
class Series:
    """Points of one colour and marker."""

    label: str  # in the legend, which leaves an empty one out
    points: Sequence[Point]
    style: int  # number of the colour and marker, which ours and the paper's share, and both kinds of tasks
    of_paper: bool = False  # hollow markers, hatched bars
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
    groups: tuple[str, ...] = ()  # of bars, in their order; default: lines

    def __post_init__(self) -> None:
        self.series[:] = [series for series in self.series if series.points]


@dataclass(frozen=True)
class Chart:
    """A figure, and its numbers as a table with the same title and notes."""

    panels: list[Panel]
    table: Table


def save(chart: Chart, path: Path) -> None:
    """Draw a figure into a .png, .svg or .pdf file."""
    import matplotlib

    # Text stays text, which is small and can be searched; the same chart gives the same bytes.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "fairseq_idpg", **STYLE}):
        draw(chart).savefig(path, dpi=300, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def draw(chart: Chart) -> Figure:
    """Draw up to ``COLUMNS`` panels side by side at a paper's size, with one legend below."""
    from matplotlib.figure import Figure  # without pyplot there is neither a window nor global state

    # Four panels stand two by two, so that no cell stays empty.
    count = 2 if len(chart.panels) == 4 else min(len(chart.panels), COLUMNS)
    rows = -(-len(chart.panels) // count)
    labels = {series.label for panel in chart.panels for series in panel.series if series.label}
    width = ONE_COLUMN if count == 1 else TWO_COLUMNS
    entries = max(1, int(width / (0.6 + 0.05 * max(map(len, labels), default=0))))  # inches of a handle and a letter
    height = PANEL_HEIGHT * rows + LEGEND_LINE * -(-len(labels) // entries)
    figure = Figure(figsize=(width, height), layout="constrained")
    handles: dict[str, Any] = {}
    for axes, panel in itertools.zip_longest(figure.subplots(rows, count, squeeze=False).flat, chart.panels):
        if panel is None:
            axes.remove()
            continue
        axes.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
        axes.title.set_fontsize(8)
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
        (_paint_bars if panel.groups else _paint_lines)(axes, panel)
        if not panel.series:
            axes.text(0.5, 0.5, "no such runs", ha="center", transform=axes.transAxes)
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    if handles:
        figure.legend([*handles.values()], [*handles], loc="outside lower center", ncols=entries, frameon=False)
    return figure


def _paint_lines(axes: Any, panel: Panel) -> None:
    """Draw lines; the paper's hollow markers are larger, so that both are seen where they coincide."""
    for series in panel.series:
        x, y = zip(*series.points)
        colour = COLOURS[series.style % len(COLOURS)]
        axes.plot(
            x,
            y,
            label=series.label or UNLABELLED,
            linestyle="" if len(x) == 1 else "--" if series.dashed else "-",
            color=colour,
            marker=MARKERS[series.style % len(MARKERS)],
            markerfacecolor="none" if series.of_paper else colour,
            markersize=6 if series.of_paper else 3.5,
        )
    if panel.log:
        axes.set_xscale("log")
    if panel.whole:
        axes.set_xticks(sorted({x for series in panel.series for x, _ in series.points}))


def _paint_bars(axes: Any, panel: Panel) -> None:
    """Draw bars on an axis that starts near the lowest, as scores differ little."""
    width = BARS / max(1, len(panel.series))
    for number, series in enumerate(panel.series):
        places = [panel.groups.index(x) + width * (number - (len(panel.series) - 1) / 2) for x, _ in series.points]
        colour = COLOURS[series.style % len(COLOURS)]
        hatched = {"facecolor": "white", "edgecolor": colour, "hatch": "///"}
        look = hatched if series.of_paper else {"facecolor": colour}
        heights = [y for _, y in series.points]
        drawn = axes.bar(places, heights, width=width * 0.95, label=series.label or UNLABELLED, **look)
        axes.bar_label(drawn, fmt="%.1f", fontsize=5, padding=1)
    heights = [y for series in panel.series for _, y in series.points]
    margin = max(1.0, 0.2 * (max(heights) - min(heights)))
    axes.set_ylim(min(heights) - margin, max(heights) + margin)
    axes.set_xticks(range(len(panel.groups)), panel.groups)
