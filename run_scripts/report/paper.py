"""What IDPG's paper prints, and other papers: ``run_scripts/configs/paper_values.yaml`` and those of its folders."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

from preprocess.tasks import TASKS

from ..run.experiment import ARROW

PAPER_ARCH = "roberta_idpg_large"  # of every number in it
GENERATOR = re.compile(r"([SML])-(\d+)-(layer0|previous)")  # rows of Table 6: sharing, hidden size, input
PAPER_VALUES = Path(__file__).parents[1] / "configs" / "paper_values.yaml"


@dataclass(frozen=True)
class PaperRow:
    """A row of Tables 1, 3, 6 or 7.

    Attributes:
        label: the paper's name of the row.
        mean, std: task -> printed value, x100; empty in Table 7.
        avg, voting: the printed averages over the ten tasks.
    """

    label: str
    avg: float
    mean: dict[str, float] = field(default_factory=dict)
    std: dict[str, float] = field(default_factory=dict)
    voting: float | None = None

    def average(self, tasks: Collection[str]) -> float | None:
        """The printed average, or that of the printed values of a part of the tasks; None where there is none."""
        if set(tasks) == set(paper().tasks):
            return self.avg
        return mean(self.mean[task] for task in tasks) if set(tasks) <= self.mean.keys() else None

    def average_vote(self, tasks: Collection[str]) -> float | None:
        """The printed average of the votes, which is over the ten tasks only."""
        return self.voting if set(tasks) == set(paper().tasks) else None


@dataclass(frozen=True)
class PaperCount:
    """A row of Table 2: trainable parameters as printed, and as a number."""

    label: str
    printed: str
    parameters: int


Block = dict[str, PaperRow]  # row -> values


@dataclass(frozen=True)
class Paper:
    """All of it.

    Attributes:
        tasks: the ten tasks in the order of the columns.
        blocks: table -> K of few-shot training (None: full training) -> rows.
        prompt_lengths: row -> rows of its prompt.
    """

    tasks: tuple[str, ...]
    blocks: dict[int, dict[int | None, Block]]
    counts: dict[str, PaperCount]
    prompt_lengths: dict[str, int]

    def is_ablation(self, row: str) -> bool:
        """Whether a row belongs to Table 6 or 7, or is another sharing, size and input as in Table 6."""
        return row in self.blocks[7][None] or GENERATOR.fullmatch(row) is not None


@lru_cache(maxsize=1)
def paper() -> Paper:
    with open(PAPER_VALUES, encoding="utf-8") as file:
        read = yaml.safe_load(file)
    tasks = tuple(read["tasks"])
    full = {1: read["table1"], 6: read["table6"], 7: read["table7"]}
    blocks: dict[int, dict[int | None, Block]] = {table: {None: _block(rows, tasks)} for table, rows in full.items()}
    blocks[3] = {k: _block(rows, tasks) for k, rows in read["table3"].items()}
    counts = {name: PaperCount(**row) for name, row in read["table2"].items()}
    return Paper(tasks, blocks, counts, read["prompt_lengths"])


def _block(rows: dict[str, dict[str, Any]], tasks: tuple[str, ...]) -> Block:
    return {name: _row(values, tasks) for name, values in rows.items()}


def _row(values: dict[str, Any], tasks: tuple[str, ...]) -> PaperRow:
    by_task: dict[str, Any] = {key: dict(zip(tasks, values[key])) for key in ("mean", "std") if key in values}
    return PaperRow(**values | by_task)


# --- other papers --------------------------------------------------------------------------------

CONFIGS = Path(__file__).parents[1] / "configs"
VALUES = "paper_values.yaml"


@dataclass(frozen=True)
class Printed:
    """A row: values by column, x100, and their average as it is printed; ``texts``: by column of ``beside``."""

    label: str
    mean: dict[str, float] = field(default_factory=dict)
    std: dict[str, float] = field(default_factory=dict)
    avg: float | None = None
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def says_something(self) -> bool:
        """Whether there are values, not the name of the row alone."""
        return bool(self.mean or self.texts)


@dataclass(frozen=True)
class ScoreColumns:
    """Columns of scores.

    Attributes:
        heading: paper, number and title.
        scored: by what, in words, and where the paper says so.
        columns: tasks, or two tasks with an arrow between.
        metrics: column -> metric, as records name it.
        k: examples of the second task that were trained on, in columns of transfer.
    """

    heading: str
    scored: str
    columns: tuple[str, ...]
    metrics: dict[str, str]
    k: int | None = None

    @property
    def transfers(self) -> bool:
        return any(ARROW in column for column in self.columns)

    def has_row(self, row: str) -> bool:
        """Whether runs of a row belong here, besides the paper's."""
        return True


