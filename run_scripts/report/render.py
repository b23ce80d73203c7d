"""Tables of a report as text, with the same cells in every format."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass

from tabulate import SEPARATING_LINE, DataRow, Line, TableFormat, tabulate

from preprocess.errors import escaped, shown

MISSING = "missing"
NOTHING = "-"  # where there cannot be a value


def signed(difference: float) -> str:
    return f"{round(difference, 1) + 0:+.1f}"  # adding 0 makes -0.0 positive


@dataclass(frozen=True)
class Table:
    """Lines of cells in groups that stay together, and notes that belong below them.

    Attributes:
        names: how many of the first columns hold names rather than numbers.
    """

    title: str
    names: int
    header: list[str]
    groups: list[list[list[str]]]
    notes: list[str]

    def __post_init__(self) -> None:
        widths = {len(line) for line in self.lines}
        if widths - {len(self.header)}:
            raise ValueError(f"lines of {widths} cells below a header of {len(self.header)}")

    @property
    def lines(self) -> list[list[str]]:
        return [line for group in self.groups for line in group]


def _ampersands(cells: list[str], widths: list[int], sides: list[str]) -> str:
    return " & ".join(map(str.strip, cells)) + r" \\"


APART = ["linebetweenrows"]  # hidden between rows: tabulate draws it where SEPARATING_LINE stands, between groups
TERMINAL = TableFormat(
    lineabove=None,
    linebelowheader=Line("", "-", "  ", ""),
    linebetweenrows=Line("", "", "", ""),
    linebelow=None,
    headerrow=DataRow("", "  ", ""),
    datarow=DataRow("", "  ", ""),
    padding=0,
    with_header_hide=APART,
)
BOOKTABS = TableFormat(
    lineabove=Line(r"\toprule", "", "", ""),
    linebelowheader=Line(r"\midrule", "", "", ""),
    linebetweenrows=Line(r"\addlinespace", "", "", ""),
    linebelow=Line(r"\bottomrule", "", "", ""),
    headerrow=_ampersands,
    datarow=_ampersands,
    padding=0,
    with_header_hide=APART,
)
MARKDOWN_SIGNS = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_|<>[]"})
LATEX_SIGNS = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "<": "$<$", ">": "$>$", "*": r"$^{*}$", '"': r"\textquotedbl{}"}
)


def _aligned(table: Table, layout: TableFormat | str, escaped: Callable[[str], str] = str) -> str:
    """Header and lines, names to the left and numbers to the right; in our layouts groups of several stand apart."""
    apart = isinstance(layout, TableFormat) and any(len(group) > 1 for group in table.groups)
    lines: list[list[str]] = []
    for group in table.groups:
        lines += [[SEPARATING_LINE]] if lines and apart else []
        lines += [[escaped(cell) for cell in line] for line in group]
    sides = ["left" if number < table.names else "right" for number in range(len(table.header))]
    return tabulate(lines, list(map(escaped, table.header)), layout, colalign=sides, disable_numparse=True)


def terminal(table: Table) -> str:
    lines = [table.title, "", *_aligned(table, TERMINAL, shown).split("\n"), "", *table.notes]
    return "".join(f"{escaped(line)}\n" for line in lines)


def _in_markdown(text: str) -> str:
    return text.translate(MARKDOWN_SIGNS)


def markdown(table: Table) -> str:
    notes = [f"- {_in_markdown(note)}" for note in table.notes]
    return "\n".join([f"**{_in_markdown(table.title)}**", "", _aligned(table, "pipe", _in_markdown), "", *notes]) + "\n"


def _in_latex(text: str) -> str:
    return re.sub(r"^-(?=\d)", "$-$", text.translate(LATEX_SIGNS))


def latex(table: Table) -> str:
    """A ``table*`` for a document that uses the packages booktabs and graphicx, as wide as the page at most."""
    columns = "l" * table.names + "r" * (len(table.header) - table.names)
    return rf"""% \usepackage{{booktabs,graphicx}}
\begin{{table*}}
\centering
\footnotesize
\setlength{{\tabcolsep}}{{3pt}}
\caption{{{_in_latex(table.title)}}}
\resizebox{{\ifdim\width>\linewidth\linewidth\else\width\fi}}{{!}}{{\begin{{tabular}}{{{columns}}}
{_aligned(table, BOOKTABS, _in_latex)}
\end{{tabular}}}}
\par\smallskip
\parbox{{\linewidth}}{{{" ".join(f"{_in_latex(note)}." for note in table.notes)}}}
\end{{table*}}
"""


def comma_separated(table: Table) -> str:
    """Header and lines alone, without title and notes, so that other programs can read them."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.header, *table.lines])
    return text.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": terminal,
    "markdown": markdown,
    "latex": latex,
    "csv": comma_separated,
}
SUFFIXES = {".md": "markdown", ".tex": "latex", ".csv": "csv"}  # of --out, where no --format is given
