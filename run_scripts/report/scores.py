"""The score of a row on a task: over the seeds, at the learning rate that dev prefers; p values; votes of the seeds."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
from scipy.stats import mode, ttest_rel

from preprocess.questions import Questions
from preprocess.split_scores import OF_QUESTIONS, chosen
from preprocess.tasks import TASKS
from run_scripts.run import metrics

from .runs import Run, cell_label, grouped, is_hopeless, is_variant

LEVEL = 0.05  # of significance
DIGITS = 6  # of a mean: what floats add behind them must not tell equal dev scores apart
# What numpy and zipfile raise over a file that is not there, cut short, changed, or of another kind.
DAMAGED = (
    *(OSError, LookupError, ValueError, TypeError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile),
    *(zlib.error, struct.error, AttributeError),
)


@dataclass(frozen=True)
class Score:
    """Finished runs at the chosen learning rate, a run for each seed, by seed."""

    runs: tuple[Run, ...]

    @property
    def lr(self) -> float:
        return self.runs[0]["lr"]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run["seed"] for run in self.runs)

    @property
    def dev(self) -> float:
        return mean(run["dev"] for run in self.runs)

    @property
    def test(self) -> float:
        """Mean of the test scores over the seeds, x100."""
        return mean(run["test"] for run in self.runs)

    @property
    def std(self) -> float | None:
        """Sample standard deviation of the test scores over the seeds; None for a single one."""
        return stdev(run["test"] for run in self.runs) if len(self.runs) > 1 else None


RowScores = Mapping[str, Score]  # by task


def choose(runs: Iterable[Run], failed: Iterable[Run] = ()) -> Score | None:
    """The score of runs that differ in learning rate and seed alone.

    The best mean dev decides, the smaller rate where two are equal. Only rates with as many seeds as any other are
    compared: a mean over one lucky seed of an unfinished sweep must not win. A rate at which a seed has diverged, or
    found too little memory, is out, whatever its other seeds say; None where no other is left.
    """
    runs = list(runs)
    out = {run["lr"] for run in failed if is_hopeless(run) and is_variant(run, runs[0])}
    by_lr = [group for lr, group in grouped(runs, lambda run: run["lr"]).items() if lr not in out]
    most = max(map(len, by_lr), default=0)
    scores = [Score(tuple(sorted(group, key=lambda run: run["seed"]))) for group in by_lr if len(group) == most]
    return max(scores, key=lambda score: (round(score.dev, DIGITS), -score.lr), default=None)


def rows_of(
    runs: Iterable[Run], key: Callable[[Run], Any] = lambda run: run["row"], failed: Iterable[Run] = ()
) -> dict[Any, RowScores]:
    """Row, or another key of groups of runs -> task -> score."""
    failed = list(failed)
    return {name: _by_task(group, failed) for name, group in grouped(runs, key).items()}


def _by_task(runs: Iterable[Run], failed: Iterable[Run]) -> RowScores:
    found = {task: choose(group, failed) for task, group in grouped(runs, lambda run: run["task"]).items()}
    return {task: score for task, score in found.items() if score is not None}


def mean_over(values: Mapping[str, float], tasks: Collection[str]) -> float | None:
    """Mean of the tasks' values; None where one of them is missing."""
    return mean(values[task] for task in tasks) if values.keys() >= set(tasks) else None


def mean_test(row: RowScores, tasks: Collection[str]) -> float | None:
    return mean_over({task: score.test for task, score in row.items()}, tasks)


def mean_dev(row: RowScores, tasks: Collection[str]) -> float | None:
    return mean_over({task: score.dev for task, score in row.items()}, tasks)


