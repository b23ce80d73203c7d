"""Whether two rows differ by more than chance: tests, intervals, and the correction for many comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from statistics import mean
from typing import Any, TypeVar

import numpy as np

from preprocess.errors import InputError

from ..run.records import unpacked_classes
from .choice import DIGITS, RowScores
from .records import Run, cell_label
from .render import signed

LEVEL = 0.05  # of significance
Name = TypeVar("Name", bound=Hashable)
Pair = tuple[str, int]  # task, seed
TESTS = {"t": "paired t-test", "wilcoxon": "Wilcoxon signed-rank test"}
OVER = {
    "runs": "pairs of the same task and seed",
    "tasks": "tasks, of each the mean over the seeds that both have",
    "seeds": "seeds that both have for all tasks, of each the mean over the tasks",
    "seeds-of-tasks": "pairs of the same task and seed, with the tasks fixed",
    "examples": "pairs of the same task and seed, with the tasks fixed and the test examples drawn",
}
UNITS: dict[str, Callable[[Pair], Any]] = {"tasks": itemgetter(0), "seeds": itemgetter(1)}
WITH_INTERVAL = ("seeds", "seeds-of-tasks", "examples")  # the units of which intervals are printed
DRAWS = 10_000  # of the bootstrap
OF_TASKS = {  # tests with the tasks fixed: another p than a test of all pairs as one sample
    "seeds-of-tasks": "paired t-test within tasks (Welch's degrees of freedom)",
    "examples": f"bootstrap of seeds and test examples ({DRAWS:,} draws)",
}


def test_of(test: str, over: str) -> str:
    """Return the name of the test of ``compare_rows``; raise InputError where that has no test by ranks."""
    if test == "wilcoxon" and over in OF_TASKS:
        raise InputError(f"--significance-test wilcoxon: leave it out with --significance-over {over}")
    return OF_TASKS.get(over, TESTS[test])


def p_text(p: float, equals: str = "") -> str:
    return f"{equals}-" if math.isnan(p) else "<0.001" if p < 0.001 else f"{equals}{p:.3f}"


@dataclass(frozen=True)
class Comparison:
    """The mean difference of a row to another over n pairs, x100, with its two-sided p; NaN where it is not known.

    In 95 of 100 such samples, ``interval`` holds the difference of the means of all seeds (and of all examples).
    """

    difference: float
    p: float
    n: int
    interval: tuple[float, float] | None = None
    corrected: float = math.nan  # p among those of other rows, see ``correct``

    @property
    def text(self) -> str:
        """The difference, with its interval if that is known."""
        return signed(self.difference) + (f" [{', '.join(map(signed, self.interval))}]" if self.interval else "")

    def __str__(self) -> str:
        if not self.n:
            return "- (n=0)"
        stars = "**" if self.corrected < LEVEL else "*" if self.p < LEVEL else ""
        return f"{self.text} (p{p_text(self.p, '=')}{stars}, n={self.n})"


def compare_rows(one: RowScores, other: RowScores, test: str = "t", over: str = "runs") -> Comparison:
    """Compare two rows, each at its chosen learning rates, on the pairs of task and seed that both have.

    p is NaN below two units of ``over``, and where all differences are equal: with a deviation of 0 any difference
    would be significant. Over tasks p holds for those of which these are a sample, else for these tasks.
    """
    ours, theirs = (
        {(task, run["seed"]): run for task, score in row.items() for run in score.runs} for row in (one, other)
    )
    pairs = sorted(ours.keys() & theirs.keys())
    if over == "examples":
        of_tasks = [list(of_task) for _, of_task in groupby(pairs, itemgetter(0))]
        return bootstrap([np.array([rightness(ours[pair], theirs[pair]) for pair in of_task]) for of_task in of_tasks])
    found = {pair: ours[pair]["test"] - theirs[pair]["test"] for pair in pairs}
    if over == "seeds-of-tasks":
        return within_tasks([[found[pair] for pair in of_task] for _, of_task in groupby(pairs, itemgetter(0))])
    unit = UNITS.get(over, tuple)
    groups = [list(group) for _, group in groupby(sorted(pairs, key=unit), unit)]
    whole = max(map(len, groups), default=0) if over == "seeds" else 0  # a seed that lacks a task has another mean
    means = [mean(found[pair] for pair in group) for group in groups if len(group) >= whole]
    return paired_test(means, test, over in WITH_INTERVAL)


def paired_test(differences: Sequence[float], test: str, with_interval: bool) -> Comparison:
    """Return a paired test of the differences of units; the t-test has the interval of 95 %."""
    differences = [round(difference, DIGITS) for difference in differences]
    if len(set(differences)) < 2:
        return Comparison(mean(differences) if differences else math.nan, math.nan, len(differences))
    from scipy.stats import ttest_1samp, wilcoxon  # slow to import; other tables do without

    if test == "wilcoxon":
        return Comparison(mean(differences), float(wilcoxon(differences).pvalue), len(differences))
    found = ttest_1samp(differences, 0)
    low, high = found.confidence_interval(1 - LEVEL)
    return Comparison(
        mean(differences), float(found.pvalue), len(differences), (float(low), float(high)) if with_interval else None
    )


def within_tasks(differences: Sequence[Sequence[float]]) -> Comparison:
    """Return a t-test of the mean over tasks of the mean difference of each task's seeds.

    With T tasks, n_t seeds and the variance s_t^2 of their differences, the mean has the variance
    V = sum v_t, v_t = s_t^2 / (n_t T^2), and t has V^2 / sum(v_t^2 / (n_t - 1)) degrees of freedom.

    Source: Welch (1947), "The generalization of Student's problem when several different population variances are
    involved"; Satterthwaite (1946).
    """
    tasks, n = len(differences), sum(map(len, differences))
    difference = mean(map(mean, differences)) if n else math.nan
    if not n or min(map(len, differences)) < 2:
        return Comparison(difference, math.nan, n)
    parts = [np.var(of_task, ddof=1) / (len(of_task) * tasks**2) for of_task in differences]
    error = math.sqrt(sum(parts))
    if round(error, DIGITS) == 0:
        return Comparison(difference, math.nan, n)
    from scipy.stats import t

    freedom = error**4 / sum(part**2 / (len(of_task) - 1) for part, of_task in zip(parts, differences))
    half = error * float(t.ppf(1 - LEVEL / 2, freedom))
    p = 2 * float(t.sf(abs(difference) / error, freedom))
    return Comparison(difference, p, n, (difference - half, difference + half))


def bootstrap(tables: Sequence[np.ndarray]) -> Comparison:
    """Return the mean of tables of seeds x examples, x100, with percentiles over draws of their lines and columns.

    With three seeds the interval is too narrow where seeds differ by more than examples do, see ``within_tasks``.

    Source: Owen (2007), "The pigeonhole bootstrap".
    """
    if not tables:
        return Comparison(math.nan, math.nan, 0)
    generator, drawn = np.random.default_rng(1), np.zeros(DRAWS)
    for table in tables:
        # examples with the same outcome for every seed are drawn as one, as often as all of them
        alike, times = np.unique(table, axis=1, return_counts=True)
        seeds, examples = table.shape
        lines = generator.multinomial(seeds, np.full(seeds, 1 / seeds), DRAWS) / seeds
        columns = generator.multinomial(examples, times / examples, DRAWS) / examples
        drawn += 100 / len(tables) * ((lines @ alike) * columns).sum(1)
    low, high = np.quantile(drawn, (LEVEL / 2, 1 - LEVEL / 2))
    tail = (1 + min(np.sum(drawn <= 0), np.sum(drawn >= 0))) / (1 + DRAWS)
    difference = 100 * mean(float(table.mean()) for table in tables)
    return Comparison(difference, min(1.0, 2 * float(tail)), sum(map(len, tables)), (float(low), float(high)))


def rightness(one: Run, other: Run) -> np.ndarray:
    """Return for each test example 1 where only ``one`` is right, and -1 where only ``other`` is.

    Raise InputError where the metric is not accuracy, a record lacks its classes, or the examples differ.
    """
    silent = [run for run in (one, other) if not run.get("test_classes")]
    if one["metric"] != "accuracy":
        problem = f"has the metric {one['metric']}: give --tasks with accuracy alone"
    elif silent:
        problem = "has no classes: report the FILE of python -m run_scripts.publish RESULTS --out FILE"
    else:
        (ours, targets), (theirs, same) = (unpacked_classes(run["test_classes"]) for run in (one, other))
        if np.array_equal(targets, same):
            return (ours == targets).astype(float) - (theirs == targets)
        problem = f"has other test examples than run {other['run']}: give --tasks or --rows of one test set"
    run = (silent or [one])[0]
    raise InputError(f"--significance-over examples: run {run['run']}, {cell_label(run)}, {problem}")


def correct(comparisons: Mapping[Name, Comparison]) -> dict[Name, Comparison]:
    """Correct each p value for the number of comparisons that have one, by Holm's method.

    If no rows differ, the chance that any corrected p is below a level is at most that level.

    Of m values the i-th smallest becomes the largest (m - j + 1) p_(j) of j = 1 to i, at most 1: never above
    Bonferroni's m p, and with no more assumptions.

    Source: Holm (1979), "A simple sequentially rejective multiple test procedure".
    """
    tested = [name for name, found in comparisons.items() if not math.isnan(found.p)]
    corrected, least = dict(comparisons), 0.0
    for rank, name in enumerate(sorted(tested, key=lambda name: comparisons[name].p)):
        least = max(least, min(1.0, (len(tested) - rank) * comparisons[name].p))
        corrected[name] = replace(comparisons[name], corrected=least)
    return corrected
