"""Tables 1, 3, 6 and 7, beside the paper's numbers where the backbone is its own; what a folder of results holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from .choice import Choice, check_row, take_runs
from .notes import failures, incomplete, protocol, seeds_of
from .paper import GENERATOR, Block, PaperRow, paper
from .records import Results, Run, backbone_label, grouped, has_finished
from .render import MISSING, NOTHING, Table, signed
from .scores import (
    LEVEL,
    OVER_RUNS,
    RowScores,
    Score,
    Significance,
    Votes,
    correct,
    mean_over,
    mean_test,
    paired_test,
    rows_of,
)

RowOfK = tuple[int | None, str]  # K, of few-shot runs, and row
MINUS = "minus {}"  # column of how rows differ from one
DIFFERENCES = f"minus a row: mean difference to it {{}}; *: p < {LEVEL}; **: also corrected for all rows of {{}} (Holm)"
LEFT_OUT = "the paper's values are of RoBERTa-large and not beside these; --paper shows them"
AVERAGE, VOTING = "Avg", "Voting"  # columns besides the tasks: of the scores, and of the votes


@dataclass(frozen=True)
class ScoreTable:
    """A table of scores, and the rows that it shows besides the paper's if there are runs of them.

    Attributes:
        by_task: a column for each task and their average; otherwise the averages of scores and of votes.
    """

    number: int
    title: str
    more_rows: Callable[[str], bool]
    by_task: bool = True

    @property
    def blocks(self) -> Mapping[int | None, Block]:
        return paper().blocks[self.number]

    def wants(self, run: Run) -> bool:
        return self.more_rows(run["row"]) or any(run["row"] in block for block in self.blocks.values())

    def columns(self, tasks: Collection[str]) -> list[str]:
        return [*tasks, AVERAGE] if self.by_task else [AVERAGE, VOTING]


def is_main(row: str) -> bool:
    return not paper().is_ablation(row)


def is_generator(row: str) -> bool:
    return GENERATOR.fullmatch(row) is not None


SCORE_TABLES = {
    1: ScoreTable(1, "Table 1: full training", is_main),
    3: ScoreTable(3, "Table 3: few-shot training", is_main),
    6: ScoreTable(6, "Table 6: multi-layer generators (sharing S, M or L; hidden size m; input)", is_generator),
    7: ScoreTable(7, "Table 7: architecture of the single-layer generator", lambda row: False, by_task=False),
}


def score_table(
    spec: ScoreTable,
    results: Results,
    choice: Choice,
    voting: bool = False,
    significance: Sequence[str] = (),
    how: Significance = OVER_RUNS,
) -> Table:
    """Ours, and beside the paper's backbone its values and the difference, for each row and column.

    Args:
        voting: adds a line with the scores of the seeds' votes.
        significance: adds a column of how the others differ from each of these rows.
        how: says whether that may be chance.

    Raises:
        InputError: see ``take_runs``; a row of ``significance`` has no runs.
    """
    tasks, columns = choice.shown_tasks, spec.columns(choice.shown_tasks)
    blocks: Mapping[int | None, Block] = spec.blocks
    if choice.k is not None:
        blocks = {choice.k: blocks.get(choice.k, {})}
    scope = take_runs(results, choice, blocks.keys(), wants=spec.wants)
    rows = rows_of(scope.done, lambda run: (run["k"], run["row"]), scope.failed)
    with_runs = list(dict.fromkeys(name for _, name in rows))
    choice.pick([*(name for block in blocks.values() for name in block), *with_runs])
    for other in significance:
        check_row("--significance", other, with_runs)
    votes = Votes(results.folder)
    seeds, beside_paper = seeds_of(scope), scope.stands_beside_paper(choice)
    kinds = ["values"] if beside_paper or voting else []  # else all values are ours
    shown = list(_shown(blocks, rows, choice, beside_paper))
    differences = [_differences(rows, shown, other, how) for other in significance]
    groups = []
    for k, name in shown:
        row, printed = rows.get((k, name), {}), blocks[k].get(name) if beside_paper else None
        voted = votes.of(row) if voting or not spec.by_task else {}
        lines = _lines(row, voted, printed, columns, tasks, len(seeds))
        if not voting:
            del lines["voting"]
        for values, cells in lines.items():
            cells += [column[k, name] if values == "ours" else "" for column in differences]
        names = [str(k), name] if k else [name]
        groups.append([[*names, *([values] if kinds else []), *cells] for values, cells in lines.items()])
    names = [*([] if None in blocks else ["K"]), "method", *kinds]
    header = [*names, *columns, *map(MINUS.format, significance)]
    notes = [*protocol(scope, tasks, "ours" if kinds else "scores"), _average_note(tasks, beside_paper)]
    family = "the column" if len(blocks) == 1 else "the column with the same K"
    notes += [DIFFERENCES.format(how.words, family)] if significance else []
    notes += [] if beside_paper else [LEFT_OUT]
    notes += [*incomplete(rows, seeds), *votes.notes, *failures(scope.failed)]
    return Table(spec.title, len(names), header, groups, notes)


def _shown(
    blocks: Mapping[int | None, Block], rows: Collection[RowOfK], choice: Choice, beside_paper: bool
) -> Iterator[RowOfK]:
    """K and row of each group of lines: the paper's, then others that have runs.

    Without the paper's values beside them only rows that have runs, unless they were asked for.
    """
    for k, printed in blocks.items():
        for name in dict.fromkeys([*printed, *(row for of_k, row in rows if of_k == k)]):
            if choice.shows(name) if beside_paper or choice.rows else (k, name) in rows:
                yield k, name


def _lines(
    row: RowScores,
    votes: Mapping[str, float],
    printed: PaperRow | None,
    columns: Collection[str],
    tasks: Collection[str],
    seeds: int,
) -> dict[str, list[str]]:
    """What the values are -> cells; rows of our own have no lines of the paper.

    Args:
        votes: task -> score of the seeds' vote.
        seeds: how many the table has; cells with fewer say so.
    """
    of_votes = mean_over(votes, tasks)
    ours = {task: score.test for task, score in row.items()} | {AVERAGE: mean_test(row, tasks), VOTING: of_votes}
    texts = {task: seeds_text(score, seeds) for task, score in row.items()}
    voted = {**votes, AVERAGE: of_votes, VOTING: of_votes}
    lines = {
        "ours": [texts.get(column) or score_text(ours.get(column)) for column in columns],
        "voting": [score_text(voted.get(column)) for column in columns],
    }
    if printed is not None:
        theirs = {**printed.mean, AVERAGE: printed.average(tasks), VOTING: printed.average_vote(tasks)}
        lines["paper"] = [score_text(theirs.get(column), printed.std.get(column), NOTHING) for column in columns]
        lines["difference"] = [signed_difference(ours.get(column), theirs.get(column)) for column in columns]
    return lines


def score_text(score: float | None, std: float | None = None, unknown: str = MISSING) -> str:
    if score is None:
        return unknown
    return f"{score:.1f}" if std is None else f"{score:.1f}±{std:.1f}"


def seeds_text(score: Score, seeds: int) -> str:
    """Of a table with so many seeds, which a cell may have fewer of."""
    few = f" (n={len(score.seeds)})" if len(score.seeds) < seeds else ""
    return score_text(score.test, score.std) + few


def signed_difference(ours: float | None, papers: float | None) -> str:
    if ours is None or papers is None:
        return NOTHING
    return signed(ours - papers)


def _differences(
    rows: Mapping[RowOfK, RowScores], shown: Collection[RowOfK], reference: str, how: Significance
) -> dict[RowOfK, str]:
    """The column of one reference; p values are corrected for the rows of each K."""
    texts = {(k, row): NOTHING if row == reference and (k, row) in rows else MISSING for k, row in shown}
    compared = [(k, row) for k, row in shown if row != reference and {(k, row), (k, reference)} <= rows.keys()]
    for of_one_k in grouped(compared, itemgetter(0)).values():
        found = {name: paired_test(rows[name], rows[name[0], reference], how) for name in of_one_k}
        texts |= {name: str(comparison) for name, comparison in correct(found).items()}
    return texts


def _average_note(tasks: Collection[str], beside_paper: bool) -> str:
    papers = "" if not beside_paper or set(tasks) == set(paper().tasks) else ", the paper's of its printed values"
    return f"Avg: mean of {', '.join(tasks)}{papers}; {MISSING}: no finished run, so no average either"


# --- what there is -------------------------------------------------------------------------------

DISTINCT: dict[str, Callable[[Run], str]] = {  # the columns that tell the lines apart
    "setting": lambda run: run["setting"],
    "K": lambda run: NOTHING if run["k"] is None else str(run["k"]),
    "selection": lambda run: run["selection"],
    "backbone": backbone_label,
    "row": lambda run: run["row"],
}
LISTED = {  # key of a run -> column that lists its values
    "task": "tasks",
    "position": "positions",
    "supplementary_position": "supplementary",
    "prompt_length": "lengths",
    "lr": "learning rates",
    "seed": "seeds",
}


def overview(results: Results) -> Table:
    """A line for each setting, selection, backbone and row."""
    runs = (*results.runs, *results.supplementary)
    lines = [
        [*key, *(_values(group, name) for name in LISTED), str(_done(group)), str(len(group) - _done(group))]
        for key, group in grouped(runs, lambda run: tuple(column(run) for column in DISTINCT.values())).items()
    ]
    header = [*DISTINCT, *LISTED.values(), "finished", "failed"]
    title = f"{results.place}: {len(runs)} runs, {_done(runs)} finished, {len(runs) - _done(runs)} failed"
    errors = Counter(
        str(run.get("error") or run.get("reason") or "no message") for run in runs if not has_finished(run)
    )
    notes = [f"{count} failed: {error}" for error, count in errors.most_common()]
    if results.supplementary:
        rows = ", ".join(dict.fromkeys(run["row"] for run in results.supplementary))
        notes.append(f"{len(results.supplementary)} of supplementary training, which are of no table: {rows}")
    return Table(title, len(header) - 2, header, [[line] for line in lines], notes)


def _done(runs: Iterable[Run]) -> int:
    return sum(map(has_finished, runs))


def _values(runs: Iterable[Run], key: str) -> str:
    found: set[Any] = {run[key] for run in runs if run.get(key) is not None}
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in sorted(found)) or NOTHING
