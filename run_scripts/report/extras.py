"""The lines of a row, and what may be asked for besides them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable

from .columns import LINES, Column, Entry
from .render import MISSING, NOTHING
from .scores import LEVEL, Row, compare

OF_PAPER = ("paper", "difference")  # lines that rows of our own do not have


@dataclass(frozen=True)
class Extras:
    """What may be added to a table.

    Attributes:
        voting: a line with the scores of the seeds' votes.
        significance: the row that the others are compared with, in a last column.
    """

    voting: bool = False
    significance: str | None = None

    def header(self, columns: Iterable[Column]) -> list[str]:
        compared = [] if self.significance is None else [f"p, {self.significance}"]
        return [*(column.name for column in columns), *compared]

    @property
    def notes(self) -> list[str]:
        if self.significance is None:
            return []
        return [
            f"p: two-sided paired t-test against {self.significance} over the n pairs of the same task and seed, "
            f"not corrected for the number of rows; *: p < {LEVEL}"
        ]

    def lines(self, entry: Entry, columns: list[Column], seeds: int, reference: Row) -> list[list[str]]:
        """Name and cells of each line.

        Args:
            seeds: how many the table has; cells with fewer say so.
            reference: the row of ``significance``.
        """
        lines = []
        for name, cell in LINES.items():
            if (name == "voting" and not self.voting) or (name in OF_PAPER and entry.printed is None):
                continue
            compared = self._compared(entry.row, reference) if name == "ours" else ""
            last = [] if self.significance is None else [compared]
            lines.append([name, *(cell(column, entry, seeds) for column in columns), *last])
        return lines

    @staticmethod
    def _compared(row: Row, reference: Row) -> str:
        if not row or not reference:
            return MISSING
        return NOTHING if row is reference else str(compare(row, reference))
