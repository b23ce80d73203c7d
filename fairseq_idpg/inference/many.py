"""Several tasks on one backbone: each text is read once for all of them, and answered for each."""

import threading
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence

import torch
import torch.nn.functional as F
from fairseq.data import data_utils
from torch import Tensor
from tqdm import tqdm

from ..backbone.grouped import Group, GroupedPass
from ..backbone.injection import NO_ROOM, NOTHING, Room, States
from ..errors import InputError
from ..representations.kinds import GLOVE, canonical_kind, sentence_representation
from ..tasks.prompted_dataset import PromptedDataset
from .prediction import Prediction, Text
from .predictor import Input, Predictor, check_finite, check_list, numbered, whole_number
from .sharing import check_same_backbone, check_shares, share

Answers = Dict[str, Prediction]  # by the names of tasks
Item = Dict[str, Any]


class Reading(NamedTuple):
    """N texts as one task reads them; ``means``: N x w, M(x) of a task that reads word vectors."""

    task: str
    predictor: Predictor
    inputs: List[Input]
    examples: PromptedDataset
    means: Optional[Tensor]

    @property
    def kind(self) -> str:
        """What M(x) is computed for it; empty for none."""
        method = self.predictor.model.method
        kind = (None if method is None else method.representation) or GLOVE
        return "" if kind == GLOVE else canonical_kind(kind)


class Representations:
    """M(x) of texts, computed once for each kind and each sequence of tokens.

    Args:
        numbers: kind -> tokens -> number of their row.
        rows: kind -> U x d, or the ``States`` of U.
    """

    def __init__(self, numbers: Dict[str, Dict[bytes, int]], rows: Dict[str, Any]):
        self.numbers = numbers
        self.rows = rows

    def of(self, kind: str, texts: Sequence[Tensor]) -> Any:
        """n x d (or ``States``) of n texts of the kind."""
        rows, numbers = self.rows[kind], self.numbers[kind]
        if not isinstance(rows, States):
            return rows[torch.tensor([numbers[key(tokens)] for tokens in texts], device=rows.device)]
        index = torch.tensor([numbers[key(tokens)] for tokens in texts], device=rows.x.device)
        return States(rows.x[:, index], None if rows.padding is None else rows.padding[index])


