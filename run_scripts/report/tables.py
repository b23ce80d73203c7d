"""The tables: of scores, IDPG's and those of other papers, and transfer; of what methods cost; of what there is.

All of them raise InputError as ``take_runs`` does.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from statistics import mean, median
from typing import Any

from preprocess.errors import InputError
from preprocess.tasks import TASKS

from ..run.experiment import ARROW, arrow
from ..run.fairseq_train import seconds_per_update
from .choice import (
    TESTED,
    Choice,
    RowScores,
    Scope,
    Score,
    asked_columns,
    check_row,
    only_architecture,
    settle,
    take_runs,
)
from .notes import (
    in_one_line,
    protocol,
    score_note,
    settings_note,
    variants_note,
    warnings,
)
from .paper import GENERATOR, PAPER_ARCH, Compared, Printed, paper
from .records import Results, Run, backbone_label, grouped, hardware_of, has_finished, part_of, task_label
from .render import MISSING, NOTHING, Table, score_text, signed_difference
from .scores import LEVEL, OVER, TESTS, Votes, correct, mean_over, paired_test

AVERAGE, VOTING = "Avg", "Voting"  # columns besides the tasks: of the scores, and of the votes


def seeds_text(score: Score, seeds: Collection[int]) -> str:
    """Return mean and deviation in a table of these seeds, which a cell may have fewer of."""
    few = f" (n={len(score.seeds)})" if len(score.seeds) < len(seeds) else ""
    return score_text(score.test, score.std) + few


def value_lines(
    row: RowScores, columns: Collection[str], tasks: Collection[str], scope: Scope, printed: Printed | None, **more: Any
) -> dict[str, list[str]]:
    """Return what values are -> their cells: ours, and a paper's with the difference where it has the row.

    Args:
        tasks: what the average is over.
        more: whose they are -> scores of columns besides tasks and average.
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
    """Return lines with their names, what their values are if there is such a column, and the last cells of some."""
    empty = [""] * len([*last.values()][0])
    return [[*names, *([kind] if kinds else []), *cells, *last.get(kind, empty)] for kind, cells in lines.items()]


# --- Tables 1, 3, 6 and 7 ------------------------------------------------------------------------

RowOfK = tuple[int | None, str]  # K, of few-shot runs, and row


def is_main(row: str) -> bool:
    return not paper().is_ablation(row)


SCORE_TABLES: dict[int, tuple[str, Callable[[str], object]]] = {  # with the rows that they show besides the paper's
    1: ("Table 1: full training", is_main),
    3: ("Table 3: few-shot training", is_main),
    6: ("Table 6: multi-layer generators (sharing S, M or L; hidden size m; input)", GENERATOR.fullmatch),
    7: ("Table 7: architecture of the single-layer generator", lambda row: False),  # averages of scores and of votes
}
DIFFERENCES = (
    "minus a row: mean difference to it over the n {}, and p of a two-sided {} over them; *: p < {}; **: also "
    "corrected for all rows of {} (Holm)"
)
LEFT_OUT = "the paper's values are of RoBERTa-large and not beside these; --paper shows them"


def belongs_to(number: int) -> Callable[[Run], bool]:
    """Return whether a table shows a run."""
    rows = {row for block in paper().blocks[number].values() for row in block}
    return lambda run: run["row"] in rows or bool(SCORE_TABLES[number][1](run["row"]))


