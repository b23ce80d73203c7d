"""Every format has the same cells."""

from __future__ import annotations

import csv
import io
import re

from run_scripts.report.render import FORMATS, Table

TABLE = Table(
    "Table 0: 100% of a_b & c",
    2,
    ["method", "values", "CR|MR", "p, x"],
    [
        [["a", "ours", "91.0±0.5 (n=3)", "<0.001* (n=6)"], ["a", "paper", "-", ""]],
        [["b_c & d", "ours", "missing", "0.074 (n=3)"], ["", "difference", "-1.0", "+0.5"]],
    ],
    ["first: 5% #1", "second_note"],
)
TERMINAL = """\
Table 0: 100% of a_b & c

method    values               CR|MR           p, x
--------  ----------  --------------  -------------
a         ours        91.0±0.5 (n=3)  <0.001* (n=6)
a         paper                    -

b_c & d   ours               missing    0.074 (n=3)
          difference            -1.0           +0.5

first: 5% #1
second_note
"""


def read_markdown(text: str) -> list[list[str]]:
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert re.fullmatch(r"\|:-+\|:-+\|-+:\|-+:\|", rows.pop(1))
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    return [[re.sub(r"\\(.)", r"\1", cell) for cell in row] for row in cells]


LATEX = {r"$-$": "-", r"$\pm$": "±", "$<$": "<", r"$^{*}$": "*", r"\_": "_", r"\&": "&", r"\%": "%"}


def read_latex(text: str) -> list[list[str]]:
    rows = [line[: -len(r" \\")] for line in text.splitlines() if line.endswith(r"\\")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)&", row)] for row in rows]
    for escaped, plain in LATEX.items():
        cells = [[cell.replace(escaped, plain) for cell in row] for row in cells]
    return cells


def test_the_terminal_aligns_numbers_and_keeps_groups_apart():
    assert [line.rstrip() for line in FORMATS["terminal"](TABLE).splitlines()] == TERMINAL.splitlines()


def test_the_cells_are_the_same_in_every_format():
    cells = [TABLE.header, *TABLE.lines]
    assert read_markdown(FORMATS["markdown"](TABLE)) == read_latex(FORMATS["latex"](TABLE)) == cells
    assert list(csv.reader(io.StringIO(FORMATS["csv"](TABLE)))) == cells
    for form in ("markdown", "latex"):
        plain = re.sub(r"\\(.)", r"\1", FORMATS[form](TABLE))
        assert (
            plain.index(TABLE.title) < plain.index("missing") < plain.index(TABLE.notes[0]) < plain.index("second_note")
        )


def test_latex_is_closed_escaped_and_has_a_column_for_each_cell():
    text = FORMATS["latex"](TABLE)
    opened = re.findall(r"\\begin\{([\w*]+)\}", text)
    assert opened == re.findall(r"\\end\{([\w*]+)\}", text)[::-1] == ["table*", "tabular"]
    assert r"\begin{tabular}{llrr}" in text
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\addlinespace")] == [1] * 4
    body = "\n".join(text.splitlines()[1:])  # the first line is a comment
    assert not re.search(r"(?<!\\)[%#_]", body)
    assert text.count("{") == text.count("}") and text.count("$") % 2 == 0
    assert text.isascii()


def test_a_record_gives_no_commands_to_the_terminal():
    made = Table("\x1b]0;a\x07", 1, ["\x1b[2J"], [[["\x9b2J"]]], ["\x1bc"])
    assert FORMATS["terminal"](made).replace("\n", "").isprintable()
