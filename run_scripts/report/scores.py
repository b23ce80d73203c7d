"""Means over tasks, tests of the difference between two rows, and votes of the seeds of a cell."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import mean, stdev
from typing import Any, TypeVar

import numpy as np

from preprocess.questions import Questions
from preprocess.split_scores import OF_QUESTIONS, chosen

from .choice import DIGITS, RowScores
from .records import KNOWN, Run, cell_label, file_within
from .render import signed


def mean_over(values: Mapping[str, float], tasks: Collection[str]) -> float | None:
    """Return the mean of the tasks' values; None where one of them is missing."""
    return mean(values[task] for task in tasks) if values.keys() >= set(tasks) else None


def mean_test(row: RowScores, tasks: Collection[str]) -> float | None:
    return mean_over({task: score.test for task, score in row.items()}, tasks)


def std_of_mean(row: RowScores, tasks: Collection[str]) -> float | None:
    """Return the sample standard deviation over seeds of the mean over ``tasks``; None unless all have the same."""
    if any(task not in row for task in tasks) or len({row[task].seeds for task in tasks}) != 1:
        return None
    of_seeds = [mean(run["test"] for run in runs) for runs in zip(*(row[task].runs for task in tasks))]
    return stdev(of_seeds) if len(of_seeds) > 1 else None


# --- whether two rows differ by more than chance -------------------------------------------------

LEVEL = 0.05  # of significance
Name = TypeVar("Name", bound=Hashable)
TESTS = {"t": "paired t-test", "wilcoxon": "Wilcoxon signed-rank test"}
OVER = {
    "runs": "pairs of the same task and seed",
    "tasks": "tasks, of each the mean over the seeds that both have",
    "seeds": "seeds that both have for all tasks, of each the mean over the tasks",
}
UNITS: dict[str, Callable[[tuple[str, int]], Any]] = {"runs": tuple, "tasks": itemgetter(0), "seeds": itemgetter(1)}


@dataclass(frozen=True)
class Comparison:
    """The mean difference of a row to another over n pairs, x100, with its two-sided p; NaN where it is not known.

    In 95 of 100 such samples of seeds, ``interval`` holds the difference of the means of all seeds.
    """

    difference: float
    p: float
    n: int
    interval: tuple[float, float] | None = None
    corrected: float = math.nan  # p among those of other rows, see ``correct``

    def __str__(self) -> str:
        if not self.n:
            return "- (n=0)"
        stars = "**" if self.corrected < LEVEL else "*" if self.p < LEVEL else ""
        p = "p=-" if math.isnan(self.p) else "p<0.001" if self.p < 0.001 else f"p={self.p:.3f}"
        interval = f" [{', '.join(map(signed, self.interval))}]" if self.interval else ""
        return f"{signed(self.difference)}{interval} ({p}{stars}, n={self.n})"


def paired_test(one: RowScores, other: RowScores, test: str = "t", over: str = "runs") -> Comparison:
    """Compare two rows, each at its chosen learning rates, on the pairs of ``over`` that both have.

    p is NaN below two pairs, and where all differences are equal: with a deviation of 0 any difference would be
    significant. Over runs and seeds p holds for the tasks that were run; over tasks, for those of which they are a
    sample. Over seeds the t-test also has the interval of 95 %.
    """
    ours, theirs = (
        {(task, run["seed"]): run["test"] for task, score in row.items() for run in score.runs} for row in (one, other)
    )
    pairs = sorted(sorted(ours.keys() & theirs.keys()), key=UNITS[over])
    groups = [list(group) for _, group in groupby(pairs, UNITS[over])]
    whole = max(map(len, groups), default=0) if over == "seeds" else 0
    means = [mean(ours[pair] - theirs[pair] for pair in group) for group in groups if len(group) >= whole]
    differences = [round(difference, DIGITS) for difference in means]
    if len(set(differences)) < 2:
        return Comparison(mean(differences) if differences else math.nan, math.nan, len(differences))
    from scipy.stats import ttest_1samp, wilcoxon  # slow to import; other tables do without

    if test == "wilcoxon":
        return Comparison(mean(differences), float(wilcoxon(differences).pvalue), len(differences))
    found = ttest_1samp(differences, 0)
    low, high = found.confidence_interval(1 - LEVEL)
    interval = (float(low), float(high)) if over == "seeds" else None
    return Comparison(mean(differences), float(found.pvalue), len(differences), interval)


def correct(comparisons: Mapping[Name, Comparison]) -> dict[Name, Comparison]:
    """Return each with its p value corrected for how many have one.

    Where rows do not differ, a level is the chance that any corrected p is below it.

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


# --- votes over the predictions that runs left ---------------------------------------------------


def vote(predictions: Sequence[np.ndarray], regression: bool, questions: Questions | None = None) -> np.ndarray:
    """Return the class that most runs predict for each example (of equals the smallest), or their mean score.

    With ``questions``: 1 for the example of each question that most runs choose (of equals the first), 0 for others.
    """
    if questions is not None:
        return chosen(questions, np.sum(predictions, axis=0))
    if regression:
        return np.mean(predictions, axis=0)
    from scipy.stats import mode

    return mode(predictions, axis=0).mode


@dataclass
class Votes:
    """Votes over the predictions that runs left in a folder."""

    folder: Path
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # reason -> cells without a vote

    @property
    def notes(self) -> list[str]:
        return [f"no vote, as {problem}: {', '.join(places)}" for problem, places in self.problems.items()]

    def of(self, row: RowScores) -> dict[str, float]:
        """Return task -> test score of the seeds' vote, x100, where predictions are there."""
        voted = {task: self._of_seeds(score.runs) for task, score in row.items()}
        return {task: value for task, value in voted.items() if value is not None}

    def _of_seeds(self, runs: Sequence[Run]) -> float | None:
        from ..run import metrics  # loads scikit-learn

        metric, task = runs[0]["metric"], KNOWN[runs[0]["task"]]
        try:
            predictions, (targets, *others), (questions, *_) = zip(*map(self._read, runs))
            if metric in OF_QUESTIONS and questions is None:
                raise ValueError(metric)
            if all(np.array_equal(other, targets) for other in others):
                voted = vote(predictions, task.regression, questions if task.by_choice else None)
                return metrics.score(metric, voted, targets, questions)[metric]
            problem = "the seeds were tested on different examples"
        except Exception:  # numpy and zipfile raise many kinds over a file that is cut short, changed or another
            problem = "predictions are not there or damaged"
        self.problems[problem].append(cell_label(runs[0]))
        return None

    def _read(self, run: Run) -> tuple[np.ndarray, np.ndarray, Questions | None]:
        """Return predictions and targets of the run's test examples, and the questions that these answer."""
        path = self.folder / (run.get("predictions") or "none")
        if not file_within(self.folder, path):
            raise FileNotFoundError(path)
        with np.load(path, allow_pickle=False) as arrays:
            predictions, targets = arrays["test"], arrays["test_targets"]
            number, em, f1 = (arrays.get(f"test_{name}") for name in ("question", "em", "f1"))
        # Each example needs one finite number: NaN would win or lose every vote.
        found = [array for array in (predictions, targets, number, em, f1) if array is not None]
        if not targets.size or any(array.shape != (targets.size,) or not np.isfinite(array).all() for array in found):
            raise ValueError(path)
        return predictions, targets, None if number is None else Questions(number, em, f1)
