"""What methods cost: trainable parameters, seconds and memory, beside what papers print of them."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any

from preprocess.errors import InputError
from preprocess.tasks import TASKS

from ..run.fairseq_train import seconds_per_update
from .choice import Choice, settle, take_runs
from .notes import failures, incomplete, protocol, seeds_of, variants_note
from .paper import PAPER_ARCH, PaperCosts, PaperCount, paper
from .records import Results, Run, architecture, backbone_label, grouped, has_finished, on_one_hardware, task_label
from .render import MISSING, NOTHING, Table
from .scores import RowScores, Score, rows_of
from .tables import seeds_text

SAME_AS = {"efl": "fine-tuning"}  # has no line of its own in Table 2


@dataclass(frozen=True)
class Counts:
    """Trainable parameters in one architecture.

    Attributes:
        of_runs, counted: row -> parameters, as runs say and as counted.
    """

    arch: str
    of_runs: dict[str, int]
    counted: dict[str, int]

    @property
    def rows(self) -> list[str]:
        """The paper's, then others with runs."""
        return list(dict.fromkeys([*paper().counts, *self.of_runs]))

    def trainable(self, row: str) -> int | None:
        """As runs say; a run that trains the whole backbone may say 0, as its method has no parameters."""
        return self.of_runs.get(row) or self.counted.get(row, self.of_runs.get(row))

    def source(self, row: str) -> str:
        known = self.trainable(row)
        return NOTHING if known is None else "runs" if known == self.of_runs.get(row) else "counted"


def printed_count(row: str) -> PaperCount | None:
    return paper().counts.get(SAME_AS.get(row, row))


def trainable_counts(results: Results, choice: Choice) -> Counts:
    """Of the paper's rows and of others with runs, but for those of the ablations.

    Raises:
        InputError: there are runs of several architectures, or prompt lengths of a row, and no choice among them; a row
            has runs that train more and less.
    """
    runs = [run for run in results.runs if has_finished(run) and choice.accepts(run)]
    runs = [run for run in runs if not paper().is_ablation(run["row"])]
    by_arch = grouped(runs, architecture)
    if len(by_arch) > 1:
        named = "; ".join(f"{arch}: {', '.join(sorted(set(map(backbone_label, of))))}" for arch, of in by_arch.items())
        raise InputError(f"{results.place} has runs of more than one architecture ({named}): give --backbone")
    by_row = grouped(settle(runs, choice, results, ["prompt_length"]), lambda run: run["row"])
    of_runs = {row: only_count(results, row, of) for row, of in by_row.items()}
    arch = next(iter(by_arch), PAPER_ARCH)
    return Counts(arch, of_runs, _counted(arch) if any(not of_runs.get(row) for row in paper().counts) else {})


def only_count(results: Results, row: str, runs: Iterable[Run]) -> int:
    found = sorted({run["trainable"] for run in runs})
    if len(found) > 1:
        raise InputError(
            f"{results.place}: runs of {row} train {' and '.join(map(str, found))} parameters: name them apart"
        )
    return found[0]


@contextlib.contextmanager
def own_logging() -> Iterator[None]:
    """Undoes what fairseq does to logging when it is imported: all messages of all libraries on stderr."""
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
        from fairseq_idpg.models.architectures import SIZES

    return {row.preset: row.own or row.of_backbone for row in count.counts(arch)} if arch in SIZES else {}


def count_table(results: Results, choice: Choice) -> Table:
    """Ours, the paper's, and by how much ours is larger."""
    found = trainable_counts(results, choice)
    groups = [[[row, *_cells(found, row)]] for row in choice.pick(found.rows)]
    notes = [
        f"architecture {found.arch}; classification heads are not counted",
        "source: runs, or counted by building the modules where no run says",
        "paper: RoBERTa-large, digits cut; its K is 1,024 and its M 1,024 K, but a million for fine-tuning",
    ]
    header = ["method", "ours", "source", "paper", "difference"]
    return Table("Table 2: trainable parameters", 1, header, groups, notes)


