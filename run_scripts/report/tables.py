"""The tables of scores: IDPG's, those of other papers, and transfer; and the overview of all runs."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from operator import itemgetter
from statistics import mean
from typing import Any

from preprocess.errors import InputError

from ..run.experiment import ARROW
from .choice import TESTED, Choice, RowScores, Scope, Score, asked_columns, check_row, only_architecture, take_runs
from .notes import in_one_line, protocol, score_note, settings_note, warnings
from .paper import GENERATOR, Compared, Printed, paper
from .records import Results, Run, backbone_label, grouped, has_finished, part_of
from .render import MISSING, NOTHING, Table, score_text, signed_difference
from .scores import Votes, mean_over
from .statistics import LEVEL, OVER, WITH_INTERVAL, compare_rows, correct, p_text, test_of

AVERAGE, VOTING = "Avg", "Voting"  # columns besides the tasks: means of the scores, and of the votes


def seeds_text(score: Score, seeds: Collection[int]) -> str:
    """Return mean and deviation, marked where the score has fewer than these seeds."""
    few = f" (n={len(score.seeds)})" if len(score.seeds) < len(seeds) else ""
    return score_text(score.test, score.std) + few


def value_lines(
    row: RowScores, columns: Collection[str], tasks: Collection[str], scope: Scope, printed: Printed | None, **more: Any
) -> dict[str, list[str]]:
    """Return the cells of a row by kind: ours, and a paper's with the difference where it has the row.

    The average is over ``tasks``; ``more["ours"]`` and ``more["theirs"]`` are scores of further columns.
    """
    tests = {task: score.test for task, score in row.items()}
    ours = {**more.get("ours", {}), **tests, AVERAGE: mean_over(tests, tasks)}
    texts = {task: seeds_text(score, scope.seeds) for task, score in row.items()}
    lines = {"ours": [texts.get(column) or score_text(ours.get(column)) for column in columns]}
    if printed is not None:
        theirs = {**printed.mean, **more["theirs"]}
        lines["paper"] = [score_text(theirs.get(column), printed.std.get(column), NOTHING) for column in columns]
        lines["difference"] = [signed_difference(ours.get(column), theirs.get(column)) for column in columns]
    return lines


def group_of(names: list[str], kinds: list[str], lines: Mapping[str, list[str]], **last: list[str]) -> list[list[str]]:
    """Return lines of names, kind (if the table has such a column) and cells; ``last``: further cells of a kind."""
    empty = [""] * len([*last.values()][0])
    return [[*names, *([kind] if kinds else []), *cells, *last.get(kind, empty)] for kind, cells in lines.items()]


RowOfK = tuple[int | None, str]  # K of few-shot runs, and row

# Number -> title, and what tells whether a row that is not the paper's is shown.
SCORE_TABLES: dict[int, tuple[str, Callable[[str], object]]] = {
    1: ("Table 1: full training", lambda row: not paper().is_ablation(row)),
    3: ("Table 3: few-shot training", lambda row: not paper().is_ablation(row)),
    6: ("Table 6: multi-layer generators (sharing S, M or L; hidden size m; input)", GENERATOR.fullmatch),
    7: ("Table 7: architecture of the single-layer generator", lambda row: False),
}
DIFFERENCES = (
    "minus a row: mean difference to it over the n {}, and p of a two-sided {} over them; *: p < {}; **: also "
    "corrected for all rows of {} (Holm)"
)
LEFT_OUT = "the paper's values are of RoBERTa-large and not beside these; --paper shows them"


def belongs_to(number: int) -> Callable[[Run], bool]:
    """Return what tells whether a table shows a run."""
    rows = {row for block in paper().blocks[number].values() for row in block}
    return lambda run: run["row"] in rows or bool(SCORE_TABLES[number][1](run["row"]))


def score_table(
    number: int, results: Results, choice: Choice, significance: Sequence[str], test: str, over: str, voting: bool
) -> Table:
    """Return our score for each row and column; beside the paper's backbone, also its value and the difference.

    Each row of ``significance`` adds a column with the others' difference to it, and p of ``compare_rows``.
    """
    tasks, ten = choice.shown_tasks, paper().tasks
    columns = [AVERAGE, VOTING] if number == 7 else [*tasks, AVERAGE]
    blocks = paper().blocks[number]
    blocks = blocks if choice.k is None else {choice.k: blocks.get(choice.k, {})}
    printed_rows = [name for block in blocks.values() for name in block]
    scope = take_runs(results, choice, blocks.keys(), wants=belongs_to(number), printed=printed_rows)
    rows = scope.rows("k", "row")
    for other in significance:
        check_row("--significance", other, dict.fromkeys(name for _, name in rows))
    beside, votes = scope.stands_beside_paper(choice), Votes(results.folder)
    kinds = ["values"] if beside or voting else []  # else all values are ours

    # The paper's rows, then others with runs; without the paper's values only those with runs, or of --rows.
    shown = [
        (k, name)
        for k, printed in blocks.items()
        for name in dict.fromkeys([*printed, *(row for of_k, row in rows if of_k == k)])
        if (choice.shows(name) if beside or choice.rows else (k, name) in rows)
    ]
    differences = [_differences(rows, shown, other, test, over) for other in significance]
    groups = []
    for k, name in shown:
        row, theirs = rows.get((k, name), {}), blocks[k].get(name) if beside else None
        voted = votes.of(row) if voting or number == 7 else {}
        of_votes, of_paper = mean_over(voted, tasks), {}
        if theirs:  # the paper prints its votes only for the mean of all ten tasks
            of_paper = {AVERAGE: theirs.average(tasks, ten), VOTING: theirs.voting if set(tasks) == {*ten} else None}
        lines = value_lines(row, columns, tasks, scope, theirs, ours={VOTING: of_votes}, theirs=of_paper)
        if voting:
            vote_cells = [score_text(voted.get(column, of_votes)) for column in columns]
            lines = {"ours": lines.pop("ours"), "voting": vote_cells, **lines}
        names = [str(k), name] if k else [name]
        groups.append(group_of(names, kinds, lines, ours=[column[k, name] for column in differences]))
    names = [*([] if None in blocks else ["K"]), "method", *kinds]
    family = "the column" + " with the same K" * (len(blocks) > 1)
    interval = f"; [ , ]: interval of {1 - LEVEL:.0%}" * (over in WITH_INTERVAL and test == "t")
    explained = [DIFFERENCES.format(OVER[over], test_of(test, over), LEVEL, family) + interval] if significance else []
    printed_of = "" if not beside or set(tasks) == {*ten} else ", the paper's of its printed values"
    explained += [f"Avg: mean of {', '.join(tasks)}{printed_of}; {MISSING}: no finished run, so no average either"]
    explained += [] if beside else [LEFT_OUT]
    warned = in_one_line([*warnings(scope, rows), *votes.notes])
    notes = [score_note(scope, "ours" if kinds else "scores"), explained[0], *warned]
    header = [*names, *columns, *(f"minus {row}" for row in significance)]
    more = [*explained[1:], *protocol(scope, tasks)]
    return Table(SCORE_TABLES[number][0], len(names), header, groups, notes, more, scores=len(columns))


def _differences(
    rows: Mapping[RowOfK, RowScores], shown: Collection[RowOfK], reference: str, test: str, over: str
) -> dict[RowOfK, str]:
    """Return the column of differences to one row; p values are corrected for the rows of each K."""
    texts = {(k, row): NOTHING if row == reference and (k, row) in rows else MISSING for k, row in shown}
    compared = [(k, row) for k, row in shown if row != reference and {(k, row), (k, reference)} <= rows.keys()]
    for of_one_k in grouped(compared, itemgetter(0)).values():
        found = {name: compare_rows(rows[name], rows[name[0], reference], test, over) for name in of_one_k}
        texts |= {name: str(comparison) for name, comparison in correct(found).items()}
    return texts


COMPARISONS = (
    "difference: mean over the line's tasks of the difference of test scores, with its interval of {:.0%}, over {}; "
    "p: of a two-sided {}; Holm: p corrected for all lines"
)


def comparison_table(
    results: Results, choice: Choice, references: Sequence[str], test: str = "t", over: str = "seeds-of-tasks"
) -> Table:
    """Return a line for each K, row of --rows and row of --significance: a family of comparisons, corrected as one."""
    ks = sorted({run["k"] for run in results.runs if choice.k in (None, run["k"])}, key=lambda k: k or 0)
    scope = take_runs(results, replace(choice, rows=choice.rows and (*choice.rows, *references)), ks)
    rows, tasks = scope.rows("k", "row"), choice.shown_tasks
    known = dict.fromkeys(row for _, row in rows)
    for name in references:
        check_row("--significance", name, known)
    ours = choice.rows or tuple(row for row in known if row not in references)
    found = {
        (k, row, other): compare_rows(rows[k, row], rows[k, other], test, over)
        for k, row, other in product(ks, ours, references)
        if {(k, row), (k, other)} <= rows.keys()
    }
    groups = []
    for (k, row, other), each in correct(found).items():
        ours_of, theirs_of = ({task: score.test for task, score in rows[k, name].items()} for name in (row, other))
        cells = [signed_difference(ours_of.get(task), theirs_of.get(task)) for task in tasks]
        ps = [p_text(each.p), p_text(each.corrected)]
        groups.append([[NOTHING if k is None else str(k), f"{row} - {other}", *cells, each.text, *ps, str(each.n)]])
    header = ["K", "method", *tasks, "difference", "p", "Holm", "n"]
    notes = [score_note(scope, "scores"), COMPARISONS.format(1 - LEVEL, OVER[over], test_of(test, over))]
    more = [*in_one_line(warnings(scope, rows)), *protocol(scope, tasks)]
    return Table("A family of comparisons", 2, header, groups, notes, more)


CHOSEN_BY = (
    "at the learning rate with the best mean dev score by the same metric; checkpoints by each task's own metric"
)


def find_runs(
    spec: Compared, results: Results, choice: Choice
) -> tuple[Scope, dict[str, RowScores], tuple[str, ...], list[str]]:
    """Return the runs, scores by row, columns of --tasks, and notes; raise InputError if no run has the metric."""
    columns = asked_columns(spec.columns, choice)
    of_rows = [run for run in _by_metric(spec, results) if not spec.rows or spec.parts(run["row"])]
    silent = [run for run in of_rows if run["test"] is None and has_finished(run)]
    if silent and len(silent) == sum(map(has_finished, of_rows)):
        metrics = ", ".join(sorted(set(spec.metrics.values())))
        raise InputError(f"{results.place}: its records, of an earlier version, lack {metrics}: sweep elsewhere anew")
    scored = tuple(run for run in of_rows if run not in silent)
    printed = [row for block in spec.blocks.values() for row in block]
    scope = take_runs(Results(results.place, scored), replace(choice, tasks=columns), (spec.k,), printed=printed)
    rows = scope.rows("k", "row")
    left_out = [f"left out: {len(silent)} runs whose records do not say the metric"] if silent else []
    warned = in_one_line([*warnings(scope, rows), *left_out])
    return scope, {name: row for (_, name), row in rows.items()}, columns, [f"metric: {spec.scored}", *warned]


def _by_metric(spec: Compared, results: Results) -> Iterator[Run]:
    """Yield runs of the columns, scored by the column's metric; the score is None where a record lacks it."""
    transfers = any(ARROW in column for column in spec.columns)
    for run in answers(results) if transfers else results.runs:
        if run["task"] in spec.columns and run["k"] == spec.k:
            metric = spec.metrics[run["task"]]
            dev, test = (part_of(run, split, metric) for split in ("dev", "test"))
            dev = run.get("dev") if dev is None else dev  # zero-shot transfer has only that of the first task
            yield {**run, "metric": metric, "dev": dev, "test": test}


