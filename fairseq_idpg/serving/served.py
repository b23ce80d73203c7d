"""One trained model, or several on one backbone, as requests ask them."""

from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from ..inference.files import Found, row
from ..inference.many import ManyTasks
from ..inference.predictor import Predictor
from ..inference.prompts import check_has_rows
from .questions import Question, text_name

Row = dict[str, Any]


class Served:
    """The model, and its tasks by their names.

    Answers are the rows of ``python -m fairseq_idpg.predict --format jsonl``: of one checkpoint label, probability and
    probabilities, or score; of several ``tasks``, these of each.
    """

    def __init__(self, model: Predictor | ManyTasks):
        self.model = model
        self.tasks: Mapping[str, Predictor]
        self.tasks = model.tasks if isinstance(model, ManyTasks) else {model.record.task or "task": model}

    def described(self) -> list[Row]:
        """Each task: its labels (None for scores), what it reads, and whether it has prompt rows to show."""
        return [
            {"task": name, "labels": labels_of(task), "reads": kinds_of(task), "prompts": has_rows(task)}
            for name, task in self.tasks.items()
        ]

    def check(self, question: Question) -> None:
        """Raise InputError for what the tasks cannot answer, as far as that is seen before texts are encoded."""
        for name in self.chosen(question):
            if name not in self.tasks:
                raise InputError(f"task {name:.60} is not served: choose among {', '.join(self.tasks)}")
            try:
                self.tasks[name].check(question.texts, text_name)
                if question.prompts:
                    check_has_rows(self.tasks[name].model)
            except InputError as error:
                raise InputError(f"task {name}: {error}") from None

    def chosen(self, question: Question) -> list[str]:
        """Names of tasks."""
        return list(self.tasks if question.tasks is None else question.tasks)

    def answer(self, question: Question, batch_size: int) -> list[Row]:
        """A row for each text of a checked question.

        Raises:
            InputError: see ``Predictor.predict``.
        """
        texts, words = question.texts, question.words
        usual: dict[str, Any] = {"batch_size": batch_size, "name": text_name}
        found: list[Found]
        if not isinstance(self.model, ManyTasks):
            found = [*self.model.predict(texts, prompts=question.prompts, words=words, **usual)]
        elif question.prompts:
            names = self.chosen(question)
            each = [self.tasks[name].predict(texts, prompts=True, words=words, **usual) for name in names]
            found = [dict(zip(names, answers)) for answers in zip(*each)]
        else:
            found = [*self.model.predict(texts, self.chosen(question), **usual)]
        return [row(one) for one in found]


def labels_of(task: Predictor) -> Any:
    """Names of the classes; None for scores."""
    labels = task.labels
    return (task.description.labels if task.description else labels) or None


def kinds_of(task: Predictor) -> list[str]:
    """Of texts."""
    if not task.record.pairs:
        return ["sentence"]
    return ["pair"] if task.description is None else ["sentence", "pair"]


def has_rows(task: Predictor) -> bool:
    try:
        check_has_rows(task.model)
    except InputError:
        return False
    return True
