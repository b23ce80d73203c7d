"""Predictions and scores of a trained run."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import torch

from fairseq_idpg.inference.folder import SplitPredictions, load_on_folder, predict_split
from preprocess.writing import new_file

from .experiment import Experiment
from .metrics import score
from .splits import Splits

OPTION_GROUPS = ("model", "task", "criterion", "optimizer", "lr_scheduler", "optimization", "dataset", "common")


def evaluate(experiment: Experiment, splits: Splits, checkpoint: Path, cache: Path | None) -> dict[str, Any]:
    """What a record says of a checkpoint; its predictions are saved beside it, in predictions.npz."""
    arrays, scores = {}, {}
    with quiet("fairseq", "fairseq_idpg"):
        cpu, folder = "--cpu" in experiment.options, str(splits.folder.path)
        model, task = load_on_folder(str(checkpoint), folder, cpu, representation_cache=cache and str(cache))
        for name, split in (("dev", splits.dev), ("test", splits.reported)):
            answers, targets = numbered(predict_split(model, task, split))
            arrays.update({name: answers, f"{name}_targets": targets})
            scores[name] = score(experiment.facts.metric, answers, targets)
    with new_file(checkpoint.with_name("predictions.npz")) as path:
        np.savez_compressed(path, **arrays)
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return {
        "scores": scores,
        "dev": scores["dev"][experiment.facts.metric],
        "test": scores["test"][experiment.facts.metric],
        "trainable": trained - model.parameter_counts()["head"],
        "prompt_length": model.prompt_length or None,
        **saved_facts(checkpoint),
    }


@contextlib.contextmanager
def quiet(*names: str) -> Iterator[None]:
    """Keeps loggers, and torch where there is no GPU, from saying again what they have said while training."""
    levels = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.WARNING)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'pin_memory'")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def numbered(found: SplitPredictions) -> tuple[np.ndarray, np.ndarray]:
    """Answers and targets; of classes that are numbers the numbers themselves, as F1 is that of the label 1."""
    if not found.label_names or not all(label.isdecimal() for label in found.label_names):
        return found.answers, found.targets
    numbers = np.array([int(label) for label in found.label_names])
    return numbers[found.answers], numbers[found.targets]


def saved_facts(checkpoint: Path) -> dict[str, Any]:
    """``best_epoch``, counted from 1, and ``options`` as they took effect."""
    state = torch.load(checkpoint, weights_only=True, mmap=True)
    iterator = state["extra_state"]["train_iterator"]
    ended = iterator["iterations_in_epoch"] == 0  # it was saved at an epoch's end, as the start of the next one
    options = {group: state["cfg"][group] for group in OPTION_GROUPS}
    return {"best_epoch": iterator["epoch"] - ended, "options": json.loads(json.dumps(options, default=str))}
