"""Predictions and scores of a trained run."""

from __future__ import annotations

import contextlib
import json
import logging
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairseq_idpg.inference.folder import SplitPredictions, load_on_folder, predict_split
from preprocess.data_folder import DataFolder
from preprocess.errors import InputError
from preprocess.questions import Questions
from preprocess.tasks import Task, find_task
from preprocess.writing import new_file

from .experiment import Experiment, folder_digest
from .metrics import Scores, macro_scores, score
from .splits import Splits

REPORTED = "valid"  # split of a published folder
OPTION_GROUPS = ("model", "task", "criterion", "optimizer", "lr_scheduler", "optimization", "dataset", "common")


def evaluate(experiment: Experiment, splits: Splits, checkpoint: Path, cache: Path | None) -> dict[str, Any]:
    """What a record says of a checkpoint; its predictions are saved beside it, in predictions.npz."""
    arrays, scores, examples, seconds = {}, {}, {}, 0.0
    with quiet("fairseq", "fairseq_idpg"):
        cpu, folder = "--cpu" in experiment.options, str(splits.folder.path)
        model, task = load_on_folder(str(checkpoint), folder, cpu, representation_cache=cache and str(cache))
        for name, split in (("dev", splits.dev), ("test", splits.reported)):
            started = time.perf_counter()
            answers, targets, questions = answered(experiment.facts, model, task, splits.folder, split)
            seconds = (time.perf_counter() - started) / max(1, len(answers))  # of the last one
            arrays.update({name: answers, f"{name}_targets": targets, **of_questions(name, questions)})
            scores[name] = scores_of(experiment.facts, answers, targets, questions)
            examples[name] = len(answers)
    save(checkpoint.with_name("predictions.npz"), arrays)
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return {
        "scores": scores,
        "examples": examples,
        "dev": scores["dev"][experiment.facts.metric],
        "test": scores["test"][experiment.facts.metric],
        "trainable": trained - model.parameter_counts()["head"],
        "prompt_length": model.prompt_length or None,
        "seconds_per_prediction": round(seconds, 6),
        **saved_facts(checkpoint),
    }


def evaluate_elsewhere(
    experiment: Experiment, task: str, data: str, checkpoint: Path, cache: Path | None
) -> dict[str, Any]:
    """What a record says of a checkpoint on another task's ``valid``; its predictions are saved beside it.

    Classes are matched by their meaning, see ``fairseq_idpg.saving.record.labels_here``.

    Raises:
        InputError: the task's labels mean something else, or its folder does not fit the model.
    """
    facts = find_task(task)
    with quiet("fairseq", "fairseq_idpg"):
        cpu = "--cpu" in experiment.options
        model, loaded = load_on_folder(str(checkpoint), data, cpu, representation_cache=cache and str(cache))
        answers, targets, questions = answered(facts, model, loaded, DataFolder(Path(data)), REPORTED)
    arrays = {"test": answers, "test_targets": targets, **of_questions("test", questions)}
    save(checkpoint.with_name(f"predictions-{task}.npz"), arrays)
    scores = scores_of(facts, answers, targets, questions)
    digest = folder_digest(data, experiment.reads_word_vectors)
    return {"metric": facts.metric, "scores": scores, "test": scores[facts.metric], "data": digest}


def answered(
    facts: Task, model: Any, task: Any, folder: DataFolder, split: str
) -> tuple[np.ndarray, np.ndarray, Questions | None]:
    """What a model answers to a split of a folder, the targets, and the questions that examples answer.

    Raises:
        InputError: the split has no labels.
    """
    questions = folder.questions(split)
    answers, targets = numbered(predict_split(model, task, split), questions if facts.by_choice else None)
    if targets is None:
        raise InputError(f"{folder.path} has no labels of {split}: preprocess it with them")
    return answers, targets, questions


def save(path: Path, arrays: dict[str, Any]) -> None:
    with new_file(path) as work:
        np.savez_compressed(work, **arrays)


def scores_of(task: Task, answers: np.ndarray, targets: np.ndarray, questions: Questions | None = None) -> Scores:
    """The task's own metric, and of classes what ID-SPAM reports."""
    macro = {} if task.regression or task.by_choice else macro_scores(answers, targets)
    return {**score(task.metric, answers, targets, questions), **macro}


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


def numbered(found: SplitPredictions, questions: Questions | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Answers, and targets if any; of classes that are numbers these themselves, as F1 is that of the label 1.

    Args:
        questions: choose one example of each.
    """
    answers = found.answers if questions is None else found.chosen(questions)
    if not found.label_names or not all(label.isdecimal() for label in found.label_names):
        return answers, found.targets
    numbers = np.array([int(label) for label in found.label_names])
    return numbers[answers], None if found.targets is None else numbers[found.targets]


def of_questions(name: str, questions: Questions | None) -> dict[str, np.ndarray]:
    """What predictions.npz says of the questions of a split; nothing where there are none."""
    if questions is None:
        return {}
    columns = {"question": questions.number, "em": questions.em, "f1": questions.f1}
    return {f"{name}_{column}": values for column, values in columns.items() if values is not None}


def saved_facts(checkpoint: Path) -> dict[str, Any]:
    """``best_epoch``, counted from 1, ``best_update``, and ``options`` as they took effect."""
    state = torch.load(checkpoint, weights_only=True, mmap=True)
    iterator = state["extra_state"]["train_iterator"]
    ended = iterator["iterations_in_epoch"] == 0  # it was saved at an epoch's end, as the start of the next one
    options = {group: state["cfg"][group] for group in OPTION_GROUPS}
    return {
        "best_epoch": iterator["epoch"] - ended,
        "best_update": state["optimizer_history"][-1]["num_updates"],
        "options": json.loads(json.dumps(options, default=str)),
    }
