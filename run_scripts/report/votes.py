"""What the seeds of a row say together: the vote over the predictions that their runs left."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.stats import mode

from preprocess.questions import Questions
from preprocess.split_scores import OF_QUESTIONS, chosen
from preprocess.tasks import TASKS

from ..run import metrics
from .runs import Run, cell_label
from .scores import RowScores

# What numpy and zipfile raise over a file that is not there, cut short, changed, or of another kind.
DAMAGED = (
    *(OSError, LookupError, ValueError, TypeError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile),
    *(zlib.error, struct.error, AttributeError),
)


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
