"""What stands in the columns of a table, of ours and of the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Collection, Mapping

from .paper import PaperRow, paper
from .render import MISSING, NOTHING
from .scores import Row, mean_over, mean_test


@dataclass(frozen=True)
class Entry:
    """A row as the columns see it.

    Attributes:
        votes: task -> score of the seeds' vote, where one was asked for and there is one.
    """

    row: Row
    printed: PaperRow | None
    votes: Mapping[str, float]


@dataclass(frozen=True)
class Value:
    """A number, its standard deviation and that of its seeds; None where it is not known."""

    mean: float | None
    std: float | None = None
    seeds: int | None = None

    def text(self, seeds: int | None = None, unknown: str = MISSING) -> str:
        """``seeds``: how many others have; fewer are told."""
        if self.mean is None:
            return unknown
        deviation = "" if self.std is None else f"±{self.std:.1f}"
        few = f" (n={self.seeds})" if self.seeds and seeds and self.seeds < seeds else ""
        return f"{self.mean:.1f}{deviation}{few}"


@dataclass(frozen=True)
class Column:
    name: str
    ours: Callable[[Entry], Value]
    paper: Callable[[PaperRow], Value]
    voting: Callable[[Entry], float | None]

    def printed(self, entry: Entry) -> Value:
        return Value(None) if entry.printed is None else self.paper(entry.printed)

    def difference(self, entry: Entry) -> float | None:
        return minus(self.ours(entry).mean, self.printed(entry).mean)


# The lines of a row: name -> (column, entry, seeds of the whole table) -> cell.
LINES: dict[str, Callable[[Column, Entry, int], str]] = {
    "ours": lambda column, entry, seeds: column.ours(entry).text(seeds),
    "voting": lambda column, entry, seeds: Value(column.voting(entry)).text(),
    "paper": lambda column, entry, seeds: column.printed(entry).text(unknown=NOTHING),
    "difference": lambda column, entry, seeds: signed(column.difference(entry)),
}


def minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def signed(number: float | None) -> str:
    return NOTHING if number is None else f"{round(number, 1) + 0:+.1f}"  # adding 0 makes -0.0 positive


def task_column(task: str) -> Column:
    def ours(entry: Entry) -> Value:
        found = entry.row.get(task)
        return Value(None) if found is None else Value(found.test, found.std, len(found.seeds))

    return Column(
        task,
        ours,
        lambda printed: Value(printed.mean.get(task), printed.std.get(task)),
        lambda entry: entry.votes.get(task),
    )


def average_column(tasks: Collection[str]) -> Column:
    return Column(
        "Avg",
        lambda entry: Value(mean_test(entry.row, tasks)),
        lambda printed: Value(printed.average(tasks)),
        lambda entry: mean_over(entry.votes, tasks),
    )


def voting_column(tasks: Collection[str]) -> Column:
    """The average of the tasks' votes."""
    return Column(
        "Voting",
        lambda entry: Value(mean_over(entry.votes, tasks)),
        lambda printed: Value(printed.voting if set(tasks) == set(paper().tasks) else None),
        lambda entry: mean_over(entry.votes, tasks),
    )
