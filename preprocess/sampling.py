"""Which examples of a training set a seed chooses.

A permutation is drawn from the seed: its first DEV rows are for validation, the K after them for training. So the
validation set is the same for every K, and a smaller training set is part of a larger one. numpy keeps the stream of
RandomState for good: a seed chooses the same rows on every machine.

Examples that answer one question are drawn together, K and DEV are numbers of questions then: one that is half in
either set has no right answer, and tells the other half.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .data_folder import DataFolder
from .errors import InputError
from .questions import Questions
from .split_facts import class_counts, count_examples


def select_rows(data: DataFolder, k: int, dev: int, seed: int, per_class: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the training set, in the order in which they are written: (K or K per class for train, DEV for valid).

    Raises:
        InputError: there are not as many, or K per class is asked of a regression task or of questions.
    """
    count, questions = count_drawn(data), data.questions("train")
    if per_class and (data.regression or questions is not None):
        kind = "is a regression task without classes" if data.regression else "has questions, which are drawn whole"
        raise InputError(f"--per-class: {data.path} {kind}: leave the option out")
    order = np.random.RandomState(seed).permutation(count)
    rest = order[dev:]
    if dev >= count or (not per_class and k > len(rest)):
        raise InputError(too_many(data.path, count, k, dev, "examples" if questions is None else "questions"))
    if questions is not None:
        return rows_of(questions, rest[:k]), rows_of(questions, order[:dev])
    if not per_class:
        return rest[:k], order[:dev]
    labels = data.classes("train")[rest]
    available = dict.fromkeys(class_counts(data, "train"), 0)
    chosen = np.zeros(len(rest), bool)
    for number, name in enumerate(available):
        places = np.flatnonzero(labels == number)
        available[name] = len(places)
        chosen[places[:k]] = True
    name, fewest = min(available.items(), key=lambda item: item[1])
    if fewest < k:
        raise InputError(
            f"--k {k} --per-class: {data.path} has {fewest} training examples of class {name} beside the --dev {dev} "
            f"of seed {seed}: --k can be {fewest} at most, or choose a smaller --dev"
        )
    return rest[chosen], order[:dev]


def count_drawn(data: DataFolder) -> int:
    """What K and DEV count of a training set: its questions, or else its examples."""
    examples, questions = count_examples(data, "train"), data.questions("train")
    return examples if questions is None else questions.count


def rows_of(questions: Questions, drawn: np.ndarray) -> np.ndarray:
    """Rows of some of the questions, counted in the order of their numbers, one after the other."""
    place = np.full(questions.count, len(drawn))
    place[drawn] = np.arange(len(drawn))
    of_row = place[np.unique(questions.number, return_inverse=True)[1]]
    return np.argsort(of_row, kind="stable")[: int((of_row < len(drawn)).sum())]


def too_many(path: Path, count: int, k: int, dev: int, what: str) -> str:
    if k < 1:  # what DEV leaves: nobody has given it
        return f"--dev {dev}: {path} has {count} training {what}: --dev can be {count - 1} at most"
    most = [f"--k can be {count - dev} at most with --dev {dev}"] if dev < count else []
    most += [f"--dev can be {count - k} at most with --k {k}"] if k < count else []
    remedy = " or ".join(most) or f"together they can be {count} at most"
    return f"--k {k} --dev {dev}: {path} has {count} training {what}, not {k + dev}: {remedy}"
