"""What the papers besides IDPG print, read from ``run_scripts/configs/PAPER/paper_values.yaml``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from preprocess.tasks import TASKS

from ..run.experiment import ARROW

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
