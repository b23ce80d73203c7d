"""Whether two rows differ by more than chance: paired tests, and Holm's correction for the rows of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from statistics import mean
from typing import Any, TypeVar

from scipy.stats import ttest_1samp, wilcoxon

from .render import signed
from .runs import grouped
from .scores import DIGITS, RowScores

LEVEL = 0.05  # of significance
Pair = tuple[str, int]  # task and seed
Name = TypeVar("Name", bound=Hashable)

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
    """How far a row is above another in the mean over n pairs, x100, and the two-sided p value of that.

    ``corrected``: that p value among those of other rows, see ``correct``; not a number where it is not known.
    """

    difference: float
    p: float
    n: int
    corrected: float = math.nan

    @property
    def stars(self) -> str:
        return "**" if self.corrected < LEVEL else "*" if self.p < LEVEL else ""

    def __str__(self) -> str:
        if not self.n:
            return "- (n=0)"
        p = "p=-" if math.isnan(self.p) else "p<0.001" if self.p < 0.001 else f"p={self.p:.3f}"
        return f"{signed(self.difference)} ({p}{self.stars}, n={self.n})"


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


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected for how many they are: at most the level is the chance that any below it is there by chance.

    Of m values the i-th smallest becomes the largest (m - j + 1) p_(j) of j = 1 to i, at most 1: never above
    Bonferroni's m p, and with no more assumptions.

    Source: Holm (1979), "A simple sequentially rejective multiple test procedure".
    """
    corrected, least = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = least
    return corrected


def correct(comparisons: Mapping[Name, Comparison]) -> dict[Name, Comparison]:
    """Each with its p value corrected by ``holm`` for all that have one."""
    tested = {name: found for name, found in comparisons.items() if not math.isnan(found.p)}
    corrected = dict(zip(tested, holm([found.p for found in tested.values()])))
    return {name: replace(found, corrected=corrected.get(name, math.nan)) for name, found in comparisons.items()}


def _by_pair(row: RowScores) -> dict[Pair, float]:
    return {(task, run["seed"]): run["test"] for task, score in row.items() for run in score.runs}
