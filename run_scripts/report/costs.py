"""What methods cost: trainable parameters, seconds and memory, beside what papers print of them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from operator import itemgetter
from statistics import mean, median
from typing import Any

from preprocess.errors import InputError
from preprocess.tasks import TASKS

from ..run.fairseq_train import seconds_per_update
from .choice import Choice, asked_columns, only_architecture, settle, take_runs
from .notes import in_one_line, protocol, score_note, seeds_of, variants_note, warnings
from .paper import PAPER_ARCH, PaperCosts, PaperCount, paper
from .records import Results, Run, grouped, has_finished, on_one_hardware, task_label
from .render import MISSING, NOTHING, Table
from .scores import rows_of
from .tables import seeds_text

# --- Table 2: of runs or, where a row has none, of the modules themselves ------------------------

SAME_AS = {"efl": "fine-tuning"}  # has no line of its own in Table 2


def printed_count(row: str) -> PaperCount | None:
    return paper().counts.get(SAME_AS.get(row, row))


def trainable_counts(results: Results, choice: Choice) -> tuple[str, list[str], dict[str, tuple[int | None, str]]]:
    """The architecture, the paper's rows and those of runs, and row -> trainable parameters, and whether runs say so.

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


@contextlib.contextmanager
def own_logging() -> Iterator[None]:
    """Undo what fairseq does to logging when it is imported: all messages of all libraries on stderr."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        root.setLevel(level)
        root.handlers[:] = handlers


def _counted(arch: str) -> dict[str, int]:
    with own_logging():
        from fairseq_idpg import count  # loads torch and fairseq: only where it is needed
        from fairseq_idpg.models.config import SIZES

    return {row.preset: row.own or row.of_backbone for row in count.counts(arch)} if arch in SIZES else {}


def count_table(results: Results, choice: Choice) -> Table:
    """Ours, the paper's, and by how much ours is larger."""
    arch, rows, counts = trainable_counts(results, choice)
    groups = []
    for row in choice.pick(rows):
        (ours, source), theirs = counts[row], printed_count(row)
        cells = [
            MISSING if ours is None else f"{ours:,}",
            source,
            NOTHING if theirs is None else theirs.printed,
            f"{ours / theirs.parameters - 1:+.1%}" if ours is not None and theirs and arch == PAPER_ARCH else NOTHING,
        ]
        groups.append([[row, *cells]])
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


def methods_table(results: Results, choice: Choice) -> Table:
    """A line for each row with runs, as ``fairseq_idpg``'s presets are sorted; costs are those of the shown scores.

    Of one task, the learning rate stands beside the score. Of several, they have a column each.

    Raises:
        InputError: see ``take_runs``; a row trains more and less.
    """
    choice = replace(choice, tasks=choice.tasks or _tasks_with_runs(results, choice))
    scope = take_runs(results, choice, (choice.k,))
    rows, seeds = rows_of(scope.done, failed=scope.failed), len(seeds_of(scope))
    names = sorted(choice.pick(rows), key=_preset_order(scope.done))
    shown = {name: [rows[name].get(task) for task in choice.tasks] for name in names}
    runs = {name: [run for score in scores if score for run in score.runs] for name, scores in shown.items()}
    timed, left_out = on_one_hardware(runs)
    groups = []
    for name, scores in shown.items():
        cells = [seeds_text(score, seeds) if score else MISSING for score in scores]
        if len(scores) == 1:
            cells.append(f"{scores[0].lr:g}" if scores[0] else MISSING)
        groups.append([[name, *cells, *_costs(results, name, runs[name], timed[name])]])
    told = warnings(scope, {(choice.k, name): row for name, row in rows.items()})
    labels = [task_label(task, choice.k) for task in choice.tasks]
    header = ["method", *(["test", "lr"] if len(labels) == 1 else labels), *COST_HEADER]
    notes = [score_note(scope, "test"), COSTS[0], *in_one_line([*left_out, *told])]
    more = [*COSTS[1:], *protocol(scope, choice.tasks)]
    return Table(f"Methods on {', '.join(labels)}", 1, header, groups, notes, more)


def _tasks_with_runs(results: Results, choice: Choice) -> tuple[str, ...]:
    """In the order of ``TASKS``."""
    of_any = replace(choice, tasks=tuple(TASKS))
    there = {run["task"] for run in results.runs if has_finished(run) and run["k"] == choice.k and of_any.accepts(run)}
    return tuple(filter(there.__contains__, TASKS))


