"""EFL's models read a sentence and the description of a class, and say whether the one entails the other."""

from typing import NamedTuple

from preprocess.tasks import TASKS
from preprocess.transforms import EFL_DESCRIPTIONS, ENTAILED, NOT_ENTAILED

from ..saving.record import Record


class Description(NamedTuple):
    """What a sentence is paired with, and the classes that the answers mean.

    ``text``: the description; ``entailed``, ``other``: the task's classes.
    """

    text: str
    entailed: str
    other: str

    def labels(self, answers: list[str]) -> list[str]:
        """The classes that a model's own stand for."""
        return [self.entailed if answer == ENTAILED else self.other for answer in answers]


def find_description(record: Record) -> Description | None:
    """The description of a model of two classes; None of one whose answers are no entailment of such.

    ``--efl`` gives a class that has a description a pair for each sentence: one is enough for two classes.
    """
    if set(record.labels or ()) != {ENTAILED, NOT_ENTAILED} or record.task not in TASKS:
        return None
    descriptions, classes = EFL_DESCRIPTIONS.get(record.task, {}), TASKS[record.task].labels
    if len(descriptions) != 1 or len(classes) != 2:
        return None
    ((entailed, text),) = descriptions.items()
    return Description(text, entailed, next(label for label in classes if label != entailed))
