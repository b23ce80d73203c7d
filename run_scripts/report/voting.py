"""The score of what the seeds of a row say together."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from preprocess.tasks import TASKS
from run_scripts.run.metrics import score, vote

from .runs import Run, cell_label
from .score import Row, Score

# What numpy and zipfile raise over a file that is not there, cut short, changed, or of another kind.
DAMAGED = (
    *(OSError, LookupError, ValueError, TypeError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile),
    *(zlib.error, struct.error, AttributeError),
)


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

    def of(self, row: Row) -> dict[str, float]:
        """Task -> score of the vote, where there is one."""
        voted = {task: self.score(found) for task, found in row.items()}
        return {task: value for task, value in voted.items() if value is not None}

    def score(self, of: Score) -> float | None:
        """The metric of the seeds' vote on the test split, x100; None where predictions are not there."""
        run = of.runs[0]
        try:
            read = [self._read(run) for run in of.runs]
            targets = read[0][1]
            if any(not np.array_equal(others, targets) for _, others in read):
                return self._none(run, "the seeds were tested on different examples")
            voted = vote([predictions for predictions, _ in read], TASKS[run["task"]].regression)
            return score(run["metric"], voted, targets)[run["metric"]]
        except DAMAGED:
            return self._none(run, "predictions are not there or damaged")

    def _read(self, run: Run) -> tuple[np.ndarray, np.ndarray]:
        """Predictions and targets of the run's examples.

        Raises:
            one of DAMAGED: there is no such file in the folder, or it holds something else.
        """
        path = self.folder / (run.get("predictions") or "none")
        if not path.is_file() or self.folder.resolve() not in path.resolve().parents:
            raise FileNotFoundError(path)
        with np.load(path, allow_pickle=False) as arrays:
            predictions, targets = arrays["test"], arrays["test_targets"]
        if predictions.ndim != 1 or predictions.shape != targets.shape or not len(targets):
            raise ValueError(path)
        if any(array.dtype.kind not in "iuf" or not np.isfinite(array).all() for array in (predictions, targets)):
            raise ValueError(path)
        return predictions, targets

    def _none(self, run: Run, problem: str) -> None:
        self.problems[problem].append(cell_label(run))