def score_table(
    number: int,
    results: Results,
    choice: Choice,
    significance: Sequence[str] = (),
    test: str = "t",
    over: str = "runs",
    voting: bool = False,
) -> Table:
    """Return ours, and beside the paper's backbone its values and the difference, for each row and column.

    Args:
        significance: adds a column of how the others differ from each of these rows.
        test, over: how p says whether that may be chance, see ``paired_test``.
        voting: adds a line with the scores of the seeds' votes.
    """
    tasks, ten = choice.shown_tasks, paper().tasks
    columns = [AVERAGE, VOTING] if number == 7 else [*tasks, AVERAGE]
    blocks = paper().blocks[number]
    blocks = blocks if choice.k is None else {choice.k: blocks.get(choice.k, {})}
    scope = take_runs(results, choice, blocks.keys(), wants=belongs_to(number))
    rows = scope.rows("k", "row")
    with_runs = list(dict.fromkeys(name for _, name in rows))
    choice.pick([*(name for block in blocks.values() for name in block), *with_runs])
    for other in significance:
        check_row("--significance", other, with_runs)
    beside, votes = scope.stands_beside_paper(choice), Votes(results.folder)
    kinds = ["values"] if beside or voting else []  # else all values are ours

    # The paper's rows, then others with runs; without the paper's values only those with runs, or that were asked for.
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
        if theirs:  # its votes are printed over the ten tasks alone
            of_paper = {AVERAGE: theirs.average(tasks, ten), VOTING: theirs.voting if set(tasks) == {*ten} else None}
        lines = value_lines(row, columns, tasks, scope, theirs, ours={VOTING: of_votes}, theirs=of_paper)
        if voting:
            said = [score_text(voted.get(column, of_votes)) for column in columns]
            lines = {"ours": lines.pop("ours"), "voting": said, **lines}
        names = [str(k), name] if k else [name]
        groups.append(group_of(names, kinds, lines, ours=[column[k, name] for column in differences]))
    names = [*([] if None in blocks else ["K"]), "method", *kinds]
    family = "the column" if len(blocks) == 1 else "the column with the same K"
    printed_of = "" if not beside or set(tasks) == {*ten} else ", the paper's of its printed values"
    explained = [DIFFERENCES.format(OVER[over], TESTS[test], LEVEL, family)] if significance else []
    explained += [f"Avg: mean of {', '.join(tasks)}{printed_of}; {MISSING}: no finished run, so no average either"]
    explained += [] if beside else [LEFT_OUT]
    told = in_one_line([*warnings(scope, rows), *votes.notes])
    notes = [score_note(scope, "ours" if kinds else "scores"), explained[0], *told]
    header = [*names, *columns, *(f"minus {row}" for row in significance)]
    more = [*explained[1:], *protocol(scope, tasks)]
    return Table(SCORE_TABLES[number][0], len(names), header, groups, notes, more)


def _differences(
    rows: Mapping[RowOfK, RowScores], shown: Collection[RowOfK], reference: str, test: str, over: str
) -> dict[RowOfK, str]:
    """Return the column of one reference; p values are corrected for the rows of each K."""
    texts = {(k, row): NOTHING if row == reference and (k, row) in rows else MISSING for k, row in shown}
    compared = [(k, row) for k, row in shown if row != reference and {(k, row), (k, reference)} <= rows.keys()]
    for of_one_k in grouped(compared, itemgetter(0)).values():
        found = {name: paired_test(rows[name], rows[name[0], reference], test, over) for name in of_one_k}
        texts |= {name: str(comparison) for name, comparison in correct(found).items()}
    return texts


# --- tables and figures of other papers: ours by their metric, and their values beside -----------

CHOSEN_BY = (
    "at the learning rate with the best mean dev score by the same metric; checkpoints by each task's own metric"
)


def find_runs(
    spec: Compared, results: Results, choice: Choice
) -> tuple[Scope, dict[str, RowScores], tuple[str, ...], list[str]]:
    """Return the runs of a table or figure, their scores by row, the columns that were asked for, and notes.

    Raises:
        InputError: no record says the metric.
    """
    columns = asked_columns(spec.columns, choice)
    of_rows = [run for run in _by_metric(spec, results) if not spec.rows or spec.parts(run["row"])]
    silent = [run for run in of_rows if run["test"] is None and has_finished(run)]
    if silent and len(silent) == sum(map(has_finished, of_rows)):
        raise InputError(
            f"{results.place}: its records do not say {', '.join(sorted(set(spec.metrics.values())))}: they are of an "
            "earlier version, sweep into another folder"
        )
    kept = tuple(run for run in of_rows if run not in silent)
    scope = take_runs(Results(results.place, kept), replace(choice, tasks=columns), (spec.k,))
    rows = scope.rows("k", "row")
    left_out = [f"left out: {len(silent)} runs whose records do not say the metric"] if silent else []
    told = in_one_line([*warnings(scope, rows), *left_out])
    return scope, {name: row for (_, name), row in rows.items()}, columns, [f"metric: {spec.scored}", *told]


