"""What IDPG's paper prints, and other papers: ``run_scripts/configs/paper_values.yaml`` and those of its folders."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

from preprocess.tasks import TASKS

from ..run.experiment import ARROW

PAPER_ARCH = "roberta_idpg_large"  # of every number in IDPG's paper
GENERATOR = re.compile(r"([SML])-(\d+)-(layer0|previous)")  # rows of Table 6: sharing, hidden size, input
CONFIGS = Path(__file__).parents[1] / "configs"
VALUES = "paper_values.yaml"
PAPER_VALUES = CONFIGS / VALUES


@dataclass(frozen=True)
class Printed:
    """A row of a table of scores.

    Attributes:
        label: the paper's name of the row.
        mean, std: column -> printed value, x100.
        avg, voting: the printed average over all columns, of scores and of votes.
        texts: by columns of the paper's own, whose tasks are none of ours.
    """

    label: str
    mean: dict[str, float] = field(default_factory=dict)
    std: dict[str, float] = field(default_factory=dict)
    avg: float | None = None
    voting: float | None = None
    texts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, row: Mapping[str, Any], columns: Sequence[str], beside: Sequence[str] = ()) -> Printed:
        """``row``: as its file has it, values in the order of the columns, null where nothing is printed."""
        by_column = {
            key: {column: value for column, value in zip(columns, row.get(key, ())) if value is not None}
            for key in ("mean", "std")
        }
        return cls(**{**row, **by_column, "texts": dict(zip(beside, row.get("texts", ())))})

    @property
    def says_something(self) -> bool:
        """Whether there are values, not the name of the row alone."""
        return bool(self.mean or self.texts)

    def average(self, columns: Collection[str], whole: Collection[str]) -> float | None:
        """The printed average over the ``whole`` table, or the mean of the printed values of a part of its columns."""
        if self.avg is not None and set(columns) == set(whole):
            return self.avg
        return mean(self.mean[column] for column in columns) if set(columns) <= self.mean.keys() else None


Block = dict[str, Printed]  # row -> values


@dataclass(frozen=True)
class PaperCount:
    """A row of Table 2: trainable parameters as printed, and as a number."""

    label: str
    printed: str
    parameters: int


@dataclass(frozen=True)
class Paper:
    """IDPG's.

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
    read = yaml.safe_load(PAPER_VALUES.read_text(encoding="utf-8"))
    tasks = tuple(read["tasks"])
    of_k = {3: read["table3"], **{table: {None: read[f"table{table}"]} for table in (1, 6, 7)}}
    blocks = {
        table: {k: {name: Printed.read(row, tasks) for name, row in rows.items()} for k, rows in by_k.items()}
        for table, by_k in of_k.items()
    }
    counts = {name: PaperCount(**row) for name, row in read["table2"].items()}
    return Paper(tasks, blocks, counts, read["prompt_lengths"])


# --- other papers --------------------------------------------------------------------------------


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

    blocks: dict[str, Block] = field(default_factory=dict)
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
    averages: dict[str, list[str]] = field(default_factory=dict)

    def panels(self, shown: Sequence[str]) -> dict[str, list[str]]:
        """Of the columns that are shown."""
        panels = self.averages or {column: [column] for column in self.columns}
        kept = {name: [column for column in columns if column in shown] for name, columns in panels.items()}
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

    tables: dict[str, PaperTable] = field(default_factory=dict)
    costs: dict[str, PaperCosts] = field(default_factory=dict)
    figures: dict[str, PaperSeries] = field(default_factory=dict)


@lru_cache(maxsize=1)
def papers() -> Papers:
    all_of_them = Papers()
    for path in sorted(CONFIGS.glob(f"*/{VALUES}")):
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
        for number, found in read.get("tables", {}).items():
            name, what = f"{path.parent.name}-{number}", f", Table {number}" if number.isdecimal() else ""
            heading = f"{read['paper']}{what}: {found['title']}"
            if "blocks" in found:
                all_of_them.tables[name] = _table(heading, found)
            else:
                all_of_them.costs[name] = PaperCosts(heading, found)
        for number, found in read.get("figures", {}).items():
            columns = _columns(f"{read['paper']}, Figure {number}: {found['title']}", found)
            series = PaperSeries(*columns, found["rows"], found["xlabel"], found.get("averages", {}))
            all_of_them.figures[f"{path.parent.name}-{number}"] = series
    return all_of_them


def _table(heading: str, found: Mapping[str, Any]) -> PaperTable:
    beside = tuple(found.get("beside", ()))
    blocks = {
        arch: {name: Printed.read(row, found["columns"], beside) for name, row in rows.items()}
        for arch, rows in found["blocks"].items()
    }
    return PaperTable(*_columns(heading, found), blocks, beside)


def _columns(heading: str, found: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...], dict[str, str], int | None]:
    """The values of ``ScoreColumns``."""
    columns = tuple(found["columns"])
    usual = {column: found.get("metric") or TASKS[column.split(ARROW)[-1]].metric for column in columns}
    return heading, found["scored"], columns, {**usual, **found.get("metrics", {})}, found.get("k")
