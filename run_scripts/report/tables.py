"""Tables 1, 3, 6 and 7, beside the paper's numbers where the backbone is its own; what a folder of results holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from .choice import Choice, check_row, take_runs
from .notes import in_one_line, protocol, score_note, seeds_of, warnings
from .paper import GENERATOR, Block, paper
from .records import Results, Run, backbone_label, grouped, has_finished
from .render import MISSING, NOTHING, Table, signed
from .scores import (
    LEVEL,
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
    voting: bool,
    significance: Sequence[str],
    how: Significance,
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
    rows = rows_of(scope.done, itemgetter("k", "row"), scope.failed)
    with_runs = list(dict.fromkeys(name for _, name in rows))
    choice.pick([*(name for block in blocks.values() for name in block), *with_runs])
    for other in significance:
        check_row("--significance", other, with_runs)
    seeds, beside_paper, votes = len(seeds_of(scope)), scope.stands_beside_paper(choice), Votes(results.folder)
    kinds = ["values"] if beside_paper or voting else []  # else all values are ours

    # The paper's rows, then others with runs; without the paper's values only those with runs, or that were asked for.
    shown = [
        (k, name)
        for k, printed in blocks.items()
        for name in dict.fromkeys([*printed, *(row for of_k, row in rows if of_k == k)])
        if (choice.shows(name) if beside_paper or choice.rows else (k, name) in rows)
    ]
    differences = [_differences(rows, shown, other, how) for other in significance]
    groups = []
    for k, name in shown:
        row, printed = rows.get((k, name), {}), blocks[k].get(name) if beside_paper else None
        voted = votes.of(row) if voting or not spec.by_task else {}
        of_votes = mean_over(voted, tasks)
        theirs = None
        if printed:
            vote = printed.voting if set(tasks) == set(paper().tasks) else None  # printed over the ten tasks alone
            theirs = {**printed.mean, AVERAGE: printed.average(tasks, paper().tasks), VOTING: vote}
        ours, *others = value_lines(
            row, columns, tasks, seeds, {VOTING: of_votes}, theirs, printed.std if printed else {}
        )
        if voting:
            others.insert(0, ("voting", [score_text(voted.get(column, of_votes)) for column in columns]))
        group = [(*ours, [column[k, name] for column in differences])]
        group += [(*line, [""] * len(differences)) for line in others]
        names = [str(k), name] if k else [name]
        groups.append([[*names, *([kind] if kinds else []), *cells, *more] for kind, cells, more in group])

    names = [*([] if None in blocks else ["K"]), "method", *kinds]
    family = "the column" if len(blocks) == 1 else "the column with the same K"
    explained = [DIFFERENCES.format(how.words, family)] if significance else []
    explained += [_average_note(tasks, beside_paper), *([] if beside_paper else [LEFT_OUT])]
    told = in_one_line([*warnings(scope, rows), *votes.notes])
    notes = [score_note(scope, "ours" if kinds else "scores"), explained[0], *told]
    header = [*names, *columns, *map(MINUS.format, significance)]
    return Table(spec.title, len(names), header, groups, notes, [*explained[1:], *protocol(scope, tasks)])


def value_lines(
    row: RowScores,
    columns: Collection[str],
    tasks: Collection[str],
    seeds: int,
    more: Mapping[str, float | None],
    theirs: Mapping[str, float | None] | None,
    std: Mapping[str, float],
) -> list[tuple[str, list[str]]]:
    """What the values are, and their cells: ours, and a paper's with the difference where it has some.

    Args:
        tasks: what the average is over.
        seeds: how many the table has; cells with fewer say so.
        more: scores of columns besides tasks and average.
        theirs, std: a paper's values, and deviations, by column.
    """
    ours = {**more, AVERAGE: mean_test(row, tasks), **{task: score.test for task, score in row.items()}}
    texts = {task: seeds_text(score, seeds) for task, score in row.items()}
    lines = [("ours", [texts.get(column) or score_text(ours.get(column)) for column in columns])]
    if theirs is not None:
        printed = [score_text(theirs.get(column), std.get(column), NOTHING) for column in columns]
        lines.append(("paper", printed))
        lines.append(("difference", [signed_difference(ours.get(column), theirs.get(column)) for column in columns]))
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
    rows = ", ".join(dict.fromkeys(run["row"] for run in results.supplementary))
    notes = [f"{len(results.supplementary)} of supplementary training, which are of no table: {rows}"] if rows else []
    notes += [f"{count} failed: {error}" for error, count in errors.most_common()]
    return Table(title, len(header) - 2, header, [[line] for line in lines], notes[:3], notes[3:])


def _done(runs: Iterable[Run]) -> int:
    return sum(map(has_finished, runs))


def _values(runs: Iterable[Run], key: str) -> str:
    found: set[Any] = {run[key] for run in runs if run.get(key) is not None}
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in sorted(found)) or NOTHING
