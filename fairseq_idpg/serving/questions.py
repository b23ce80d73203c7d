"""What a request asks for, and what the model, or several tasks on one backbone, answers."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from preprocess.readers import distinct

from ..errors import InputError
from ..inference.files import Text, of_value, row
from ..inference.many import ManyTasks
from ..inference.predictor import BadTexts, Predictor
from ..inference.prompts import check_has_rows, has_rows

WORDS, MOST_WORDS = 5, 100
Row = dict[str, Any]


class Question(NamedTuple):
    """Texts and what is asked about them. A text that cannot be read is replaced by its InputError."""

    texts: list[Text | InputError]
    tasks: tuple[str, ...] | None = None  # names of those that answer; None for all
    prompts: bool = False  # give the prompt rows that each text gets, each with its layer and its nearest words
    words: int = WORDS


def are_names(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and bool(names) and all(isinstance(name, str) for name in names)


# key -> what its value must be, and in words
KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "texts": (lambda value: isinstance(value, list), '"texts": ["a sentence", ["first", "second"], ...]'),
    "tasks": (are_names, "the name of a task or a list of names, or leave it out for all"),
    "prompts": (lambda value: isinstance(value, bool), "true or false"),
    "words": (lambda value: type(value) is int and 1 <= value <= MOST_WORDS, f"1 to {MOST_WORDS} words"),
}


def refuse(name: str) -> None:
    """Raise ValueError for NaN and Infinity, which Python adds to JSON."""
    raise ValueError(f"{name} is not a number of JSON")


def read_question(body: bytes, most_texts: int) -> Question:
    """Return the question of a JSON object with some of ``KEYS``; raise InputError for anything else."""
    try:
        asked = json.loads(body.decode(), object_pairs_hook=distinct, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is not JSON ({error})") from None
    if not isinstance(asked, dict) or not asked.keys() <= KEYS.keys():
        raise InputError(f"the body {asked!r:.60}: give a JSON object with some of {', '.join(KEYS)}")
    fields = {key: value for key, value in asked.items() if value is not None}
    for key, value in {"texts": None, **fields}.items():
        fits, remedy = KEYS[key]
        if not fits(value):
            raise InputError(f"{key} {value!r:.60}: give {remedy}")
    texts, names = fields["texts"], fields.get("tasks")
    if len(texts) > most_texts:
        raise InputError(f"{len(texts)} texts are too many: give {most_texts} at a time")
    for number, value in enumerate(texts):
        try:
            texts[number] = of_value(value)
        except ValueError as error:
            texts[number] = InputError(str(error))
    if names is not None:
        fields["tasks"] = tuple(dict.fromkeys([names] if isinstance(names, str) else names))
    return Question(**fields)


class Served:
    """The model, and its tasks by their names; answers are the rows of ``predict --format jsonl``."""

    def __init__(self, model: Predictor | ManyTasks):
        self.model = model
        self.tasks: Mapping[str, Predictor]
        self.tasks = model.tasks if isinstance(model, ManyTasks) else {model.record.task or "task": model}
        for task in self.tasks.values():
            task.if_too_long = "shorten it"  # who asks cannot change the server's options

    def described(self) -> list[Row]:
        """Return each task: its labels (None for scores), what it reads, and whether it has prompt rows to show."""
        tasks = []
        for name, task in self.tasks.items():
            # A model of EFL reads pairs, and sentences too, which it answers by the task's own classes.
            efl, pairs = task.description, task.record.pairs
            kinds = [kind for kind, reads in (("sentence", efl or not pairs), ("pair", pairs)) if reads]
            labels = (efl.labels if efl else task.labels) or None
            tasks.append({"task": name, "labels": labels, "reads": kinds, "prompts": has_rows(task.model)})
        return tasks

    def check(self, question: Question) -> None:
        """Raise InputError for what the tasks cannot answer, as far as can be seen before texts are encoded."""
        for name in self.asked(question):
            if name not in self.tasks:
                raise InputError(f"task {name:.60} is not served: choose among {', '.join(self.tasks)}")
            if question.prompts:
                try:
                    check_has_rows(self.tasks[name].model)
                except InputError as error:
                    raise InputError(f"task {name}: {error}") from None

    def asked(self, question: Question) -> list[str]:
        return list(self.tasks if question.tasks is None else question.tasks)

    def answer(self, question: Question, batch_size: int) -> list[Row]:
        """Return a row for each text; ``{"error": ...}`` stands for a text that cannot be read."""
        names = {"tasks": self.asked(question)} if isinstance(self.model, ManyTasks) else {}
        options: Any = {"prompts": question.prompts, "words": question.words, **names}
        # Rows are empty until their texts have answers. Texts that cannot be read get errors; the rest is asked again.
        rows: list[Row] = [{"error": str(text)} if isinstance(text, InputError) else {} for text in question.texts]
        while left := [number for number, found in enumerate(rows) if not found]:
            texts: Any = [question.texts[number] for number in left]
            try:
                answers: Any = self.model.predict(texts, batch_size=batch_size, **options)
            except BadTexts as error:
                for number, reason in error.reasons.items():
                    rows[left[number]] = {"error": reason}
                continue
            for number, answer in zip(left, answers):
                rows[number] = row(answer)
        return rows
