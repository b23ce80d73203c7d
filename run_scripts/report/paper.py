"""What the paper prints, read from ``run_scripts/configs/paper_values.yaml``."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

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
