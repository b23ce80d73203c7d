"""Several tasks on one backbone: each text is represented once for all of them, and answered by each."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ..backbone.weights import GEOMETRY
from ..errors import InputError
from ..models.config import predicts_words
from ..saving.record import symbols_fingerprint
from .files import Prediction, Text
from .onnx_file import OnnxModel
from .predictor import BadTexts, Predictor, as_list, in_batches, numbered

Answers = dict[str, Prediction]  # by the names of tasks


class ManyTasks:
    """Trained models that share one backbone, each with its own method, head, prompt length, position and labels.

    ``checkpoints``: the name of each task, or None, and its checkpoint; ``open_checkpoint``: reads one, its method not
    merged into a backbone that is shared. Raise InputError as ``load`` does, where two tasks have one name or a task
    has none, and where their backbones differ or are trained.
    """

    def __init__(self, open_checkpoint: Callable[[str], Predictor], checkpoints: Sequence[tuple[str | None, Any]]):
        self.tasks: dict[str, Predictor] = {}
        for name, checkpoint in checkpoints:
            predictor = open_checkpoint(str(checkpoint))
            if len(checkpoints) > 1 and not isinstance(predictor.model, OnnxModel):
                self._share_backbone(predictor, f"checkpoint {checkpoint}")
            task = name or predictor.record.task
            if not task or task in self.tasks:
                problem = f"there is a task {task} already" if task else "it does not record the name of its task"
                raise InputError(
                    f"checkpoint {checkpoint}: {problem}: give it another, NAME={checkpoint} (in Python {{'NAME': "
                    "CHECKPOINT})"
                )
            self.tasks[task] = predictor

    def __repr__(self) -> str:
        return f"ManyTasks({', '.join(f'{name}={task!r}' for name, task in self.tasks.items())})"

    @property
    def names(self) -> list[str]:
        return list(self.tasks)

    def __getitem__(self, name: str) -> Predictor:
        """One task; its ``predict`` gives features and prompts too."""
        return self._select(name)[name]

    def _share_backbone(self, predictor: Predictor, what: str) -> None:
        """Give a model the backbone of the first one; raise InputError where it needs another."""
        cfg, reason = predictor.model.args, None
        if predictor.model.trains_encoder:
            trained = "--no-freeze-backbone" if cfg.no_freeze_backbone else f"--method {cfg.method}"
            reason = f"{trained} trains weights of the backbone, which cannot be shared with other tasks"
        elif predicts_words(cfg):
            reason = f"--predict-with {cfg.predict_with} shares no backbone with other tasks"
        first = next((each for each in self.tasks.values() if not isinstance(each.model, OnnxModel)), predictor)
        for (fact, own), shared in zip(shared_facts(predictor).items(), shared_facts(first).values()):
            if own != shared:
                reason = reason or f"its {fact}, {own}, is not that of the other tasks, {shared}"
        # A whole model brings its backbone with it, which --fp16 has rounded; the digest is that of the file.
        if cfg.save_full_model or first.model.args.save_full_model:
            weights = (each.model.encoder.sentence_encoder.state_dict().values() for each in (predictor, first))
            if not all(map(torch.equal, *weights)):
                reason = reason or "its checkpoint, or that of another task, holds other weights of the backbone"
        if reason:
            raise InputError(f"{what}: {reason}: load it alone")
        predictor.model.encoder = first.model.encoder  # frees the memory of the encoder that it replaces
        predictor.model.shared_weights = first.model.shared_weights  # the file whose changes are noticed

    def _select(self, names: str | Iterable[str] | None) -> dict[str, Predictor]:
        selected = dict.fromkeys(self.tasks if names is None else [names] if isinstance(names, str) else names)
        if not selected or selected.keys() - self.tasks.keys():
            known = ", ".join(self.tasks) or "none"
            raise InputError(f"tasks {', '.join(selected) or 'is empty'}: choose among {known}")
        return {name: self.tasks[name] for name in selected}

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
        selected, texts = self._select(tasks), as_list(texts)
        if not texts:
            return []

        readings = []
        for task, predictor in selected.items():
            try:
                readings.append(predictor.read(texts, name))
            except BadTexts as error:
                bad = {number: f"task {task}: {reason}" for number, reason in error.reasons.items()}
                raise BadTexts(bad, name) from None
        batches = in_batches(readings, batch_size, progress, **more)
        return [dict(zip(selected, answers, strict=True)) for answers in batches]


def shared_facts(predictor: Predictor) -> dict[str, Any]:
    """Return what tasks must have in common: the backbone, and the way from text to its ids."""
    return {
        "backbone": predictor.model.backbone_digest,
        **{name: getattr(predictor.model.args, name) for name in (*GEOMETRY, "max_positions")},
        "dictionary": symbols_fingerprint(predictor.text.dictionary),
        "encoder of text": predictor.text.encoder.fingerprint(),
    }
