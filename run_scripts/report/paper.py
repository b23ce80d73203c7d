"""What IDPG's paper prints, and other papers: ``run_scripts/configs/paper_values.yaml`` and those of its folders."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

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
    """A row of a table of scores."""

    label: str  # the paper's name of the row
    mean: dict[str, float] = field(default_factory=dict)  # column -> printed value, x100
    std: dict[str, float] = field(default_factory=dict)
    avg: float | None = None  # the printed average over all columns, of scores
    voting: float | None = None  # and of votes
    texts: dict[str, str] = field(default_factory=dict)  # column of ``beside`` -> what is printed there

    @property
    def says_something(self) -> bool:
        """Whether there are values, not the name of the row alone."""
        return bool(self.mean or self.texts)

    def average(self, columns: Collection[str], whole: Collection[str]) -> float | None:
        """Return the printed average of the ``whole`` table, or the mean of printed values of a part of its columns."""
        if self.avg is not None and set(columns) == set(whole):
            return self.avg
        return mean(self.mean[column] for column in columns) if set(columns) <= self.mean.keys() else None


Block = dict[str, Printed]  # row -> values


def _block(rows: Mapping[str, Any], columns: Sequence[str], beside: Sequence[str] = ()) -> Block:
    """Read rows as their file has them: values in the order of the columns, null where nothing is printed."""
    found = {}
    for name, row in rows.items():
        values = {key: zip(columns, row.get(key, ())) for key in ("mean", "std")}
        known = {key: {column: value for column, value in of if value is not None} for key, of in values.items()}
        found[name] = Printed(**{**row, **known, "texts": dict(zip(beside, row.get("texts", ())))})
    return found


@dataclass(frozen=True)
class Paper:
    """IDPG's."""

    tasks: tuple[str, ...]  # ten, in the order of the columns
    blocks: dict[int, dict[int | None, Block]]  # table -> K of few-shot training (None: full training) -> rows
    counts: dict[str, dict[str, Any]]  # row of Table 2 -> trainable ``parameters``, and how they are ``printed``
    prompt_lengths: dict[str, int]  # row -> rows of its prompt

    def printed_count(self, row: str) -> dict[str, Any] | None:
        """Return the line of a row in Table 2; EFL trains what fine-tuning does."""
        return self.counts.get("fine-tuning" if row == "efl" else row)

    def is_ablation(self, row: str) -> bool:
        """Return whether a row belongs to Table 6 or 7, or is another sharing, size and input as in Table 6."""
        return row in self.blocks[7][None] or GENERATOR.fullmatch(row) is not None


@lru_cache(maxsize=1)
def paper() -> Paper:
    read = yaml.safe_load(PAPER_VALUES.read_text(encoding="utf-8"))
    tasks = tuple(read["tasks"])
    of_k = {3: read["table3"], **{table: {None: read[f"table{table}"]} for table in (1, 6, 7)}}
    blocks = {table: {k: _block(rows, tasks) for k, rows in by_k.items()} for table, by_k in of_k.items()}
    return Paper(tasks, blocks, read["table2"], read["prompt_lengths"])


# --- other papers --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """A table or figure of scores."""

    heading: str  # paper, number and title
    scored: str  # by what, in words, and where the paper says so
    columns: tuple[str, ...]  # tasks, or two tasks with an arrow between
    metrics: dict[str, str]  # column -> metric, as records name it
    k: int | None = None  # examples of the second task that were trained on, in columns of transfer
    blocks: dict[str, Block] = field(default_factory=dict)  # of a table, architecture -> rows
    beside: tuple[str, ...] = ()  # columns of the paper for tasks that are not among ours
    rows: str = ""  # of a figure, the pattern of the names of rows: line, number
    xlabel: str = ""  # what the number is
    averages: dict[str, list[str]] = field(default_factory=dict)  # panel -> columns of its mean; default: each is one

    @property
    def says_something(self) -> bool:
        return any(row.says_something for rows in self.blocks.values() for row in rows.values())

    def parts(self, row: str) -> tuple[str, int] | None:
        """Return the line and number of a row of a figure."""
        found = re.fullmatch(self.rows, row)
        return None if found is None else (found[1], int(found[2]))


class Papers(NamedTuple):
    """By PAPER-NUMBER, such as idspam-2; ``costs``: tables of parameters or seconds, as their file has them."""

    tables: dict[str, Compared]
    costs: dict[str, dict[str, Any]]
    figures: dict[str, Compared]


@lru_cache(maxsize=1)
def papers() -> Papers:
    found = Papers({}, {}, {})
    for path in sorted(CONFIGS.glob(f"*/{VALUES}")):
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
        for kind in ("tables", "figures"):
            for number, values in read.get(kind, {}).items():
                what = f", {kind[:-1].title()} {number}" if number.isdecimal() else ""
                name, heading = f"{path.parent.name}-{number}", f"{read['paper']}{what}: {values.pop('title')}"
                if "scored" in values:
                    getattr(found, kind)[name] = _compared(heading, **values)
                else:
                    found.costs[name] = {"heading": heading, **values}
    return found


def _compared(heading: str, columns: Sequence[str], metric: str | None = None, **values: Any) -> Compared:
    usual = {column: metric or TASKS[column.split(ARROW)[-1]].metric for column in columns}
    beside = tuple(values.pop("beside", ()))
    blocks = {arch: _block(rows, columns, beside) for arch, rows in values.pop("blocks", {}).items()}
    metrics = {**usual, **values.pop("metrics", {})}
    return Compared(heading=heading, columns=tuple(columns), metrics=metrics, blocks=blocks, beside=beside, **values)