@dataclass(frozen=True)
class PaperTable(ScoreColumns):
    """``blocks``: architecture -> rows; ``beside``: columns of the paper's own, whose tasks are none of ours."""

    blocks: dict[str, dict[str, Printed]] = field(default_factory=dict)
    beside: tuple[str, ...] = ()

    @property
    def says_something(self) -> bool:
        return any(row.says_something for rows in self.blocks.values() for row in rows.values())


@dataclass(frozen=True)
class PaperSeries(ScoreColumns):
    """A figure: rows that end with a number, ``pattern`` (line, number), which ``xlabel`` explains.

    ``averages``: name -> columns whose mean is a panel; by default each column is one.
    """

    pattern: str = ""
    xlabel: str = ""
    averages: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def panels(self, shown: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Of the columns that are shown."""
        panels = self.averages or {column: (column,) for column in self.columns}
        kept = {name: tuple(column for column in columns if column in shown) for name, columns in panels.items()}
        return {name: columns for name, columns in kept.items() if columns}

    def has_row(self, row: str) -> bool:
        return self.parts(row) is not None

    def parts(self, row: str) -> tuple[str, int] | None:
        found = re.fullmatch(self.pattern, row)
        return None if found is None else (found[1], int(found[2]))


@dataclass(frozen=True)
class PaperCosts:
    """A table of parameters or seconds, as its file has it."""

    heading: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Papers:
    """By PAPER-NUMBER, such as idspam-2."""

    tables: Mapping[str, PaperTable]
    costs: Mapping[str, PaperCosts]
    figures: Mapping[str, PaperSeries]


@lru_cache(maxsize=1)
def papers() -> Papers:
    tables: dict[str, PaperTable] = {}
    costs: dict[str, PaperCosts] = {}
    figures: dict[str, PaperSeries] = {}
    for path in sorted(CONFIGS.glob(f"*/{VALUES}")):
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
        for number, found in read.get("tables", {}).items():
            name, what = f"{path.parent.name}-{number}", f", Table {number}" if number.isdecimal() else ""
            heading = f"{read['paper']}{what}: {found['title']}"
            if "blocks" in found:
                tables[name] = PaperTable(
                    **_columns(heading, found), blocks=dict(_blocks(found)), beside=tuple(found.get("beside", ()))
                )
            else:
                costs[name] = PaperCosts(heading, found)
        for number, found in read.get("figures", {}).items():
            heading = f"{read['paper']}, Figure {number}: {found['title']}"
            figures[f"{path.parent.name}-{number}"] = PaperSeries(
                **_columns(heading, found),
                pattern=found["rows"],
                xlabel=found["xlabel"],
                averages={name: tuple(of) for name, of in found.get("averages", {}).items()},
            )
    return Papers(tables, costs, figures)


def _columns(heading: str, found: Mapping[str, Any]) -> dict[str, Any]:
    columns, own = tuple(found["columns"]), found.get("metrics", {})
    usual = {column: found.get("metric") or TASKS[column.split(ARROW)[-1]].metric for column in columns}
    return {
        **{"heading": heading, "scored": found["scored"], "columns": columns, "k": found.get("k")},
        "metrics": {**usual, **own},
    }


def _blocks(found: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Printed]]]:
    for arch, rows in found["blocks"].items():
        yield arch, {name: _printed(row, found["columns"], found.get("beside", ())) for name, row in rows.items()}


def _printed(row: Mapping[str, Any], columns: Sequence[str], beside: Sequence[str]) -> Printed:
    mean, std = (
        {column: value for column, value in zip(columns, row.get(key, ())) if value is not None}
        for key in ("mean", "std")
    )
    return Printed(row["label"], mean, std, avg=row.get("avg"), texts=dict(zip(beside, row.get("texts", ()))))
