"""Several tasks on one backbone: each text is read once for all of them, and answered for each.

M(x) of a batch is computed once for each kind that a method reads. Then the batch goes through the backbone once for
all tasks, as many texts at a time as there is room for: each row gets what its own method injects.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.data import data_utils
from torch import Tensor
from tqdm import tqdm

from ..backbone.grouped import Group, GroupedPass
from ..backbone.injection import NO_ROOM, NOTHING, Room, States
from ..backbone.weights import GEOMETRY
from ..errors import InputError
from ..models.config import predicts_words
from ..representations.kinds import canonical_kind, sentence_representation
from ..saving.record import symbols_fingerprint
from .prediction import Prediction, Text
from .predictor import Predictor, Reading, check_list, numbered

Answers = dict[str, Prediction]  # by the names of tasks
Item = dict[str, Any]


class ManyTasks:
    """Trained models that share one backbone, each with its own method, head, prompt length, position and labels.

    Tasks may be added and dropped while threads predict: a prediction has the tasks of its beginning.

    Args:
        open_checkpoint: reads a checkpoint, its method not merged into the backbone.
    """

    def __init__(self, open_checkpoint: Callable[[str], Predictor]):
        self.open_checkpoint = open_checkpoint
        self.tasks: Mapping[str, Predictor] = {}
        self.first: Predictor | None = None
        self.lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        """Of the tasks, in the order in which they came."""
        return list(self.tasks)

    def __getitem__(self, name: str) -> Predictor:
        """One task; its ``predict`` gives features and prompts too."""
        return self._chosen(name)[name]

    def add(self, checkpoint: Any, name: str | None = None) -> str:
        """Add the task of a checkpoint, and return its name: ``name``, or what the checkpoint records.

        Raises:
            InputError: see ``load``; the name is missing, or that of another task; the backbone is another, or is
                trained.
        """
        what = f"checkpoint {checkpoint}"
        predictor = self.open_checkpoint(str(checkpoint))
        task = name or predictor.record.task
        check_shares(predictor, what)
        with self.lock:
            if not task or task in self.tasks:
                problem = f"there is a task {task} already" if task else "it does not record the name of its task"
                raise InputError(
                    f"{what}: {problem}: give it another, NAME={checkpoint} (in Python {{'NAME': CHECKPOINT}})"
                )
            if self.first is not None:
                check_same_backbone(predictor, self.first, what)
                predictor.model.encoder = self.first.model.encoder  # the memory of its own is free then
            self.first = self.first or predictor
            self.tasks = {**self.tasks, task: predictor}
        return task

    def drop(self, name: str) -> None:
        """Forget a task. The backbone stays.

        Raises:
            InputError: there is none of this name.
        """
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
    ) -> list[Answers]:
        """Return for each text, in their order, a ``Prediction`` of each task by its name.

        Args:
            texts: sentences, or pairs of sentences, as the tasks were trained on.
            tasks: names of those that answer; default: all.
            batch_size: rows that are run together: texts for M(x), then texts times tasks.
            progress: show a bar on stderr.
            name: of an input by its number, counted from 0, for errors.

        Raises:
            InputError: see ``Predictor.predict``; there is no such task.
        """
        chosen = self._chosen(tasks)
        check_list(texts)
        texts = list(texts)
        readings = {task: each for task, predictor in chosen.items() if (each := read(task, predictor, texts, name))}
        if not readings:
            return []
        answers: dict[int, Answers] = {}
        of_tasks, texts_in_pass = [*readings.values()], max(1, batch_size // len(readings))
        order = of_tasks[0].examples.ordered_indices().tolist()
        for start in tqdm(range(0, len(texts), batch_size), unit="batch", disable=not progress):
            batch = order[start : start + batch_size]
            items = [[reading.examples[i] for i in batch] for reading in of_tasks]
            known = representations(of_tasks, items, batch)
            for begin in range(0, len(batch), texts_in_pass):
                part = slice(begin, begin + texts_in_pass)
                logits = joint_logits(of_tasks, [some[part] for some in items], [rows_of(m, part) for m in known])
                for task, of_task in zip(readings, logits):
                    for number, found in zip(batch[part], readings[task].predictions(of_task, batch[part])):
                        answers.setdefault(number, {})[task] = found
        of_tasks[0].predictor.model.check_backbone()
        return [answers[number] for number in range(len(texts))]


def read(task: str, predictor: Predictor, texts: list[Text], name: Callable[[int], str]) -> Reading | None:
    """Return the texts as a task reads them, which errors name."""
    return predictor.read(texts, lambda number: f"task {task}: {name(number)}")


# --- passes through the shared backbone ----------------------------------------------------------


@torch.no_grad()
def representations(readings: Sequence[Reading], items: Sequence[list[Item]], numbers: list[int]) -> list[Any]:
    """Return M(x) of n texts for each task: n x w, the ``States`` of n texts, or None for a method that reads none.

    Tasks that read the same kind of the same tokens share it.

    Args:
        items: the examples of each task.
        numbers: n, of the texts.
    """
    known: dict[tuple[str, bytes], Any] = {}

    def represent(reading: Reading, texts: list[Item]) -> Any:
        predictor, encoder = reading.predictor, reading.predictor.model.encoder
        method = predictor.model.method
        if method is None or method.representation is None:
            return None
        if reading.means is not None:
            return reading.means[numbers].to(predictor.device).type_as(encoder.sentence_encoder.embed_tokens.weight)
        tokens = data_utils.collate_tokens([item["net_input.src_tokens"] for item in texts], encoder.dictionary.pad())
        kind = canonical_kind(method.representation)
        key = kind, tokens.numpy().tobytes()
        if key not in known:
            padded = bool(tokens.eq(encoder.dictionary.pad()).any())
            with predictor.batch_of(tokens):
                on_device = tokens.to(predictor.device)
                known[key] = sentence_representation(encoder, on_device, kind=kind, padded=padded)
        return known[key]

    return [represent(reading, texts) for reading, texts in zip(readings, items)]


def rows_of(m_of_x: Any, part: slice) -> Any:
    """Return M(x) of some of the texts."""
    if isinstance(m_of_x, States):
        return States(m_of_x.x[:, part], None if m_of_x.padding is None else m_of_x.padding[part])
    return None if m_of_x is None else m_of_x[part]


@torch.no_grad()
def joint_logits(readings: Sequence[Reading], items: Sequence[list[Item]], known: Sequence[Any]) -> list[Tensor]:
    """Return n x classes logits of each task for the same n texts, which go through the backbone together.

    Args:
        items: the n examples of each task.
        known: M(x) of these texts for each task.
    """
    owner = readings[0].predictor
    encoder, device, pad = owner.model.encoder, owner.device, owner.model.encoder.dictionary.pad()
    groups: list[Group] = []
    tokens: list[Tensor] = []
    for reading, of_task, m_of_x in zip(readings, items, known):
        model, batch = reading.predictor.model, reading.examples.collater(of_task)["net_input"]
        begin, room = len(groups) * len(of_task), NO_ROOM
        if model.prompt_length:  # where the task has made room for its prompt
            room = Room(batch["prompt_offset"].to(device), model.prompt_length, batch["src_tokens"].to(device))
        injection = NOTHING if model.method is None else model.method.injection(m_of_x)
        groups.append(Group(begin, begin + len(of_task), injection, room))
        tokens.append(batch.get("prompted_tokens", batch["src_tokens"]))
    longest = max(of_task.size(1) for of_task in tokens)
    together = torch.cat([F.pad(of_task, (0, longest - of_task.size(1)), value=pad) for of_task in tokens])
    padded = bool(together.eq(pad).any())
    together = together.to(device)
    grouped = GroupedPass(encoder.sentence_encoder, together, groups)
    with owner.batch_of(together):
        features, _ = encoder(
            together,
            features_only=True,
            token_embeddings=grouped.token_embeddings(),
            injection=grouped.injection(),
            padded=padded,
        )
    heads = (reading.predictor.head for reading in readings)
    return [head(features[group.begin : group.end]).float().cpu() for head, group in zip(heads, groups)]


# --- what tasks may share ------------------------------------------------------------------------


def check_shares(predictor: Predictor, what: str) -> None:
    """Raise InputError for a model that needs weights of the backbone, or a head of it, for itself."""
    cfg, reason = predictor.model.args, None
    if predictor.model.trains_encoder:
        trained = "--no-freeze-backbone" if cfg.no_freeze_backbone else f"--method {cfg.method}"
        reason = f"{trained} trains weights of the backbone, which cannot be shared with other tasks"
    elif predicts_words(cfg):
        reason = f"--predict-with {cfg.predict_with} shares no backbone with other tasks"
    if reason:
        raise InputError(f"{what}: {reason}: load it alone")


def check_same_backbone(predictor: Predictor, first: Predictor, what: str) -> None:
    """Raise InputError where the backbone, or the way from text to its ids, is not that of the ``first`` task."""

    def facts(of: Predictor) -> dict[str, Any]:
        return {
            "backbone": of.model.backbone_digest,
            **{name: getattr(of.model.args, name) for name in (*GEOMETRY, "max_positions")},
            "dictionary": symbols_fingerprint(of.text.dictionary),
            "encoder of text": of.text.encoder.fingerprint(),
        }

    other = facts(first)
    for name, own in facts(predictor).items():
        if own != other[name]:
            raise InputError(f"{what}: its {name}, {own}, is not that of the other tasks, {other[name]}: load it alone")
