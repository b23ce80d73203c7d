"""The score of a row on a task: over the seeds, at the learning rate that dev prefers; how rows differ."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import mean, stdev
from typing import Any, Callable, Collection, Iterable, Mapping

from scipy.stats import ttest_1samp, wilcoxon

from .alike import is_variant
from .render import signed
from .runs import Run, grouped, is_hopeless

LEVEL = 0.05  # of significance
DIGITS = 6  # of a mean: what floats add behind them must not tell equal dev scores apart


@dataclass(frozen=True)
class Score:
    """Finished runs at the chosen learning rate, a run for each seed, by seed.

    ``others``: those at rates that have other seeds, most often fewer.
    """

    runs: tuple[Run, ...]
    others: tuple[Score, ...] = ()

    @property
    def lr(self) -> float:
        return self.runs[0]["lr"]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run["seed"] for run in self.runs)

    @property
    def dev(self) -> float:
        return mean(run["dev"] for run in self.runs)

    def dev_on(self, seeds: Collection[int]) -> float:
        """The mean over some of the seeds, as rates are compared by it."""
        return round(mean(run["dev"] for run in self.runs if run["seed"] in seeds), DIGITS)

    @property
    def test(self) -> float:
        """Mean of the test scores over the seeds, x100."""
        return mean(run["test"] for run in self.runs)

    @property
    def std(self) -> float | None:
        """Sample standard deviation of the test scores over the seeds; None for a single one."""
        return stdev(run["test"] for run in self.runs) if len(self.runs) > 1 else None


RowScores = Mapping[str, Score]  # by task
Pair = tuple[str, int]  # task and seed


def choose(runs: Iterable[Run], failed: Iterable[Run] = ()) -> Score | None:
    """The score of runs that differ in learning rate and seed alone.

    The best mean dev decides, the smaller rate where two are equal. Only rates with as many seeds as any other are
    compared: a mean over one lucky seed of an unfinished sweep must not win. A rate at which a seed has diverged, or
    found too little memory, is out, whatever its other seeds say; None where no other is left.
    """
    runs = list(runs)
    out = {run["lr"] for run in failed if is_hopeless(run) and is_variant(run, runs[0])}
    by_lr = grouped((run for run in runs if run["lr"] not in out), lambda run: run["lr"]).values()
    scores = [Score(tuple(sorted(group, key=lambda run: run["seed"]))) for group in by_lr]
    most = max((len(score.runs) for score in scores), default=0)
    best = max(
        (score for score in scores if len(score.runs) == most),
        key=lambda score: (score.dev_on(score.seeds), -score.lr),
        default=None,
    )
    return best and replace(best, others=tuple(score for score in scores if score.seeds != best.seeds))


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


def std_of_mean(row: RowScores, tasks: Collection[str]) -> float | None:
    """Sample standard deviation over seeds of the mean test score over ``tasks``.

    None where a task is missing or has other seeds than the first, and for a single seed.
    """
    if any(task not in row for task in tasks) or len({row[task].seeds for task in tasks}) != 1:
        return None
    of_seeds = [mean(run["test"] for run in runs) for runs in zip(*(row[task].runs for task in tasks))]
    return stdev(of_seeds) if len(of_seeds) > 1 else None


# --- whether two rows differ ---------------------------------------------------------------------

TESTS: dict[str, tuple[str, Callable[[list[float]], Any]]] = {  # name -> its words, the test of the differences
    "t": ("paired t-test", lambda differences: ttest_1samp(differences, 0)),
    "wilcoxon": ("Wilcoxon signed-rank test", wilcoxon),
}
OVER: dict[str, tuple[str, Callable[[Pair], Any]]] = {  # name -> its words, what is one of them
    "runs": ("pairs of the same task and seed", lambda pair: pair),
    "tasks": ("tasks, of each the mean over the seeds that both have", itemgetter(0)),
}


@dataclass(frozen=True)
class Significance:
    """Which test says whether two rows differ, one of ``TESTS``, and over what, one of ``OVER``.

    Over runs it is said of the very tasks that were run, over tasks of those that these were a sample of.
    """

    test: str = "t"
    over: str = "runs"

    @property
    def words(self) -> str:
        """For a note below a table."""
        return f"over the n {OVER[self.over][0]}, and p of a two-sided {TESTS[self.test][0]} over them"

    def differences(self, one: RowScores, other: RowScores) -> list[float]:
        """Of each pair that both rows have, in test score, x100."""
        ours, theirs = _by_pair(one), _by_pair(other)
        groups = grouped(sorted(ours.keys() & theirs.keys()), OVER[self.over][1])
        return [round(mean(ours[pair] - theirs[pair] for pair in group), DIGITS) for group in groups.values()]


OVER_RUNS = Significance()


@dataclass(frozen=True)
class Comparison:
    """How far a row is above another in the mean over n pairs, x100, and the two-sided p value of that."""

    difference: float
    p: float
    n: int

    def __str__(self) -> str:
        if not self.n:
            return "- (n=0)"
        p = "p=-" if math.isnan(self.p) else "p<0.001" if self.p < 0.001 else f"p={self.p:.3f}"
        return f"{signed(self.difference)} ({p}{'*' if self.p < LEVEL else ''}, n={self.n})"


def paired_test(one: RowScores, other: RowScores, how: Significance = OVER_RUNS) -> Comparison:
    """Two rows, each at its chosen learning rates; pairs are the tasks and seeds, or the tasks, that both have.

    p is not a number below two pairs, or where all differences are the same: by a deviation of 0 any of them would be
    significant, a single example of the test set twice.
    """
    differences = how.differences(one, other)
    if not differences:
        return Comparison(math.nan, math.nan, 0)
    p = math.nan if len(set(differences)) < 2 else float(TESTS[how.test][1](differences).pvalue)
    return Comparison(mean(differences), p, len(differences))


def _by_pair(row: RowScores) -> dict[Pair, float]:
    return {(task, run["seed"]): run["test"] for task, score in row.items() for run in score.runs}
