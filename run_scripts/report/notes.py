"""What is said under a table: how its numbers came about, what is missing, what failed."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import Any, Callable, Collection, Iterable, Mapping

from preprocess.tasks import TASKS

from .runs import (
    Run,
    architecture,
    asked_options,
    backbone_label,
    cell_label,
    grouped,
    is_hopeless,
    is_prompted,
    kind_of,
    task_label,
)
from .scope import Scope
from .scores import RowScores

MEAN_OF = {
    "acc_and_f1": "mean of accuracy and F1",
    "pearson_and_spearman": "mean of Pearson's and Spearman's correlation",
    "mcc": "Matthews correlation",
    "acc_and_macro_f1": "mean of accuracy and macro F1",
    "choice_accuracy": "accuracy of the chosen answers",
    "f1a_and_em": "mean of F1 over all answers and of questions without a mistake",
    "choice_f1_and_em": "mean of F1 and exact match of the chosen answers",
}
NOT_AS_IN_PAPER = ("batch_size", "max_epoch", "max_update", "warm_up")  # of a run; there only where they were chosen
AS_THE_AUTHORS = "as in the authors' scripts: a checkpoint by its accuracy, of STS-B by its loss"
CHOSEN_ON = {
    ("full", "clean"): "examples held out of the training set",
    ("full", "paper"): f"the reported split itself, {AS_THE_AUTHORS}",
    ("few-shot", "clean"): "a development set drawn with the training examples",
    ("few-shot", "paper"): f"a development set drawn with the training examples, {AS_THE_AUTHORS}",
}


def protocol(scope: Scope, tasks: Collection[str], scores: str = "ours") -> list[str]:
    """Selection, seeds, metrics, and the backbones and prompts of the runs; ``scores`` is what a table calls them."""
    run = scope.done[0]
    return [
        f"{settings_note(seeds_of(scope), scores)}, at the learning rate with the best mean dev score of each row and "
        "task",
        f"setting {run['setting']}{_examples(scope.done)}; selection {run['selection']}: learning rate and checkpoint "
        f"chosen on {CHOSEN_ON[run['setting'], run['selection']]}",
        metrics_note(tasks),
        variants_note(scope.done),
        *_options(scope.done),
    ]


def _examples(runs: Iterable[Run]) -> str:
    """Of few-shot training."""
    ks = {run["k"] for run in runs} - {None}
    return f" with K = {', '.join(map(str, sorted(ks)))}" if ks else ""


def settings_note(seeds: Collection[int], scores: str = "scores") -> str:
    named = ", ".join(map(str, seeds))
    return f"{scores}: mean (±sample standard deviation) of test scores, x100, over seeds {named}"


def seeds_of(scope: Scope) -> list[int]:
    return sorted({run["seed"] for run in (*scope.done, *scope.failed)})


def metrics_note(tasks: Collection[str]) -> str:
    named = {metric: [task for task in tasks if TASKS[task].metric == metric] for metric in MEAN_OF}
    special = [f"{', '.join(of)}: {MEAN_OF[metric]}" for metric, of in named.items() if of]
    return "; ".join(["metric: accuracy", *special])


def variants_note(runs: Iterable[Run], chosen: str = "not as in the paper: ") -> str:
    """Backbones, what prompts the runs have, and what was chosen of their settings, behind the words ``chosen``."""
    runs = list(runs)
    prompted = list(filter(is_prompted, runs))
    parts = [f"{_distinct(runs, architecture)} with backbone {_distinct(runs, backbone_label)}"]
    for kind, group in grouped(prompted, lambda run: kind_of(run["task"])).items():
        parts.append(f"prompt position of {kind} {_distinct(group, itemgetter('position'))}")
    if prompted:
        parts.append(f"prompt length {_distinct(prompted, itemgetter('prompt_length'))}")
    supplemented = [run for run in runs if run["supplementary_position"] is not None]
    for row, group in grouped(supplemented, lambda run: run["row"]).items():
        places = _distinct(group, itemgetter("supplementary_position"))
        parts.append(f"{row} after supplementary training, position {places}")
    for key in NOT_AS_IN_PAPER:
        given = [run for run in runs if run.get(key) is not None]
        parts += [f"{chosen}{key.replace('_', ' ')} {_distinct(given, itemgetter(key))}"] if given else []
    return "; ".join(parts)


def _options(runs: Iterable[Run]) -> list[str]:
    """A note with what fairseq-train was given besides the paper's settings: to all runs, to those of some rows, and to
    those of a row on some task."""
    of_cells = grouped(runs, lambda run: (run["row"], run["task"]))
    by_cell = {cell: set.intersection(*map(_given, group)) for cell, group in of_cells.items()}
    by_row = {row: set.intersection(*(by_cell[cell] for cell in by_cell if cell[0] == row)) for row, _ in by_cell}
    shared = set.intersection(*by_row.values())
    more = {row: by_row[row] - shared for row in by_row}
    more |= {f"{row} on {task}": by_cell[row, task] - by_row[row] for row, task in by_cell}
    parts = [" ".join(sorted(shared))] if shared else []
    for options, where in grouped(filter(more.get, more), lambda name: tuple(sorted(more[name]))).items():
        parts.append(f"{', '.join(where)}: {' '.join(options)}")
    return [f"options besides the paper's: {'; '.join(parts)}"] if parts else []


def _given(run: Run) -> set[str]:
    return {f"{name} {value}".strip() for name, value in asked_options(run).items()}


def _distinct(runs: Iterable[Run], value: Callable[[Run], Any]) -> str:
    return ", ".join(map(str, sorted({value(run) for run in runs})))


def incomplete(rows: Mapping[tuple[int | None, str], RowScores], seeds: Collection[int]) -> list[str]:
    """A note that says which seeds are missing where, if any; rows by K and name."""
    lacking: dict[str, list[str]] = {}
    for (k, name), row in rows.items():
        for task, score in row.items():
            if absent := sorted(set(seeds).difference(score.seeds)):
                without = f"{task_label(task, k)} without {', '.join(map(str, absent))}"
                lacking.setdefault(without, []).append(name)
    parts = [f"{', '.join(names)} on {without}" for without, names in lacking.items()]
    return [f"(n=...): fewer seeds; {'; '.join(parts)}"] if parts else []


def failures(runs: Collection[Run]) -> list[str]:
    """Notes that name each run that would fail again, and count the others by row and task, if there are any."""
    hopeless = list(filter(is_hopeless, runs))
    others = [run for run in runs if not is_hopeless(run)]
    counts = Counter(cell_label(run) for run in others)
    named = "; ".join(f"{name} {count}" for name, count in counts.items())
    return [*_hopeless(hopeless), *([f"failed runs, left out: {len(others)} ({named})"] if others else [])]


def _hopeless(runs: Iterable[Run]) -> list[str]:
    by_rate = grouped(runs, lambda run: (run["reason"], cell_label(run), run["lr"]))
    named = "; ".join(
        f"{where}, lr {lr:g}, seed {_distinct(group, itemgetter('seed'))}: {reason}"
        for (reason, where, lr), group in by_rate.items()
    )
    return [f"learning rates that are out, and missing where no other is left: {named}"] if named else []