def key(tokens: Tensor) -> bytes:
    """Equal for equal tokens."""
    return tokens.numpy().tobytes()


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
        self.first: Optional[Predictor] = None
        self.lock = threading.Lock()

    @property
    def names(self) -> List[str]:
        """Of the tasks, in the order in which they came."""
        return list(self.tasks)

    def __getitem__(self, name: str) -> Predictor:
        """One task; its ``predict`` gives features and prompts too."""
        return self._chosen([name])[name]

    def add(self, checkpoint: Any, name: Optional[str] = None) -> str:
        """Adds the task of a checkpoint, and returns its name: ``name``, or what the checkpoint records.

        Raises:
            InputError: see ``load``; there is a task of this name; the backbone is another, or is trained.
        """
        what = f"{self.option} {checkpoint}"
        predictor = self.open_checkpoint(str(checkpoint))
        found = name or predictor.record.task
        if not found:
            raise InputError(f"{what} does not record the name of its task: give it one, as in NAME={checkpoint}")
        check_shares(predictor, what)
        with self.lock:
            if found in self.tasks:
                raise InputError(
                    f"{what}: there is a task {found} already: give it another name, as in NAME={checkpoint}"
                )
            if self.first is not None:
                check_same_backbone(predictor, self.first, what)
                share(predictor, self.first.model.encoder)
            self.first = self.first or predictor
            self.tasks = {**self.tasks, found: predictor}
        return found

    def drop(self, name: str) -> None:
        """Forgets a task. The backbone stays.

        Raises:
            InputError: there is none of this name.
        """
        with self.lock:
            self._chosen([name])
            self.tasks = {task: predictor for task, predictor in self.tasks.items() if task != name}

    def _chosen(self, names: Optional[Iterable[str]]) -> Dict[str, Predictor]:
        tasks = self.tasks
        chosen = list(tasks) if names is None else [names] if isinstance(names, str) else list(dict.fromkeys(names))
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
        tasks: Optional[Iterable[str]] = None,
        batch_size: int = 64,
        progress: bool = False,
        name: Callable[[int], str] = numbered,
    ) -> List[Answers]:
        """For each text, in their order, a ``Prediction`` of each task by its name.

        Args:
            texts: sentences, or pairs of sentences, as the tasks were trained on.
            tasks: names of those that answer; default: all.
            batch_size: rows that are run together: texts for M(x), then texts times tasks.
            progress: show a bar on stderr.
            name: of an input by its number, counted from 0, for errors.

        Raises:
            InputError: an input is not what a task reads, or too long for it; a prediction is not finite; there is no
                such task; the backbone's file was written to.
        """
        batch_size = whole_number("batch_size", batch_size)
        chosen = self._chosen(tasks)
        check_list(texts)
        given = list(texts)
        if given == []:
            return []
        readings = [self._read(task, predictor, given, name) for task, predictor in chosen.items()]
        count = len(given)
        found: List[Answers] = [{} for _ in range(count)]
        order = readings[0].examples.ordered_indices().tolist()
        texts_in_pass = max(1, batch_size // len(readings))
        for start in tqdm(range(0, count, batch_size), unit="batch", disable=not progress):
            batch = order[start : start + batch_size]
            items = {reading.task: [reading.examples[i] for i in batch] for reading in readings}
            known = self._represent(readings, items, batch_size)
            for begin in range(0, len(batch), texts_in_pass):
                part = slice(begin, begin + texts_in_pass)
                rows = [items[reading.task][part] for reading in readings]
                for reading, logits in zip(readings, self._run(readings, rows, batch[part], known)):
                    for number, answer in zip(batch[part], self._answers(reading, logits, batch[part], name)):
                        found[number][reading.task] = answer
        self._first.model.check_backbone()
        return found

    def _read(self, task: str, predictor: Predictor, texts: Any, name: Callable[[int], str]) -> Reading:
        def of_task(number: int) -> str:
            return f"task {task}: {name(number)}"

        inputs = predictor.check(texts, of_task)
        return Reading(task, predictor, inputs, *predictor.examples(inputs, of_task))

    def _represent(self, readings: Sequence[Reading], items: Dict[str, List[Item]], size: int) -> Representations:
        """M(x) of a batch for all tasks."""
        numbers: Dict[str, Dict[bytes, int]] = {}
        texts: Dict[str, List[Tensor]] = {}
        for reading in readings:
            if not reading.kind:
                continue
            seen, unique = numbers.setdefault(reading.kind, {}), texts.setdefault(reading.kind, [])
            for tokens in texts_of(items[reading.task]):
                if seen.setdefault(key(tokens), len(seen)) == len(unique):
                    unique.append(tokens)
        return Representations(numbers, {kind: self._computed(kind, unique, size) for kind, unique in texts.items()})

    @torch.no_grad()
    def _computed(self, kind: str, texts: List[Tensor], size: int) -> Any:
        """U x d, or the ``States`` of U texts."""
        encoder = self._first.model.encoder
        tokens = data_utils.collate_tokens(texts, encoder.dictionary.pad())
        padded = bool(tokens.eq(encoder.dictionary.pad()).any())
        parts = [
            sentence_representation(encoder, some.to(self._first.device), kind=kind, padded=padded)
            for some in tokens.split(size)
        ]
        if not isinstance(parts[0], States):
            return torch.cat(parts)
        return States(torch.cat([p.x for p in parts], 1), torch.cat([p.padding for p in parts]) if padded else None)

    @property
    def _first(self) -> Predictor:
        assert self.first is not None
        return self.first

    @torch.no_grad()
    def _run(
        self, readings: Sequence[Reading], rows: Sequence[List[Item]], numbers: List[int], known: Representations
    ) -> List[Tensor]:
        """n x classes logits of each task for the same n texts, in one pass."""
        encoder, device = self._first.model.encoder, self._first.device
        pad = encoder.dictionary.pad()
        batches = [reading.examples.collater(items)["net_input"] for reading, items in zip(readings, rows)]
        read = [batch.get("prompted_tokens", batch["src_tokens"]) for batch in batches]
        longest = max(tokens.size(1) for tokens in read)
        tokens = torch.cat([F.pad(some, (0, longest - some.size(1)), value=pad) for some in read])
        padded = bool(tokens.eq(pad).any())
        groups = []
        for place, (reading, items, batch) in enumerate(zip(readings, rows, batches)):
            method, room, injection = reading.predictor.model.method, NO_ROOM, NOTHING
            if method is not None:
                if method.prompt_length:
                    offset, text = batch["prompt_offset"].to(device), batch["src_tokens"].to(device)
                    room = Room(offset, method.prompt_length, text)
                representation = known.of(reading.kind, texts_of(items)) if reading.kind else None
                if reading.means is not None:
                    embedding = encoder.sentence_encoder.embed_tokens.weight
                    representation = reading.means[numbers].to(device).type_as(embedding)
                injection = method.injection(representation)
            groups.append(Group(place * len(numbers), (place + 1) * len(numbers), injection, room))
        tokens = tokens.to(device)
        grouped = GroupedPass(encoder.sentence_encoder, tokens, groups)
        features, _ = encoder(
            tokens,
            features_only=True,
            token_embeddings=grouped.token_embeddings(),
            injection=grouped.injection(),
            padded=padded,
        )
        heads = (reading.predictor.head for reading in readings)
        return [head(features[group.begin : group.end]).float().cpu() for head, group in zip(heads, groups)]

    def _answers(
        self, reading: Reading, logits: Tensor, numbers: List[int], name: Callable[[int], str]
    ) -> List[Prediction]:
        predictor, inputs = reading.predictor, [reading.inputs[number] for number in numbers]
        check_finite(logits, numbers, lambda number: f"task {reading.task}: {name(number)}")
        answers = predictor.answers(logits, [given.labels for given in inputs])
        return [Prediction(text=given.text, **answer) for given, answer in zip(inputs, answers)]


def texts_of(items: Sequence[Item]) -> List[Tensor]:
    """The raw tokens of some examples."""
    return [item["net_input.src_tokens"] for item in items]