def compared_table(spec: Compared, results: Results, choice: Choice) -> Table:
    """Return our score for each row and column; beside the paper's backbone, also its value and the difference."""
    scope, rows, tasks, further_notes = find_runs(spec, results, choice)
    arch, columns = only_architecture(scope.done, results) or "", [*tasks, AVERAGE]
    says_something = any(row.says_something for block in spec.blocks.values() for row in block.values())
    beside = (arch in spec.blocks or choice.paper) and says_something
    block = spec.blocks.get(arch, [*spec.blocks.values()][-1] if beside else {})
    kinds, extra, groups = (["values"], spec.beside, []) if beside else ([], (), [])
    for name in choice.pick([*block, *rows]):
        theirs = block.get(name)
        printed = theirs if theirs and theirs.says_something else None
        average = {AVERAGE: printed.average(tasks, printed.mean)} if printed else {}
        lines = value_lines(rows.get(name, {}), columns, tasks, scope, printed, theirs=average)
        if printed and not printed.mean:
            del lines["difference"]
        texts = printed.texts if printed else {}
        groups.append(group_of([name], kinds, lines, paper=[texts.get(column, NOTHING) for column in extra]))
    over = f"{AVERAGE}: mean of {', '.join(tasks)}; the paper's as printed, or of its printed values"
    more = [over, *protocol(scope, (), "")]
    if not beside and says_something:
        more.append(f"the paper's values are of {', '.join(spec.blocks)} and not beside these; --paper shows them")
    elif beside and arch not in spec.blocks:
        more.append(f"the paper's values are of {[*spec.blocks][-1]}")
    notes = [f"{settings_note(scope, 'ours' if beside else 'scores')}, {CHOSEN_BY}", *further_notes]
    return Table(spec.heading, 1 + len(kinds), ["method", *kinds, *columns, *extra], groups, notes, more)


