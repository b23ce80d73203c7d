"""The score of a row on a task: over the seeds, at the learning rate that dev prefers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import mean, stdev
from typing import Any

from .comparable import is_variant
from .runs import Run, grouped, is_hopeless

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

    def compared_on(self, other: Score) -> list[int]:
        """The seeds on which the rate of one of ``others`` was compared with this one.

        Rates with as many seeds were compared on what all of them share; [] where that is nothing.
        """
        equal = [rate for rate in self.others if len(rate.seeds) == len(self.seeds)]
        return sorted(set(self.seeds).intersection(other.seeds, *(rate.seeds for rate in equal if other in equal)))

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


def choose(runs: Iterable[Run], failed: Iterable[Run] = ()) -> Score | None:
    """The score of runs that differ in learning rate and seed alone.

    The best mean dev decides, the smaller rate where two are equal. Only rates with as many seeds as any other are
    compared, on those that all of them have, if there is one: a mean over one lucky seed of an unfinished sweep must
    not win. A rate at which a seed has diverged, or found too little memory, is out, whatever its other seeds say; None
    where no other is left.
    """
    runs = list(runs)
    out = {run["lr"] for run in failed if is_hopeless(run) and is_variant(run, runs[0])}
    by_lr = grouped((run for run in runs if run["lr"] not in out), lambda run: run["lr"]).values()
    scores = [Score(tuple(sorted(group, key=lambda run: run["seed"]))) for group in by_lr]
    most = max((len(score.runs) for score in scores), default=0)
    rates = [score for score in scores if len(score.runs) == most]
    shared = {seed for score in rates for seed in score.seeds if all(seed in other.seeds for other in rates)}
    best = max(rates, key=lambda score: (score.dev_on(shared or score.seeds), -score.lr), default=None)
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
