"""Tables as text: the same cells in every format."""

from __future__ import annotations

import csv
import io
import re
from typing import Callable

from .model import Table

MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\`*_|<>[]"})
LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"±": r"$\pm$", "<": "$<$", ">": "$>$", "*": r"$^{*}$", '"': r"\textquotedbl{}"},
    }
)


def terminal(table: Table) -> str:
    """Aligned columns; an empty line between groups."""
    widths = [max(map(len, column)) for column in zip(table.header, *table.lines)]

    def aligned(cells: list[str]) -> str:
        parts = [
            cell.ljust(width) if i < table.names else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths))
        ]
        return "  ".join(parts).rstrip()

    groups = ["\n".join(map(aligned, group)) for group in table.groups]
    between = "\n\n" if any(len(group) > 1 for group in table.groups) else "\n"
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([table.title, "", aligned(table.header), rule, between.join(groups), "", *table.notes]) + "\n"


def markdown(table: Table) -> str:
    rule = ["---" if i < table.names else "---:" for i in range(len(table.header))]
    lines = [table.header, *table.lines]
    cells = [[cell.translate(MARKDOWN) for cell in line] for line in lines]
    rows = [f"| {' | '.join(line)} |" for line in (cells[0], rule, *cells[1:])]
    notes = [f"- {note.translate(MARKDOWN)}" for note in table.notes]
    return "\n".join([f"**{table.title.translate(MARKDOWN)}**", "", *rows, "", *notes]) + "\n"


def latex(table: Table) -> str:
    """A ``table*`` for a document that uses the packages booktabs and graphicx, as wide as the page at most."""

    def row(cells: list[str]) -> str:
        signs = (re.sub(r"^-(?=\d)", "$-$", cell.translate(LATEX)) for cell in cells)
        return " & ".join(signs) + r" \\"

    groups = ["\n".join(map(row, group)) for group in table.groups]
    between = "\n\\addlinespace\n" if any(len(group) > 1 for group in table.groups) else "\n"
    notes = " ".join(f"{note.translate(LATEX)}." for note in table.notes)
    return (
        "\n".join(
            [
                r"% \usepackage{booktabs,graphicx}",
                *(r"\begin{table*}", r"\centering", r"\footnotesize", r"\setlength{\tabcolsep}{3pt}"),
                rf"\caption{{{table.title.translate(LATEX)}}}",
                r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{"
                rf"\begin{{tabular}}{{{'l' * table.names}{'r' * (len(table.header) - table.names)}}}",
                *(r"\toprule", row(table.header), r"\midrule", between.join(groups), r"\bottomrule"),
                r"\end{tabular}}",
                *(r"\par\smallskip", rf"\parbox{{\linewidth}}{{{notes}}}", r"\end{table*}"),
            ]
        )
        + "\n"
    )


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