def _by_metric(spec: Compared, results: Results) -> Iterator[Run]:
    """Yield runs of the columns, whose scores are by the column's metric: None where a run does not say."""
    transfers = any(ARROW in column for column in spec.columns)
    for run in answers(results) if transfers else results.runs:
        if run["task"] in spec.columns and run["k"] == spec.k:
            metric = spec.metrics[run["task"]]
            dev, test = (part_of(run, split, metric) for split in ("dev", "test"))
            dev = run.get("dev") if dev is None else dev  # of zero-shot transfer: on the task that was trained on
            yield {**run, "metric": metric, "dev": dev, "test": test}


def compared_table(spec: Compared, results: Results, choice: Choice) -> Table:
    """Return ours, and beside the paper's backbone its values and the difference, for each row and column."""
    scope, rows, tasks, said = find_runs(spec, results, choice)
    arch, columns = only_architecture(scope.done, results) or "", [*tasks, AVERAGE]
    beside = (arch in spec.blocks or choice.paper) and spec.says_something
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
    if not beside and spec.says_something:
        more.append(f"the paper's values are of {', '.join(spec.blocks)} and not beside these; --paper shows them")
    elif beside and arch not in spec.blocks:
        more.append(f"the paper's values are of {[*spec.blocks][-1]}")
    notes = [f"{settings_note(scope, 'ours' if beside else 'scores')}, {CHOSEN_BY}", *said]
    return Table(spec.heading, 1 + len(kinds), ["method", *kinds, *columns, *extra], groups, notes, more)


