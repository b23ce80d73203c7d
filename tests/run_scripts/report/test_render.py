"""Every format has the same cells."""

from __future__ import annotations

import csv
import io
import re
from itertools import takewhile
from pathlib import Path

import pytest

import run_scripts
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
CELLS = [TABLE.header, *TABLE.lines]


def read_terminal(text: str) -> list[list[str]]:
    lines = text.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.startswith("---"))
    columns = [match.span() for match in re.finditer("-+", lines[rule])]
    body = lines[rule + 1 : len(lines) - len(TABLE.notes)]
    return [[line[a:b].strip() for a, b in columns] for line in (lines[rule - 1], *body) if line]


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


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


READERS = {"terminal": read_terminal, "markdown": read_markdown, "latex": read_latex, "csv": read_csv}


def test_every_format_is_read_back():
    assert READERS.keys() == FORMATS.keys()


@pytest.mark.parametrize("form", FORMATS)
def test_the_cells_are_the_same_in_every_format(form):
    assert READERS[form](FORMATS[form](TABLE)) == CELLS


@pytest.mark.parametrize("form", ["terminal", "markdown", "latex"])
def test_title_and_notes_stand_with_the_table(form):
    plain = re.sub(r"\\(.)", r"\1", FORMATS[form](TABLE))
    assert plain.index(TABLE.title) < plain.index("missing") < plain.index(TABLE.notes[0]) < plain.index(TABLE.notes[1])


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


def test_numbers_are_aligned_in_the_terminal():
    lines = FORMATS["terminal"](TABLE).splitlines()
    ours, other = (next(line for line in lines if line.startswith(start)) for start in ("a ", "b_c"))
    assert ours.index("(n=3)") + len("(n=3)") == other.index("missing") + len("missing")


def test_a_record_gives_no_commands_to_the_terminal():
    made = Table("\x1b]0;a\x07", 1, ["\x1b[2J"], [[["\x9b2J"]]], ["\x1bc"])
    assert FORMATS["terminal"](made).replace("\n", "").isprintable()


def test_lines_of_another_length_than_the_header_are_refused():
    with pytest.raises(ValueError, match="below a header of 2"):
        Table("", 1, ["a", "b"], [[["x"]]], [])


PAGE = (Path(run_scripts.__file__).parent / "RESULTS.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", SHOWN, ids=lambda text: text.split("\n")[0])
def test_the_terminal_prints_what_the_page_shows(text):
    """All of its whitespace."""
    title, header, rule, body, notes = re.fullmatch(r"(.+?)\n\n(.+?)\n(-.+?)\n(.+)\n\n(.+)\n", text, re.DOTALL).groups()
    spans = [match.span() for match in re.finditer("-+", rule)]
    (names,), *groups = (
        [[line[a:b].strip() for a, b in spans] for line in lines.splitlines()]
        for lines in (header, *body.split("\n\n"))
    )
    labels = len(list(takewhile(lambda span: header[span[0]] != " ", spans)))  # a number's header is to the right
    table = Table(title, labels, names, groups, notes.splitlines())
    assert len(groups[0]) > 1 and FORMATS["terminal"](table) == text


def test_the_page_shows_the_slice():
    headers = [text.splitlines()[2] for text in SHOWN if text.startswith("Table 1: full training\n")]
    assert sum(header.split()[1:7] == ["MR", "STS-B", "CR", "MRPC", "RTE", "Avg"] for header in headers) == 1
