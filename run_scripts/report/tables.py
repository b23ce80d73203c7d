"""The paper's tables, ours beside the paper's numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Collection, Mapping

from .columns import Column, Entry, average_column, task_column, voting_column
from .extras import Extras
from .notes import failures, incomplete, protocol, seeds_of
from .paper import GENERATOR, Block, paper
from .render import MISSING, Table
from .runs import Results, Run
from .scope import Choice, check_row, take
from .scores import Votes, rows_of


@dataclass(frozen=True)
class ScoreTable:
    """A table of scores, and the rows that it shows besides the paper's if there are runs of them."""

    number: int
    title: str
    columns: Callable[[Collection[str]], list[Column]]
    more_rows: Callable[[str], bool]
    always_votes: bool = False

    @property
    def blocks(self) -> Mapping[int | None, Block]:
        return paper().blocks[self.number]

    def wants(self, run: Run) -> bool:
        return self.more_rows(run["row"]) or any(run["row"] in block for block in self.blocks.values())


def tasks_and_average(tasks: Collection[str]) -> list[Column]:
    return [*map(task_column, tasks), average_column(tasks)]


def averages(tasks: Collection[str]) -> list[Column]:
    return [average_column(tasks), voting_column(tasks)]


def is_main(row: str) -> bool:
    return not paper().is_ablation(row)


SCORE_TABLES = {
    table.number: table
    for table in (
        ScoreTable(1, "Table 1: full training", tasks_and_average, is_main),
        ScoreTable(3, "Table 3: few-shot training", tasks_and_average, is_main),
        ScoreTable(
            *(6, "Table 6: multi-layer generators (sharing S, M or L; hidden size m; input)", tasks_and_average),
            more_rows=lambda row: GENERATOR.fullmatch(row) is not None,
        ),
        ScoreTable(
            *(7, "Table 7: architecture of the single-layer generator", averages),
            more_rows=lambda row: False,
            always_votes=True,
        ),
    )
}


def score_table(spec: ScoreTable, results: Results, choice: Choice, extras: Extras) -> Table:
    """Ours, the paper's and the difference for each row and column.

    Raises:
        RunError: see ``take``; the row of --significance has no runs.
    """
    scope = take(results, choice, spec.blocks.keys(), wants=spec.wants)
    rows = rows_of(scope.done, lambda run: (run["k"], run["row"]), scope.failed)
    with_runs = list(dict.fromkeys(name for _, name in rows))
    choice.pick([*(name for block in spec.blocks.values() for name in block), *with_runs])
    if extras.significance:
        check_row("--significance", extras.significance, with_runs)
    votes = Votes(results.folder)
    columns = spec.columns(choice.columns)
    groups = []
    for k, printed in spec.blocks.items():
        reference = rows.get((k, extras.significance), {})
        for name in filter(choice.shows, dict.fromkeys([*printed, *(row for of_k, row in rows if of_k == k)])):
            row = rows.get((k, name), {})
            voted = votes.of(row) if extras.voting or spec.always_votes else {}
            lines = extras.lines(Entry(row, printed.get(name), voted), columns, len(seeds_of(scope)), reference)
            groups.append([[*([str(k)] if k else []), name, *line] for line in lines])
    header = [*(["K"] if None not in spec.blocks else []), "method", "values", *extras.header(columns)]
    notes = [*protocol(scope, choice.columns), _average_note(choice.columns), *extras.notes]
    notes += [*incomplete(rows, seeds_of(scope)), *votes.notes, *failures(scope.failed)]
    return Table(spec.title, header.index("values") + 1, header, groups, notes)


def _average_note(tasks: Collection[str]) -> str:
    papers = "" if set(tasks) == set(paper().tasks) else ", the paper's of its printed values"
    return f"Avg: mean of {', '.join(tasks)}{papers}; {MISSING}: no finished run, so no average either"
