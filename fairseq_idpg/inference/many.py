"""Several tasks on one backbone: each text is read once for all of them, and answered for each."""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor
from tqdm import tqdm

from ..errors import InputError
from .joint_pass import JointPass, Reading
from .prediction import Prediction, Text
from .predictor import Predictor, check_finite, check_list, numbered
from .sharing import check_same_backbone, check_shares
from .values import check_switches, whole_number

Answers = dict[str, Prediction]  # by the names of tasks


class ManyTasks:
    """Trained models that share one backbone, each with its own method, head, prompt length, position and labels.

    Tasks may be added and dropped while threads predict: a prediction has the tasks of its beginning.

    Args:
        open_checkpoint: reads a checkpoint, its method not merged into the backbone.
        option: what names checkpoints, for errors.
    """

    def __init__(self, open_checkpoint: Callable[[str], Predictor], option: str = "checkpoint"):
        self.open_checkpoint = open_checkpoint
        self.option = option
        self.tasks: Mapping[str, Predictor] = {}
        self.first: Predictor | None = None
        self.lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        """Of the tasks, in the order in which they came."""
        return list(self.tasks)

    def __getitem__(self, name: str) -> Predictor:
        """One task; its ``predict`` gives features and prompts too."""
        return self._chosen([name])[name]

    def add(self, checkpoint: Any, name: str | None = None) -> str:
        """Adds the task of a checkpoint, and returns its name: ``name``, or what the checkpoint records.

        Raises:
            InputError: see ``load``; the name is no string, or that of another task; the backbone is another, or is
                trained.
        """
        what = f"{self.option} {checkpoint}"
        if not isinstance(name, (str, type(None))):
            raise InputError(f"{what}: the name {name!r:.60} of its task is no text: give a string")
        predictor = self.open_checkpoint(str(checkpoint))
        task = name or predictor.record.task
        if not task:
            raise InputError(
                f"{what} does not record the name of its task: give it one, as in {self._named(checkpoint)}"
            )
        check_shares(predictor, what)
        with self.lock:
            if task in self.tasks:
                raise InputError(
                    f"{what}: there is a task {task} already: give it another name, as in {self._named(checkpoint)}"
                )
            if self.first is not None:
                check_same_backbone(predictor, self.first, what)
                predictor.model.encoder = self.first.model.encoder  # the memory of its own is free then
            self.first = self.first or predictor
            self.tasks = {**self.tasks, task: predictor}
        return task

    def _named(self, checkpoint: Any) -> str:
        """How whoever named a checkpoint gives its task a name: at the command line, or in Python."""
        if self.option.startswith("--"):
            return f"NAME={checkpoint}"
        return "load({'NAME': CHECKPOINT}) or add(CHECKPOINT, 'NAME')"

    def drop(self, name: str) -> None:
        """Forgets a task. The backbone stays.

        Raises:
            InputError: there is none of this name.
        """
        with self.lock:
            self._chosen([name])
            self.tasks = {task: predictor for task, predictor in self.tasks.items() if task != name}

    def _chosen(self, names: Any) -> dict[str, Predictor]:
        tasks = self.tasks
        one = isinstance(names, str) or not isinstance(names, Iterable)
        given = list(tasks) if names is None else [names] if one else list(names)
        if not all(isinstance(name, str) for name in given):
            raise InputError(f"tasks are given by their names, not {names!r:.60}: choose among {', '.join(tasks)}")
        chosen = list(dict.fromkeys(given))
        for name in chosen:
            if name not in tasks:
                raise InputError(f"task {name} is not here: choose among {', '.join(tasks) or 'none'}")
        if not chosen:
            among = f"tasks is empty: choose among {', '.join(tasks)}" if tasks else "add the checkpoint of one"
            raise InputError(f"there is no task: {among}")
        return {name: tasks[name] for name in chosen}

    def predict(
        self,
        texts: Iterable[Text],
        tasks: Iterable[str] | None = None,
        batch_size: int = 64,
        progress: bool = False,
        name: Callable[[int], str] = numbered,
    ) -> list[Answers]:
        """For each text, in their order, a ``Prediction`` of each task by its name.

        Args:
            texts: sentences, or pairs of sentences, as the tasks were trained on.
            tasks: names of those that answer; default: all.
            batch_size: rows that are run together: texts for M(x), then texts times tasks.
            progress: show a bar on stderr.
            name: of an input by its number, counted from 0, for errors.

        Raises:
            InputError: an input is not what a task reads, or too long for it; a prediction is not finite; a batch does
                not fit into memory; there is no such task; the backbone's file was written to; a model is in training
                mode.
        """
        check_switches(progress=progress)
        batch_size = whole_number("batch_size", batch_size)
        chosen = self._chosen(tasks)
        check_list(texts)
        texts = list(texts)
        if not texts:
            return []
        readings = [self._read(task, predictor, texts, name) for task, predictor in chosen.items()]
        joint = JointPass(self._first, readings)
        answers: list[Answers] = [{} for _ in texts]
        order = readings[0].examples.ordered_indices().tolist()
        texts_in_pass = max(1, batch_size // len(readings))
        for start in tqdm(range(0, len(texts), batch_size), unit="batch", disable=not progress):
            batch = order[start : start + batch_size]
            items = {reading.task: [reading.examples[i] for i in batch] for reading in readings}
            known = joint.represent(items, batch_size)
            for begin in range(0, len(batch), texts_in_pass):
                part = slice(begin, begin + texts_in_pass)
                rows = [items[reading.task][part] for reading in readings]
                for reading, logits in zip(readings, joint.logits(rows, batch[part], known)):
                    for number, answer in zip(batch[part], self._answers(reading, logits, batch[part], name)):
                        answers[number][reading.task] = answer
        self._first.model.check_backbone()
        return answers

    def _read(self, task: str, predictor: Predictor, texts: Any, name: Callable[[int], str]) -> Reading:
        def of_task(number: int) -> str:
            return f"task {task}: {name(number)}"

        predictor.check_mode()
        inputs = predictor.check(texts, of_task)
        return Reading(task, predictor, inputs, *predictor.examples(inputs, of_task))

    @property
    def _first(self) -> Predictor:
        assert self.first is not None
        return self.first

    def _answers(
        self, reading: Reading, logits: Tensor, numbers: list[int], name: Callable[[int], str]
    ) -> list[Prediction]:
        predictor, inputs = reading.predictor, [reading.inputs[number] for number in numbers]
        check_finite(predictor.in_scale(logits), numbers, lambda number: f"task {reading.task}: {name(number)}")
        answers = predictor.answers(logits, [each.labels for each in inputs])
        cut = reading.cut[numbers].tolist()
        return [Prediction(text=each.text, **answer, cut=c) for each, answer, c in zip(inputs, answers, cut)]