# --- transfer: what models of one task say of another, as they are, or trained on K of its examples ---

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

    A run that failed would have answered what others of its task have.
    """
    full = [run for run in results.runs if run["k"] is None]
    asked: dict[str, set[str]] = {}
    for run in full:
        asked.setdefault(run["task"], set()).update(run.get("transfer") or ())
    for run in full:
        if not has_finished(run):
            for task in sorted(asked[run["task"]]):
                yield {**run, "task": arrow(run["task"], task), "metric": None, "test": None}
            continue
        for task, found in (run.get("transfer") or {}).items():
            scores = {"dev": (run.get("scores") or {}).get("dev") or {}, "test": found["scores"]}
            told = {"metric": found["metric"], "test": found["test"], TESTED: found.get("data"), "scores": scores}
            yield {**run, **told, "task": arrow(run["task"], task)}
    for run in results.continued:
        yield {**run, "task": arrow(run["source_task"], run["task"])}


def transfer_table(results: Results, choice: Choice) -> Table:
    """Return a line for each pair of tasks, K and row."""
    runs = [run for run in answers(results) if not choice.tasks or {*run["task"].split(ARROW)} <= {*choice.tasks}]
    if not any(map(has_finished, runs)):
        raise InputError(
            f"{results.place} holds no model that answered another task{choice.with_options}: run a sweep with "
            "--eval-tasks first"
        )
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
    """Return the cells of the header, from the score on."""
    if score is None:
        return [MISSING] * (len(HEADER) - 3)
    means = []
    for part in ("accuracy", "macro_f1", "acc_and_macro_f1"):
        known = [value for run in score.runs if (value := part_of(run, "test", part)) is not None]
        means.append(mean(known) if len(known) == len(score.runs) else None)
    return [seeds_text(score, scope.seeds), *map(score_text, means), f"{score.lr:g}"]


# --- Table 2: of runs or, where a row has none, of the modules themselves ------------------------


def printed_count(row: str) -> dict[str, Any] | None:
    """Return the line of a row in Table 2; EFL trains what fine-tuning does."""
    return paper().counts.get("fine-tuning" if row == "efl" else row)


def trainable_counts(results: Results, choice: Choice) -> tuple[str, list[str], dict[str, tuple[int | None, str]]]:
    """Return the architecture, the paper's rows and those of runs, and row -> parameters, and whether runs say so.

    Rows of the ablations are left out. A run that trains the whole backbone may say 0, as its method has no parameters:
    then, too, they are counted.

    Raises:
        InputError: there are runs of several architectures, or prompt lengths of a row, and no choice among them; a row
            has runs that train more and less.
    """
    runs = [run for run in results.runs if has_finished(run) and choice.accepts(run)]
    runs = [run for run in runs if not paper().is_ablation(run["row"])]
    arch = only_architecture(runs, results) or PAPER_ARCH
    by_row = grouped(settle(runs, choice, results, ["prompt_length"]), itemgetter("row"))
    of_runs = {row: only_count(results, row, of) for row, of in by_row.items()}
    counted = _counted(arch) if any(not of_runs.get(row) for row in paper().counts) else {}
    found: dict[str, tuple[int | None, str]] = {}
    rows = list(dict.fromkeys([*paper().counts, *of_runs]))
    for row in dict.fromkeys([*rows, *counted]):
        count = of_runs.get(row) or counted.get(row, of_runs.get(row))
        found[row] = count, NOTHING if count is None else "runs" if count == of_runs.get(row) else "counted"
    return arch, rows, found


def only_count(results: Results, row: str, runs: Iterable[Run]) -> int:
    found = sorted({run["trainable"] for run in runs})
    if len(found) > 1:
        raise InputError(
            f"{results.place}: runs of {row} train {' and '.join(map(str, found))} parameters: name them apart"
        )
    return found[0]


def counter() -> Any:
    """Import what counts parameters where it is needed, as it loads torch and fairseq.

    Undo what fairseq does to logging when it is imported: all messages of all libraries on stderr.
    """
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    logging.disable(logging.INFO)
    try:
        from fairseq_idpg import count
    finally:
        logging.disable(logging.NOTSET)
        root.setLevel(level)
        root.handlers[:] = handlers
    return count


def _counted(arch: str) -> dict[str, int]:
    count = counter()
    from fairseq_idpg.models.config import SIZES

    return {row.preset: row.own or row.of_backbone for row in count.counts(arch)} if arch in SIZES else {}


def count_table(results: Results, choice: Choice) -> Table:
    """Return ours, the paper's, and by how much ours is larger."""
    arch, rows, counts = trainable_counts(results, choice)
    groups = []
    for row in choice.pick(rows):
        (ours, source), theirs = counts[row], printed_count(row)
        apart = ours / theirs["parameters"] - 1 if theirs and ours is not None and arch == PAPER_ARCH else None
        cells = [MISSING if ours is None else f"{ours:,}", source, theirs["printed"] if theirs else NOTHING]
        groups.append([[row, *cells, NOTHING if apart is None else f"{apart:+.1%}"]])
    notes = [
        f"architecture {arch}; classification heads are not counted",
        "source: runs, or counted by building the modules where no run says",
        "paper: RoBERTa-large, digits cut; its K is 1,024 and its M 1,024 K, but a million for fine-tuning",
    ]
    return Table("Table 2: trainable parameters", 1, ["method", "ours", "source", "paper", "difference"], groups, notes)


# --- methods side by side ------------------------------------------------------------------------

COST_HEADER = ["trainable", "s/update", "peak MiB"]
COSTS = (
    "trainable: parameters of the method, or of what it trains of the backbone, without the classification head",
    "s/update: of fairseq's clock, without start-up, loading, validation and saving, in whole seconds for each 100 "
    "updates; median of the runs; of the machine as it was, with whatever else ran there",
    "peak MiB: the most that a run held, of the GPU where there was one, else of the process with all that it loads",
)


def runs_of(scores: Iterable[Score | None]) -> list[Run]:
    return [run for score in scores if score for run in score.runs]


