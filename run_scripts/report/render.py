"""Tables as text, with the same cells in every format, and figures as images."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tabulate import tabulate

from preprocess.drawing import Panel, draw
from preprocess.errors import escaped, shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MISSING = "missing"
NOTHING = "-"  # where there cannot be a value


def signed(difference: float) -> str:
    # an interval that ends at -0.04 holds 0, and "-0.0" says so; what differs from 0 by rounding alone is "+0.0"
    return f"{round(difference, 9) + 0:+.1f}"


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
    scores: int = 0  # number of columns after the names in which the highest number is the best

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


def markdown(table: Table) -> str:
    lines = _aligned(table, "pipe", lambda cell: cell.translate(MARKDOWN_SIGNS))
    title, *notes = (text.translate(MARKDOWN_SIGNS) for text in (table.title, *table.notes))
    return "\n".join([f"**{title}**", "", *lines, "", *(f"- {note}" for note in notes), ""])


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


@dataclass(frozen=True)
class Chart:
    """A figure, and its numbers as a table with the same title and notes."""

    panels: Sequence[Panel]
    table: Table
    caption: Sequence[str] = ()  # what a reader of the figure needs besides the table's notes
    sharey: bool = False

    def draw(self) -> Figure:
        return draw(self.panels, sharey=self.sharey)
