"""Whether two rows differ: a paired t-test over the scores of the same task and seed."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Mapping

from scipy.stats import ttest_rel

from .score import Score

LEVEL = 0.05


@dataclass(frozen=True)
class Comparison:
    """Two-sided p value over n pairs; not a number for less than two pairs, or where all are equal."""

    p: float
    n: int

    def __str__(self) -> str:
        pairs = f"(n={self.n})"
        if math.isnan(self.p):
            return f"- {pairs}"
        number = "<0.001" if self.p < 0.001 else f"{self.p:.3f}"
        return f"{number}{'*' if self.p < LEVEL else ''} {pairs}"


def compare(one: Mapping[str, Score], other: Mapping[str, Score]) -> Comparison:
    """Two rows, task -> score, each at its chosen learning rates; pairs are the tasks and seeds that both have."""
    ours, theirs = _by_pair(one), _by_pair(other)
    shared = sorted(ours.keys() & theirs.keys())
    if len(shared) < 2:
        return Comparison(math.nan, len(shared))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # differences that are all equal: p is 0, or none
        test = ttest_rel([ours[pair] for pair in shared], [theirs[pair] for pair in shared])
    return Comparison(float(test.pvalue), len(shared))


def _by_pair(row: Mapping[str, Score]) -> dict[tuple[str, int], float]:
    return {(task, run["seed"]): run["test"] for task, score in row.items() for run in score.runs}
