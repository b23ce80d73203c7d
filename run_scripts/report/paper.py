"""The printed values of IDPG's paper and of others: ``run_scripts/configs/paper_values.yaml`` and ``*/`` beside it."""

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

PAPER_ARCH = "roberta_idpg_large"  # of all numbers in IDPG's paper
GENERATOR = re.compile(r"([SML])-(\d+)-(layer0|previous)")  # rows of Table 6: sharing, hidden size, input
CONFIGS = Path(__file__).parents[1] / "configs"
PAPER_VALUES = CONFIGS / "paper_values.yaml"


@dataclass(frozen=True)
class Printed:
    """A row of a table of scores."""

    label: str  # the paper's name of the row
    mean: dict[str, float] = field(default_factory=dict)  # column -> printed value, x100
    std: dict[str, float] = field(default_factory=dict)
    avg: float | None = None  # the printed average over all columns, of scores
    voting: float | None = None  # and of votes
    texts: dict[str, str] = field(default_factory=dict)  # column of ``beside`` -> printed text

    @property
    def says_something(self) -> bool:
        """Whether values are printed, not the name of the row alone."""
        return bool(self.mean or self.texts)

    def average(self, columns: Collection[str], whole: Collection[str]) -> float | None:
        """Return the printed average of the ``whole`` table, or the mean of the printed values of some columns."""
        if self.avg is not None and set(columns) == set(whole):
            return self.avg
        return mean(self.mean[column] for column in columns) if set(columns) <= self.mean.keys() else None


Block = dict[str, Printed]  # row -> values


def _block(rows: Mapping[str, Any], columns: Sequence[str], beside: Sequence[str] = ()) -> Block:
    """Return the rows of a file, whose values are in the order of the columns, or null."""
    found = {}
    for name, row in rows.items():
        values = {key: zip(columns, row.get(key, ())) for key in ("mean", "std")}
        known = {key: {column: value for column, value in of if value is not None} for key, of in values.items()}
        found[name] = Printed(**{**row, **known, "texts": dict(zip(beside, row.get("texts", ())))})
    return found


@dataclass(frozen=True)
class Paper:
    tasks: tuple[str, ...]  # ten, in the order of the columns
    blocks: dict[int, dict[int | None, Block]]  # table -> K of few-shot training (None: full training) -> rows
    counts: dict[str, dict[str, Any]]  # row of Table 2 -> trainable ``parameters``, and how they are ``printed``
    prompt_lengths: dict[str, int]  # row -> rows of its prompt

    def printed_count(self, row: str) -> dict[str, Any] | None:
        """Return the line of a row in Table 2; EFL trains as much as fine-tuning."""
        return self.counts.get("fine-tuning" if row == "efl" else row)

    def is_ablation(self, row: str) -> bool:
        """Return whether a row belongs to Table 7, or is named as those of Table 6."""
        return row in self.blocks[7][None] or GENERATOR.fullmatch(row) is not None


@lru_cache(maxsize=1)
def paper() -> Paper:
    read = yaml.safe_load(PAPER_VALUES.read_text(encoding="utf-8"))
    tasks = tuple(read["tasks"])
    of_k = {3: read["table3"], **{table: {None: read[f"table{table}"]} for table in (1, 6, 7)}}
    blocks = {table: {k: _block(rows, tasks) for k, rows in by_k.items()} for table, by_k in of_k.items()}
    return Paper(tasks, blocks, read["table2"], read["prompt_lengths"])


@dataclass(frozen=True)
class Compared:
    """A table or figure of scores in another paper."""

    heading: str  # paper, number and title
    scored: str  # the metric in words, and where the paper states it
    columns: tuple[str, ...]  # tasks, or two tasks with an arrow between
    metrics: dict[str, str]  # column -> metric, as records name it
    k: int | None = None  # training examples of the second task, in columns of transfer
    blocks: dict[str, Block] = field(default_factory=dict)  # architecture -> rows of a table
    beside: tuple[str, ...] = ()  # columns of the paper for tasks that are not among ours
    rows: str = ""  # pattern of a figure's rows: line, number
    xlabel: str = ""  # meaning of the number
    averages: dict[str, list[str]] = field(default_factory=dict)  # panel -> columns of its mean; default: one each

    def parts(self, row: str) -> tuple[str, int] | None:
        """Return the line and number of a row of a figure."""
        found = re.fullmatch(self.rows, row)
        return None if found is None else (found[1], int(found[2]))


class Papers(NamedTuple):
    """Tables and figures by name, such as idspam-2; ``costs``: tables of parameters or seconds, as in their file."""

    tables: dict[str, Compared]
    costs: dict[str, dict[str, Any]]
    figures: dict[str, Compared]


@lru_cache(maxsize=1)
def papers() -> Papers:
    found = Papers({}, {}, {})
    for path in sorted(CONFIGS.glob(f"*/{PAPER_VALUES.name}")):
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