def _cells(found: Counts, row: str) -> list[str]:
    trainable, theirs = found.trainable(row), printed_count(row)
    difference = NOTHING
    if trainable is not None and theirs is not None and found.arch == PAPER_ARCH:
        difference = f"{trainable / theirs.parameters - 1:+.1%}"
    return [
        MISSING if trainable is None else f"{trainable:,}",
        found.source(row),
        NOTHING if theirs is None else theirs.printed,
        difference,
    ]


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
    choice = replace(choice, tasks=tasks_of(results, choice))
    scope = take_runs(results, choice, (choice.k,))
    rows = rows_of(scope.done, failed=scope.failed)
    seeds = seeds_of(scope)
    of_rows = {run["row"]: run for run in scope.done}
    names = sorted(choice.pick(rows), key=_preset_order(of_rows.values()))
    shown = {name: [rows[name].get(task) for task in choice.tasks] for name in names}
    runs = {name: [run for score in scores if score for run in score.runs] for name, scores in shown.items()}
    timed, left_out = on_one_hardware(runs)
    groups = [
        [[name, *_scores(scores, len(seeds)), *_costs(results, name, runs[name], timed[name])]]
        for name, scores in shown.items()
    ]
    by_k: dict[tuple[int | None, str], RowScores] = {(choice.k, name): row for name, row in rows.items()}
    notes = [*protocol(scope, choice.tasks, "test"), *COSTS, *left_out]
    notes += [*incomplete(by_k, seeds), *failures(scope.failed)]
    labels = [task_label(task, choice.k) for task in choice.tasks]
    header = ["method", *(["test", "lr"] if len(labels) == 1 else labels), *COST_HEADER]
    return Table(f"Methods on {', '.join(labels)}", 1, header, groups, notes)


def tasks_of(results: Results, choice: Choice) -> tuple[str, ...]:
    """Those that were asked for, or that have runs, in the order of ``TASKS``; () where none has."""
    of_any = replace(choice, tasks=tuple(TASKS))
    there = {run["task"] for run in results.runs if has_finished(run) and run["k"] == choice.k and of_any.accepts(run)}
    return choice.tasks or tuple(filter(there.__contains__, TASKS))


def _preset_order(runs: Iterable[Run]) -> Callable[[str], int]:
    """Rows by their presets' place in the registry, methods that are joined by + at the end."""
    with own_logging():
        from fairseq_idpg.methods.registry import PRESETS  # loads torch and fairseq: only where it is needed

    presets = list(PRESETS)
    of_row = {run["row"]: run.get("method") or run["row"] for run in runs}
    return lambda row: presets.index(of_row[row]) if of_row[row] in presets else len(presets)


def _scores(scores: list[Score | None], seeds: int) -> list[str]:
    """Of each task; a row all of whose rates are out has none."""
    cells = [seeds_text(score, seeds) if score else MISSING for score in scores]
    if len(scores) == 1:
        cells.append(f"{scores[0].lr:g}" if scores[0] else MISSING)
    return cells


def _costs(results: Results, row: str, runs: Collection[Run], timed: Collection[Run]) -> list[str]:
    """``timed``: those of the row's runs whose seconds and memory count."""
    if not runs:
        return [MISSING] * len(COST_HEADER)
    seconds, peaks = _known(seconds_of(results, run) for run in timed), _known(run.get("peak_mib") for run in timed)
    return [
        f"{only_count(results, row, runs):,}",
        f"{median(seconds):.3f}" if seconds else NOTHING,
        f"{max(peaks):,.0f}" if peaks else NOTHING,
    ]


def seconds_of(results: Results, run: Run) -> float | None:
    """Of an update; of runs whose records do not say, by the log that they left beside their results."""
    if "seconds_per_update" in run:
        return run["seconds_per_update"]
    log = results.log(run)
    return None if log is None else seconds_per_update(log)


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


# --- tables of other papers that count parameters or seconds -------------------------------------

KINDS = ("training", "prediction", "convergence")
OURS = {
    "training": "training: seconds of an update (fairseq's clock) by the batch size, which --max-tokens may cut short",
    "prediction": "prediction: seconds for an example of the reported split, in batches of 64, with loading of batches "
    "and, where an earlier pass has kept it, of M(x)",
    "convergence": "seconds of an update (fairseq's clock) times the updates before the best checkpoint",
}


