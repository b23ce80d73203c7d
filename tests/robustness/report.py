"""The table of a campaign, and cases in words."""

from __future__ import annotations

from collections import Counter
from typing import Sequence

from .campaign import Outcome
from .verdict import BAD, GOOD

LINE = 300  # characters of what a command said last


def table(outcomes: Sequence[Outcome]) -> str:
    """Targets by verdicts; verdicts that no case has are left out, unless they are bad."""
    counts = Counter((outcome.case.target, outcome.verdict) for outcome in outcomes)
    columns = [name for name in (*GOOD, *BAD) if name in BAD or any(verdict == name for _, verdict in counts)]
    names = list(dict.fromkeys(sorted(target for target, _ in counts)))
    rows = [["target", "cases", *columns]]
    for name in names:
        numbers = [counts[name, column] for column in columns]
        rows.append([name, str(sum(numbers)), *(str(number or "-") for number in numbers)])
    totals = [sum(counts[name, column] for name in names) for column in columns]
    rows.append(["all", str(len(outcomes)), *map(str, totals)])
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def described(outcome: Outcome) -> str:
    """Three lines: the verdict and the case's name, what was damaged, what happened."""
    case = outcome.case
    shown = [f"{outcome.verdict}: --seed {case.seed} --only '{case.name}'", outcome.where, outcome.reason[:LINE]]
    return "\n    ".join(map(printable, shown))


def printable(text: str) -> str:
    """What a terminal can show: damaged files may be quoted."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