HEADER = ["transfer", "K", "method", "test", "accuracy", "macro F1", "mean of both", "lr"]
WITHOUT_K = (
    "K -: the model as it is, at the learning rate with the best mean dev score on the task that it was trained on"
)
WITH_K = (
    "with K: trained on K examples of the second task, drawn anew for each seed, from what the same seed and learning "
    "rate left on the first; the learning rate with the best mean dev score on the second"
)
EXAMPLE = "QQP → MRPC: trained on QQP, tested on MRPC; labels matched by what they mean"


def answers(results: Results) -> Iterator[Run]:
    """Yield a run for each score on another task: its task is ``QQP → MRPC``, its metric and test score MRPC's.

    A failed run counts for each task that other runs of the same task have answered.
    """
    for task, runs in grouped((run for run in results.runs if run["k"] is None), itemgetter("task")).items():
        answered = sorted({other for run in runs for other in run.get("transfer") or ()})
        for run in runs:
            if not has_finished(run):
                yield from ({**run, "task": task + ARROW + other, "metric": None, "test": None} for other in answered)
                continue
            for other, score in (run.get("transfer") or {}).items():
                scores = {"dev": (run.get("scores") or {}).get("dev") or {}, "test": score["scores"]}
                own = {"metric": score["metric"], "test": score["test"], TESTED: score.get("data"), "scores": scores}
                yield {**run, **own, "task": task + ARROW + other}
    for run in results.continued:
        yield {**run, "task": run["source_task"] + ARROW + run["task"]}