def _preset_order(runs: Iterable[Run]) -> Callable[[str], int]:
    """Rows by their presets' place in the registry, methods that are joined by + at the end."""
    with own_logging():
        from fairseq_idpg.methods.registry import PRESETS  # loads torch and fairseq: only where it is needed

    presets = list(PRESETS)
    of_row = {run["row"]: run.get("method") or run["row"] for run in runs}
    return lambda row: presets.index(of_row[row]) if of_row[row] in presets else len(presets)


def _costs(results: Results, row: str, runs: Collection[Run], timed: Collection[Run]) -> list[str]:
    """``timed``: those of the row's runs whose seconds and memory count."""
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
    """Of an update; of runs whose records do not say, by the log that they left beside their results."""
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


def seconds_of(run: Run, kind: str) -> float | None:
    """One of ``OURS``; None where a record does not say."""
    seconds, batch, updates = (run.get(key) for key in ("seconds_per_update", "batch_size", "best_update"))
    if kind == "prediction":
        return run.get("seconds_per_prediction")
    if kind == "training":
        return None if seconds is None or batch is None else seconds / batch
    return None if seconds is None or updates is None else seconds * updates


def costs_table(spec: PaperCosts, results: Results, choice: Choice) -> Table:
    return parameter_table(spec, choice) if "counts" in spec.values else seconds_table(spec, results, choice)


def seconds_table(spec: PaperCosts, results: Results, choice: Choice) -> Table:
    """Seconds of ours and of the paper's machine, of the runs that a report shows.

    Raises:
        InputError: see ``take_runs``.
    """
    columns = asked_columns(spec.values["columns"], choice)
    scope = take_runs(results, replace(choice, tasks=columns))
    rows = rows_of(scope.done, failed=scope.failed)
    timed, left_out = on_one_hardware(
        {name: [run for s in row.values() for run in s.runs] for name, row in rows.items()}
    )
    kinds = [kind for kind in OURS if kind in spec.values]
    printed, groups = spec.values[kinds[0]], []
    for name in choice.pick([*printed, *rows]) if choice.rows else printed:
        for kind in kinds:
            of_tasks = [[run for run in timed.get(name, ()) if run["task"] == column] for column in columns]
            known = [[s for run in runs if (s := seconds_of(run, kind)) is not None] for runs in of_tasks]
            lines = [[name, kind, "ours", *(seconds_text(mean(of) if of else None) for of in known)]]
            if theirs := spec.values[kind].get(name):
                lines.append([name, kind, "paper", *(seconds_text(theirs.get(column)) for column in columns)])
            groups.append(lines)
    how = f"ours: means over seeds {', '.join(map(str, seeds_of(scope)))} at the chosen learning rate"
    more = [*(OURS[kind] for kind in kinds), spec.values["said"], variants_note(scope.done, "")]
    header, notes = ["method", "of", "values", *columns], [how, OTHER_MACHINES, *left_out]
    return Table(spec.heading, 3, header, groups, notes, more)


def seconds_text(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:,.0f}" if value >= 10 else f"{value:.3f}"


def parameter_table(spec: PaperCosts, choice: Choice) -> Table:
    """Parameters counted by building the modules, and the paper's, for each architecture; runs say nothing of it."""
    with own_logging():
        from fairseq_idpg.count import count_preset  # loads torch and fairseq: only where it is needed

    groups = []
    rows: dict[str, dict[str, Any]] = spec.values["counts"]
    for name in choice.pick(rows):
        row, lines = rows[name], []
        options = {option.replace("-", "_"): value for option, value in row.get("options", {}).items()}
        for arch in (key for key in row if key.startswith("roberta_idpg")):
            found = count_preset(arch, row["method"], **options)
            ours, theirs = found.own or found.of_backbone, row[arch]
            lines.append([name, arch, f"{ours:,}", f"{theirs:,}", f"{ours / theirs - 1:+.1%}"])
        groups.append(lines)
    notes = ["ours: counted by building the modules; classification heads are not counted"]
    return Table(spec.heading, 2, ["method", "architecture", "ours", "paper", "difference"], groups, notes)