def per_example(run: Run) -> float | None:
    seconds, batch = run.get("seconds_per_update"), run.get("batch_size")
    return None if seconds is None or batch is None else seconds / batch


def until_the_best(run: Run) -> float | None:
    seconds, updates = run.get("seconds_per_update"), run.get("best_update")
    return None if seconds is None or updates is None else seconds * updates


OF_RUN: dict[str, Callable[[Run], float | None]] = {
    "training": per_example,
    "prediction": lambda run: run.get("seconds_per_prediction"),
    "convergence": until_the_best,
}


def costs_table(spec: PaperCosts, results: Results, choice: Choice) -> Table:
    return parameter_table(spec, choice) if "counts" in spec.values else seconds_table(spec, results, choice)


def seconds_table(spec: PaperCosts, results: Results, choice: Choice) -> Table:
    """Seconds of ours, of the paper's machine, and how many times ours are; of the runs that a report shows.

    Raises:
        InputError: see ``take_runs``.
    """
    columns = tuple(column for column in spec.values["columns"] if not choice.tasks or column in choice.tasks)
    if not columns:
        raise InputError(f"--tasks {' '.join(choice.tasks)}: choose from {', '.join(spec.values['columns'])}")
    scope = take_runs(results, replace(choice, tasks=columns))
    rows, groups = rows_of(scope.done, failed=scope.failed), []
    runs = {name: [run for score in row.values() for run in score.runs] for name, row in rows.items()}
    timed, left_out = on_one_hardware(runs)
    kinds = [kind for kind in KINDS if kind in spec.values]
    papers = {kind: spec.values[kind] for kind in kinds}
    for name in choice.pick([*papers[kinds[0]], *rows]) if choice.rows else papers[kinds[0]]:
        for kind in kinds:
            ours = [_mean(_of_task(timed.get(name, []), column), OF_RUN[kind]) for column in columns]
            theirs = [papers[kind].get(name, {}).get(column) for column in columns]
            lines = [[name, kind, "ours", *map(seconds_text, ours)]]
            if name in papers[kind]:
                lines.append([name, kind, "paper", *map(seconds_text, theirs)])
            groups.append(lines)
    notes = [*(OURS[kind] for kind in kinds), spec.values["said"], variants_note(scope.done, "")]
    notes.append(f"ours: means over seeds {', '.join(map(str, seeds_of(scope)))} at the chosen learning rate")
    notes += left_out
    notes.append("seconds of different machines cannot be compared, those of two rows on one machine can")
    return Table(spec.heading, 3, ["method", "of", "values", *columns], groups, notes)


def _of_task(runs: Iterable[Run], task: str) -> list[Run]:
    return [run for run in runs if run["task"] == task]


def _mean(runs: Iterable[Run], value: Callable[[Run], float | None]) -> float | None:
    known = [found for run in runs if (found := value(run)) is not None]
    return mean(known) if known else None


def seconds_text(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:,.0f}" if value >= 10 else f"{value:.3f}"


def parameter_table(spec: PaperCosts, choice: Choice) -> Table:
    """Parameters counted by building the modules, and the paper's, for each architecture; runs say nothing of it."""
    groups = []
    rows: dict[str, dict[str, Any]] = spec.values["counts"]
    for name in choice.pick(rows):
        row = rows[name]
        lines = []
        for arch in (key for key in row if key.startswith("roberta_idpg")):
            ours, theirs = counted(arch, row["method"], row.get("options", {})), row[arch]
            lines.append([name, arch, f"{ours:,}", f"{theirs:,}", f"{ours / theirs - 1:+.1%}"])
        groups.append(lines)
    notes = ["ours: counted by building the modules; classification heads are not counted"]
    return Table(spec.heading, 2, ["method", "architecture", "ours", "paper", "difference"], groups, notes)


def counted(arch: str, method: str, options: dict[str, Any]) -> int:
    with own_logging():
        from fairseq_idpg.count import count_preset  # loads torch and fairseq: only where it is needed

    found = count_preset(arch, method, **{name.replace("-", "_"): value for name, value in options.items()})
    return found.own or found.of_backbone
