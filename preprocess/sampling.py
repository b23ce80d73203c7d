"""Which examples of a training set a seed chooses.

A permutation is drawn from the seed: its first DEV rows are for validation, the K after them for training. So the
validation set is the same for every K, and a smaller training set is part of a larger one. numpy keeps the stream of
RandomState for good: a seed chooses the same rows on every machine.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .data_folder import DataFolder
from .errors import InputError
from .split_facts import class_counts, count_examples


def select_rows(data: DataFolder, k: int, dev: int, seed: int, per_class: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the training set, in the order in which they are written: (K or K per class for train, DEV for valid).

    Raises:
        InputError: there are not as many, or K per class is asked of a regression task.
    """
    count = count_examples(data, "train")
    if per_class and data.regression:
        raise InputError(f"--per-class: {data.path} is a regression task without classes: leave the option out")
    order = np.random.RandomState(seed).permutation(count)
    rest = order[dev:]
    if dev >= count or (not per_class and k > len(rest)):
        raise InputError(too_many(data.path, count, k, dev))
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


def too_many(path: Path, count: int, k: int, dev: int) -> str:
    most = [f"--k can be {count - dev} at most with --dev {dev}"] if dev < count else []
    most += [f"--dev can be {count - k} at most with --k {k}"] if k < count else []
    remedy = " or ".join(most) or f"together they can be {count} at most"
    return f"--k {k} --dev {dev}: {path} has {count} training examples, not {k + dev}: {remedy}"