def methods_table(results: Results, choice: Choice) -> Table:
    """Return a line for each row with runs, sorted as ``fairseq_idpg``'s presets; costs are of the shown scores.

    Of one task, the learning rate stands beside the score. Of several, they have a column each."""
    if not choice.tasks:
        of_any = replace(choice, tasks=tuple(TASKS))
        done = [run for run in results.runs if has_finished(run) and run["k"] == choice.k and of_any.accepts(run)]
        choice = replace(choice, tasks=tuple(filter({run["task"] for run in done}.__contains__, TASKS)))
    scope = take_runs(results, choice, (choice.k,))
    rows = {name: row for (_, name), row in scope.rows("k", "row").items()}
    presets = list(counter().PRESETS)  # methods that are joined by + go to the end
    of_row = {run["row"]: run.get("method") or run["row"] for run in scope.done}
    places = {row: presets.index(of) if of in presets else len(presets) for row, of in of_row.items()}
    names = sorted(choice.pick(rows), key=places.__getitem__)
    shown = {name: [rows[name].get(task) for task in choice.tasks] for name in names}
    runs = {name: runs_of(scores) for name, scores in shown.items()}
    timed, left_out = on_one_hardware(runs)
    groups = []
    for name, scores in shown.items():
        cells = [seeds_text(score, scope.seeds) if score else MISSING for score in scores]
        if len(scores) == 1:
            cells.append(f"{scores[0].lr:g}" if scores[0] else MISSING)
        groups.append([[name, *cells, *_costs(results, name, runs[name], timed[name])]])
    labels = [task_label(task, choice.k) for task in choice.tasks]
    header = ["method", *(["test", "lr"] if len(labels) == 1 else labels), *COST_HEADER]
    told = in_one_line([*left_out, *warnings(scope, scope.rows("k", "row"))])
    more = [*COSTS[1:], *protocol(scope, choice.tasks)]
    notes = [score_note(scope, "test"), COSTS[0], *told]
    return Table(f"Methods on {', '.join(labels)}", 1, header, groups, notes, more)


def on_one_hardware(rows: Mapping[str, Collection[Run]]) -> tuple[dict[str, list[Run]], list[str]]:
    """Return of each row the runs whose seconds and memory can be compared with others', and a note on all else.

    They are those on the hardware that most rows have runs on, of several such the one with most runs.
    """
    counts = Counter(hardware_of(run) for runs in rows.values() for run in runs)
    of_rows = Counter(kind for runs in rows.values() for kind in {hardware_of(run) for run in runs})
    taken = max(counts, key=lambda kind: (of_rows[kind], counts[kind], kind), default="")
    others = sorted(kind for kind in counts if kind != taken)
    left_out = f"those on {' and on '.join(others)} left out of them"
    note = f"seconds and memory: of the {counts[taken]} runs on {taken} alone, {left_out}"
    of_taken = {name: [run for run in runs if hardware_of(run) == taken] for name, runs in rows.items()}
    return of_taken, [note] if others else []


def _costs(results: Results, row: str, runs: Collection[Run], timed: Collection[Run]) -> list[str]:
    """Return the cells of ``COST_HEADER``; ``timed``: those of the row's runs whose seconds and memory count."""
    if not runs:
        return [MISSING] * len(COST_HEADER)
    seconds = [found for run in timed if (found := _seconds(results, run)) is not None]
    peaks = [run["peak_mib"] for run in timed if run.get("peak_mib") is not None]
    return [
        f"{only_count(results, row, runs):,}",
        f"{median(seconds):.3f}" if seconds else NOTHING,
        f"{max(peaks):,.0f}" if peaks else NOTHING,
    ]


def _seconds(results: Results, run: Run) -> float | None:
    """Return those of an update; of runs whose records do not say, by the log that they left beside their results."""
    if "seconds_per_update" in run:
        return run["seconds_per_update"]
    log = results.log(run)
    return None if log is None else seconds_per_update(log)


# --- tables of other papers that count parameters or seconds -------------------------------------

OURS = {
    "training": "training: seconds of an update (fairseq's clock) by the batch size, which --max-tokens may cut short",
    "prediction": "prediction: seconds for an example of the reported split, in batches of 64, with loading of batches "
    "and, where an earlier pass has kept it, of M(x)",
    "convergence": "seconds of an update (fairseq's clock) times the updates before the best checkpoint",
}
OTHER_MACHINES = "seconds of different machines cannot be compared, those of two rows on one machine can"


def costs_table(spec: dict[str, Any], results: Results, choice: Choice) -> Table:
    return parameter_table(spec, choice) if "counts" in spec else seconds_table(spec, results, choice)