# --- whether two rows differ ---------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Two-sided p value of a paired t-test over n pairs.

    Not a number below two pairs, or where all differences are the same: by a deviation of 0 any of them would be
    significant, a single example of the test set twice.
    """

    p: float
    n: int

    def __str__(self) -> str:
        pairs = f"(n={self.n})"
        if math.isnan(self.p):
            return f"- {pairs}"
        number = "<0.001" if self.p < 0.001 else f"{self.p:.3f}"
        return f"{number}{'*' if self.p < LEVEL else ''} {pairs}"


def paired_test(one: RowScores, other: RowScores) -> Comparison:
    """Two rows, each at its chosen learning rates; pairs are the tasks and seeds that both have."""
    ours, theirs = _by_pair(one), _by_pair(other)
    shared = sorted(ours.keys() & theirs.keys())
    if len({round(ours[pair] - theirs[pair], DIGITS) for pair in shared}) < 2:
        return Comparison(math.nan, len(shared))
    test = ttest_rel([ours[pair] for pair in shared], [theirs[pair] for pair in shared])
    return Comparison(float(test.pvalue), len(shared))


def _by_pair(row: RowScores) -> dict[tuple[str, int], float]:
    return {(task, run["seed"]): run["test"] for task, score in row.items() for run in score.runs}


# --- what the seeds of a row say together --------------------------------------------------------


def vote(predictions: Sequence[np.ndarray], regression: bool, questions: Questions | None = None) -> np.ndarray:
    """What most of several runs say of each example (the smallest class of equals), or their mean score.

    Args:
        questions: where runs choose one example of each: what most choose (the first of equals).
    """
    if questions is not None:
        return chosen(questions, np.sum(predictions, axis=0))
    return np.mean(predictions, axis=0) if regression else mode(predictions, axis=0).mode


@dataclass
class Votes:
    """Votes over the predictions that runs left in a folder.

    Attributes:
        problems: what could not be read -> the rows and tasks without a vote.
    """

    folder: Path
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def notes(self) -> list[str]:
        """What a report must say of them."""
        return [f"no vote, as {problem}: {', '.join(places)}" for problem, places in self.problems.items()]

    def of(self, row: RowScores) -> dict[str, float]:
        """Task -> metric of the seeds' vote on the test split, x100, where predictions are there."""
        voted = {task: self._of_seeds(score.runs) for task, score in row.items()}
        return {task: value for task, value in voted.items() if value is not None}

    def _of_seeds(self, runs: Sequence[Run]) -> float | None:
        metric, task = runs[0]["metric"], TASKS[runs[0]["task"]]
        try:
            predictions, (targets, *others), (questions, *_) = zip(*map(self._read, runs))
            if metric in OF_QUESTIONS and questions is None:
                raise ValueError(metric)
            if all(np.array_equal(other, targets) for other in others):
                voted = vote(predictions, task.regression, questions if task.by_choice else None)
                return metrics.score(metric, voted, targets, questions)[metric]
            problem = "the seeds were tested on different examples"
        except DAMAGED:
            problem = "predictions are not there or damaged"
        self.problems[problem].append(cell_label(runs[0]))
        return None

    def _read(self, run: Run) -> tuple[np.ndarray, np.ndarray, Questions | None]:
        """Predictions and targets of the run's examples, and the questions that these answer.

        Raises:
            one of DAMAGED: there is no such file in the folder, or it holds something else.
        """
        path = self.folder / (run.get("predictions") or "none")
        if not path.is_file() or self.folder.resolve() not in path.resolve().parents:
            raise FileNotFoundError(path)
        with np.load(path, allow_pickle=False) as arrays:
            predictions, targets = arrays["test"], arrays["test_targets"]
            columns = [arrays.get(f"test_{name}") for name in ("question", "em", "f1")]
        if targets.ndim != 1 or not len(targets):
            raise ValueError(path)
        found = [predictions, targets, *(column for column in columns if column is not None)]
        if any(array.dtype.kind not in "iuf" or not np.isfinite(array).all() for array in found):
            raise ValueError(path)
        if any(array.shape != targets.shape for array in found):
            raise ValueError(path)
        number, em, f1 = columns
        return predictions, targets, None if number is None else Questions(number, em, f1)
