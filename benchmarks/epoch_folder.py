"""The runs of benchmarks/epoch.py on one data folder, and the rounds of several folders."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from epoch_cases import Prediction, Training, predictions, trainings
from epoch_report import Parts, Rounds, parts
from epoch_runs import Setting, encode, predict, train, training_figures
from tqdm import tqdm

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError


class Folder:
    """The runs on one data folder: their figures in ``rounds``, their files below ``work``, a new folder."""

    def __init__(self, data: DataFolder, split: str, methods: list[str], setting: Setting, work: Path):
        self.data, self.split, self.setting, self.work = data, split, setting, work
        self.trainings, self.predictions = trainings(methods), predictions(methods)
        self.warm, self.cold = work / "warm", work / "cold"
        cases: list[Training | Prediction] = [*self.trainings, *self.predictions]
        self.rounds: Rounds = {case.name: [] for case in cases}
        self.filled_s: float | None = None
        work.mkdir()

    def prepare(self) -> None:
        """Fills the warm cache, if a case reads it."""
        if any(case.cache == "warm" for case in self.trainings):
            splits = list(dict.fromkeys(["train", self.split]))
            self.filled_s = encode(self.data, splits, self.warm, self.setting).seconds

    def run(self, case: Training | Prediction) -> None:
        """Runs a case once more and keeps its figures; an InputError names it."""
        try:
            figures = self._train(case) if isinstance(case, Training) else self._predict(case)
        except InputError as error:
            raise InputError(f"{case.name} on {self.data.path} failed: {error}") from None
        self.rounds[case.name].append(figures)

    def parts(self) -> Parts:
        return parts(self.trainings, self.predictions, self.rounds, self.filled_s)

    def _train(self, case: Training) -> dict[str, Any]:
        cache = {"cold": self.cold, "warm": self.warm}.get(case.cache)
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            output = train(case, self.data, Path(folder), cache, self.setting)
            checkpoint = Path(folder, "checkpoint_last.pt")
            figures = {"method": case.method, **training_figures(output, checkpoint)}
            if case.name in {wanted.method for wanted in self.predictions}:
                os.replace(checkpoint, self._checkpoint(case.name))
        shutil.rmtree(self.cold, ignore_errors=True)
        return figures

    def _predict(self, case: Prediction) -> dict[str, Any]:
        return predict(case, self.data, self.split, self._checkpoint(case.method), self.warm, self.setting)

    def _checkpoint(self, method: str) -> Path:
        return self.work / f"{method}.pt"


def measure(folders: list[Folder], rounds: int) -> None:
    """Trainings, then predictions with their checkpoints, in each round; every other round in reverse order."""
    training = [(folder, case) for folder in folders for case in folder.trainings]
    prediction = [(folder, case) for folder in folders for case in folder.predictions]
    with tqdm(total=rounds * len(training + prediction), unit=" runs", disable=None, leave=False) as bar:
        for folder in folders:
            bar.set_description(f"{folder.data.path.name} cache")
            folder.prepare()
        for number in range(rounds):
            step = -1 if number % 2 else 1
            runs: list[tuple[Folder, Training | Prediction]] = [*training[::step], *prediction[::step]]
            for folder, case in runs:
                bar.set_description(f"{folder.data.path.name} {case.name}")
                folder.run(case)
                bar.update()


def merged(folders: list[Folder]) -> Parts:
    """The parts of all folders; cases are named FOLDER/CASE where there are several."""
    found = {folder.data.path.name: folder.parts() for folder in folders}
    if len(found) == 1:
        return found.popitem()[1]
    return {
        part: {f"{name}/{case}": figures for name, of in found.items() for case, figures in of[part].items()}
        for part in next(iter(found.values()))
    }
