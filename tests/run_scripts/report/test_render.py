"""Every format has the same cells; test_pages.py shows that of the terminal."""

import csv
import io

import pytest

from run_scripts.report.render import FORMATS, Table

TABLE = Table(
    "Table 0: 100% of a_b & c",
    2,
    ["method", "values", "CR|MR", "p, x"],
    [
        [["a", "ours", "91.0±0.5 (n=3)", "<0.001** (n=6)"], ["a", "paper", "-", ""]],
        [["b_c & d", "ours", "missing", "0.074 (n=3)"], ["", "difference", "-1.0", "+0.5"]],
    ],
    ["first: 5% #1", "second_note"],
    scores=1,
)
MARKDOWN = r"""
**Table 0: 100% of a\_b & c**

| method   | values     |         CR\|MR |              p, x |
|:---------|:-----------|---------------:|------------------:|
| a        | ours       | 91.0±0.5 (n=3) | \<0.001\*\* (n=6) |
| a        | paper      |              - |                   |
| b\_c & d | ours       |        missing |       0.074 (n=3) |
|          | difference |           -1.0 |              +0.5 |

- first: 5% #1
- second\_note
"""
LATEX = r"""
a & ours & \textbf{91.0$\pm$0.5 (n=3)} & $<$0.001$^{**}$ (n=6) \\
a & paper & - &  \\
\addlinespace
b\_c \& d & ours & missing & 0.074 (n=3) \\
 & difference & $-$1.0 & +0.5 \\
\bottomrule
\end{tabular}}
\end{table*}
% first: 5% #1
% second_note
"""


@pytest.mark.parametrize(("form", "text"), [("markdown", MARKDOWN), ("latex", LATEX)])
def test_numbers_are_aligned_signs_escaped_and_groups_apart(form, text):
    expected = text.strip().splitlines()
    found = [line.rstrip() for line in FORMATS[form](TABLE).splitlines()]
    assert form != "latex" or {r"\caption{100\% of a\_b \& c}", r"\label{tab:100-of-a_b-c}"} <= set(found)
    assert found[-len(expected) :] == expected  # a LaTeX table begins with what does not depend on its cells


def test_other_programs_read_the_cells_alone():
    assert list(csv.reader(io.StringIO(FORMATS["csv"](TABLE)))) == [TABLE.header, *TABLE.lines]


def test_a_record_gives_no_commands_to_the_terminal():
    made = Table("\x1b]0;a\x07", 1, ["\x1b[2J"], [[["\x9b2J"]]], ["\x1bc"])
    assert FORMATS["terminal"](made).replace("\n", "").isprintable()
