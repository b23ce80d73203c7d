"""What the runs of a row say of a test set, and what their seeds say together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_idpg.inference.folder import SplitPredictions, load_on_folder, predict_split
from preprocess.errors import InputError
from preprocess.questions import Questions
from preprocess.tasks import Task

from ..report.scores import vote
from ..run.evaluation import numbered, quiet
from .plan import Part


def answer(
    parts: Sequence[Part], checkpoints: Sequence[Path], batch_size: int, cpu: bool, **moved: Any
) -> list[list[str]]:
    """Voted answers to each of several test sets, which lie in one folder and are for the same models.

    Args:
        moved: options of the models with places that have changed.

    Raises:
        InputError: a checkpoint does not go with the folder, or has other labels than the task.
    """
    answers: list[list[SplitPredictions]] = [[] for _ in parts]
    with quiet("fairseq", "fairseq_idpg"):
        for checkpoint in checkpoints:
            model, task = load_on_folder(str(checkpoint), str(parts[0].folder), cpu, **moved)
            for part, of_part in zip(parts, answers):
                of_part.append(predict_split(model, task, part.sheet.split, batch_size, progress=True))
                check_labels(part.sheet.task, of_part[-1].label_names, checkpoint)
    return [voted(part.sheet.task, of_part, part.questions) for part, of_part in zip(parts, answers)]


def check_labels(task: Task, names: Sequence[str], checkpoint: Path) -> None:
    """Raises InputError unless a model's classes are the task's, in whatever order."""
    if sorted(names) != sorted(task.labels):
        raise InputError(
            f"{checkpoint} answers {', '.join(names) or 'scores'}, and {task.name} takes "
            f"{', '.join(task.labels) or 'scores'}: submit runs on the data of python -m preprocess {task.name}"
        )


def voted(task: Task, answers: Sequence[SplitPredictions], questions: Questions | None = None) -> list[str]:
    """The vote of several models, as the paper has it (Table 7): what most say, or the mean of their scores.

    Classes are those of the same name, in whatever order models have them. Scores are in the task's own scale, and
    within it. With ``questions`` it is a choice of one example of each: its text, or its place in the question.
    """
    if questions is not None:
        choices = [numbered(each, questions)[0] for each in answers]
        return chosen_answers(questions, vote(choices, False, questions))
    if task.regression:
        scores = np.clip(vote([each.answers for each in answers], True) * task.scale, 0, task.scale)
        return [f"{score:.6f}" for score in scores]
    names = np.array(sorted(task.labels))  # among equally many votes the first wins
    classes = [np.searchsorted(names, np.array(each.label_names))[each.answers] for each in answers]
    return names[vote(classes, False)].tolist()


def chosen_answers(questions: Questions, choice: np.ndarray) -> list[str]:
    """Of each question, in the order of their numbers, the text of the chosen example, or its place counted from 0.

    Args:
        choice: N, 1 for the chosen examples and 0 for the others.
    """
    order = np.argsort(questions.number, kind="stable")
    starts = np.unique(questions.number[order], return_index=True)[1]
    places = np.flatnonzero(choice[order])
    if questions.texts is not None:
        return [questions.texts[row] for row in order[places]]
    return [str(place) for place in places - starts]
