"""Means over tasks, and votes of the seeds of a cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from preprocess.questions import Questions
from preprocess.split_scores import OF_QUESTIONS, chosen

from .choice import RowScores
from .records import KNOWN, Run, cell_label, file_within


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