def transfer_table(results: Results, choice: Choice) -> Table:
    """Return a line for each pair of tasks, K and row."""
    runs = [run for run in answers(results) if not choice.tasks or {*run["task"].split(ARROW)} <= {*choice.tasks}]
    if not any(map(has_finished, runs)):
        raise InputError(f"{results.place} has no answers to other tasks{choice.with_options}: sweep with --eval-tasks")
    pairs, ks = tuple(dict.fromkeys(run["task"] for run in runs)), {run["k"] for run in runs}
    scope = take_runs(Results(results.place, tuple(runs)), replace(choice, tasks=pairs), ks)
    rows = scope.rows("k", "row")
    names, groups = choice.pick(name for _, name in rows), []
    for pair, of_pair in grouped(scope.done, itemgetter("task")).items():
        for k, of_k in sorted(grouped(of_pair, itemgetter("k")).items(), key=lambda item: item[0] or 0):
            there = {run["row"] for run in of_k}
            shown = NOTHING if k is None else str(k)
            cells = {name: _transferred(rows[k, name].get(pair), scope) for name in names if name in there}
            groups.append([[pair, shown, name, *of_row] for name, of_row in cells.items()])
    notes = [settings_note(scope), EXAMPLE, *in_one_line(warnings(scope, rows))]
    more = [WITHOUT_K, WITH_K, *protocol(scope, [pair.split(ARROW)[-1] for pair in pairs])]
    return Table("Transfer between tasks", 3, HEADER, groups, notes, more)


def _transferred(score: Score | None, scope: Scope) -> list[str]:
    """Return the last five cells of a line."""
    if score is None:
        return [MISSING] * (len(HEADER) - 3)
    means = []
    for part in ("accuracy", "macro_f1", "acc_and_macro_f1"):
        known = [value for run in score.runs if (value := part_of(run, "test", part)) is not None]
        means.append(mean(known) if len(known) == len(score.runs) else None)
    return [seeds_text(score, scope.seeds), *map(score_text, means), f"{score.lr:g}"]


LISTED = {  # key of a run -> column that lists its values
    "task": "tasks",
    "position": "positions",
    "supplementary_position": "supplementary",
    "prompt_length": "lengths",
    "lr": "learning rates",
    "seed": "seeds",
}


def overview(results: Results) -> Table:
    """Return a line for each setting, K, selection, backbone and row."""

    def ended(runs: Collection[Run]) -> tuple[int, int]:
        done = sum(map(has_finished, runs))
        return done, len(runs) - done

    runs = (*results.runs, *results.supplementary)
    header = ["setting", "K", "selection", "backbone", "row", *LISTED.values(), "finished", "failed"]
    lines = []
    for (setting, k, selection, backbone, row), group in grouped(
        runs, lambda run: (run["setting"], run["k"], run["selection"], backbone_label(run), run["row"])
    ).items():
        names = [setting, NOTHING if k is None else str(k), selection, backbone, row]
        values = [sorted({run[key] for run in group if run.get(key) is not None}) for key in LISTED]
        texts = [", ".join(f"{each:g}" if isinstance(each, float) else str(each) for each in of) for of in values]
        lines.append([*names, *(text or NOTHING for text in texts), *map(str, ended(group))])
    errors = Counter(run.get("error") or run.get("reason") or "no message" for run in runs if not has_finished(run))
    rows = ", ".join(dict.fromkeys(run["row"] for run in results.supplementary))
    notes = [f"{len(results.supplementary)} of supplementary training, which are of no table: {rows}"] if rows else []
    notes += [f"{count} failed: {error}" for error, count in errors.most_common()]
    title = "{}: {} runs, {} finished, {} failed".format(results.place, len(runs), *ended(runs))
    return Table(title, len(header) - 2, header, [[line] for line in lines], notes[:3], notes[3:])