def seconds_table(spec: dict[str, Any], results: Results, choice: Choice) -> Table:
    """Return seconds of ours and of the paper's machine, of the runs that a report shows."""
    columns = asked_columns(spec["columns"], choice)
    scope = take_runs(results, replace(choice, tasks=columns))
    rows = scope.rows("row")
    timed, left_out = on_one_hardware({name: runs_of(row.values()) for name, row in rows.items()})
    kinds = [kind for kind in OURS if kind in spec]
    printed, groups = spec[kinds[0]], []
    for name in choice.pick([*printed, *rows]) if choice.rows else printed:
        for kind in kinds:
            known: dict[str, list[float]] = {column: [] for column in columns}
            for run in timed.get(name, ()):
                seconds = seconds_of(run, kind)
                known[run["task"]] += [] if seconds is None else [seconds]
            lines = [[name, kind, "ours", *(seconds_text(mean(of) if of else None) for of in known.values())]]
            if theirs := spec[kind].get(name):
                lines.append([name, kind, "paper", *(seconds_text(theirs.get(column)) for column in columns)])
            groups.append(lines)
    how = f"ours: means over seeds {', '.join(map(str, scope.seeds))} at the chosen learning rate"
    more = [*(OURS[kind] for kind in kinds), spec["said"], variants_note(scope.done)]
    header, notes = ["method", "of", "values", *columns], [how, OTHER_MACHINES, *left_out]
    return Table(spec["heading"], 3, header, groups, notes, more)


def seconds_of(run: Run, kind: str) -> float | None:
    """Return one of ``OURS``; None where a record does not say."""
    if kind == "prediction":
        return run.get("seconds_per_prediction")
    seconds, number = run.get("seconds_per_update"), run.get("batch_size" if kind == "training" else "best_update")
    if seconds is None or number is None:
        return None
    return seconds / number if kind == "training" else seconds * number


def seconds_text(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:,.0f}" if value >= 10 else f"{value:.3f}"


def parameter_table(spec: dict[str, Any], choice: Choice) -> Table:
    """Return parameters counted by building the modules, and the paper's, for each architecture; runs say nothing."""
    groups = []
    rows: dict[str, dict[str, Any]] = spec["counts"]
    for name in choice.pick(rows):
        row, lines = rows[name], []
        options = {option.replace("-", "_"): value for option, value in row.get("options", {}).items()}
        for arch in (key for key in row if key.startswith("roberta_idpg")):
            found = counter().count_preset(arch, row["method"], **options)
            ours, theirs = found.own or found.of_backbone, row[arch]
            lines.append([name, arch, f"{ours:,}", f"{theirs:,}", f"{ours / theirs - 1:+.1%}"])
        groups.append(lines)
    notes = ["ours: counted by building the modules; classification heads are not counted"]
    return Table(spec["heading"], 2, ["method", "architecture", "ours", "paper", "difference"], groups, notes)


# --- what there is -------------------------------------------------------------------------------

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
    runs = (*results.runs, *results.supplementary)
    header = ["setting", "K", "selection", "backbone", "row", *LISTED.values(), "finished", "failed"]
    lines = []
    for (setting, k, selection, backbone, row), group in grouped(
        runs, lambda run: (run["setting"], run["k"], run["selection"], backbone_label(run), run["row"])
    ).items():
        shown = [setting, NOTHING if k is None else str(k), selection, backbone, row]
        lines.append([*shown, *(_values(group, name) for name in LISTED), *map(str, _ended(group))])
    failed = [run for run in runs if not has_finished(run)]
    errors = Counter(str(run.get("error") or run.get("reason") or "no message") for run in failed)
    rows = ", ".join(dict.fromkeys(run["row"] for run in results.supplementary))
    notes = [f"{len(results.supplementary)} of supplementary training, which are of no table: {rows}"] if rows else []
    notes += [f"{count} failed: {error}" for error, count in errors.most_common()]
    title = "{}: {} runs, {} finished, {} failed".format(results.place, len(runs), *_ended(runs))
    return Table(title, len(header) - 2, header, [[line] for line in lines], notes[:3], notes[3:])


def _ended(runs: Collection[Run]) -> tuple[int, int]:
    """Return how many have finished, and how many failed."""
    done = sum(map(has_finished, runs))
    return done, len(runs) - done


def _values(runs: Iterable[Run], key: str) -> str:
    found: set[Any] = {run[key] for run in runs if run.get(key) is not None}
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in sorted(found)) or NOTHING
