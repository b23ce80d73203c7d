"""Several tasks on one backbone: each text is represented once for all of them, and answered by each."""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..backbone.weights import GEOMETRY
from ..errors import InputError
from ..models.config import predicts_words
from ..saving.record import symbols_fingerprint
from .files import Prediction, Text
from .predictor import Predictor, Reading, in_batches, listed, numbered

Answers = dict[str, Prediction]  # by the names of tasks


class ManyTasks:
    """Trained models that share one backbone, each with its own method, head, prompt length, position and labels.

    Tasks may be added and dropped while threads predict: a prediction has the tasks of its beginning.
    ``open_checkpoint`` reads a checkpoint, its method not merged into the backbone.
    """

    def __init__(self, open_checkpoint: Callable[[str], Predictor]):
        self.open_checkpoint = open_checkpoint
        self.tasks: Mapping[str, Predictor] = {}
        self.first: Predictor | None = None  # whose backbone all have; it stays when its task is dropped
        self.lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        return list(self.tasks)

    def __getitem__(self, name: str) -> Predictor:
        """One task; its ``predict`` gives features and prompts too."""
        return self._chosen(name)[name]

    def add(self, checkpoint: Any, name: str | None = None) -> str:
        """Add the task of a checkpoint, and return its name: ``name``, or what the checkpoint records. Raise InputError
        as ``load`` does, and where the name is missing or another task's, or the backbone is another or is trained.
        """
        what = f"checkpoint {checkpoint}"
        predictor = self.open_checkpoint(str(checkpoint))
        task, cfg, reason = name or predictor.record.task, predictor.model.args, None
        if predictor.model.trains_encoder:
            trained = "--no-freeze-backbone" if cfg.no_freeze_backbone else f"--method {cfg.method}"
            reason = f"{trained} trains weights of the backbone, which cannot be shared with other tasks"
        elif predicts_words(cfg):
            reason = f"--predict-with {cfg.predict_with} shares no backbone with other tasks"
        if reason:
            raise InputError(f"{what}: {reason}: load it alone")
        with self.lock:
            if not task or task in self.tasks:
                problem = f"there is a task {task} already" if task else "it does not record the name of its task"
                raise InputError(
                    f"{what}: {problem}: give it another, NAME={checkpoint} (in Python {{'NAME': CHECKPOINT}})"
                )
            self.first = self.first or predictor
            shared = facts(self.first)
            for fact, own in facts(predictor).items():
                if own != shared[fact]:
                    raise InputError(
                        f"{what}: its {fact}, {own}, is not that of the other tasks, {shared[fact]}: load it alone"
                    )
            predictor.model.encoder = self.first.model.encoder  # the memory of its own is free then
            self.tasks = {**self.tasks, task: predictor}
        return task

    def drop(self, name: str) -> None:
        """Forget a task, while the backbone stays; raise InputError where there is no task of this name."""
        with self.lock:
            self._chosen(name)
            self.tasks = {task: predictor for task, predictor in self.tasks.items() if task != name}

    def _chosen(self, names: str | Iterable[str] | None) -> dict[str, Predictor]:
        tasks = self.tasks
        chosen = dict.fromkeys(tasks if names is None else [names] if isinstance(names, str) else names)
        if not chosen or chosen.keys() - tasks.keys():
            raise InputError(f"tasks {', '.join(chosen) or 'is empty'}: choose among {', '.join(tasks) or 'none'}")
        return {name: tasks[name] for name in chosen}

    def predict(
        self,
        texts: Iterable[Text],
        tasks: Iterable[str] | None = None,
        batch_size: int = 64,
        progress: bool = False,
        name: Callable[[int], str] = numbered,
        **more: Any,
    ) -> list[Answers]:
        """Return for each text, in their order, a ``Prediction`` of each task by its name.

        M(x) of a text is computed once for all tasks that read it. ``tasks`` names those that answer (default: all);
        the others (``more``: ``features``, ``prompts`` and ``words``) and errors are those of ``Predictor.predict``.
        """
        chosen, texts = self._chosen(tasks), listed(texts)
        if not texts:
            return []

        def read(task: str, predictor: Predictor) -> Reading:
            return predictor.read(texts, lambda number: f"task {task}: {name(number)}")

        readings = [read(*each) for each in chosen.items()]
        return [dict(zip(chosen, answers)) for answers in in_batches(readings, batch_size, progress, **more)]


def facts(predictor: Predictor) -> dict[str, Any]:
    """Return what tasks must have in common: the backbone, and the way from text to its ids."""
    return {
        "backbone": predictor.model.backbone_digest,
        **{name: getattr(predictor.model.args, name) for name in (*GEOMETRY, "max_positions")},
        "dictionary": symbols_fingerprint(predictor.text.dictionary),
        "encoder of text": predictor.text.encoder.fingerprint(),
    }
