"""A trained model that reads sentences."""

import functools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq import utils
from omegaconf import OmegaConf
from torch import Tensor
from tqdm import tqdm

from preprocess.readers import is_text
from preprocess.splits import EFL_DESCRIPTIONS, ENTAILED, NOT_ENTAILED
from preprocess.tasks import TASKS

from ..errors import InputError, ModelFault
from ..out_of_memory import refuse_batch
from ..saving.record import Record
from ..tasks.dataset import PromptedDataset
from ..tasks.template import Template
from .examples import text_examples
from .prediction import Prediction, Text
from .prompts import LayerRows, SeenRows, check_has_rows, prompt_rows
from .reading import check_filled
from .text import MeanVectors, TextEncoder
from .vocabulary import NearestWords, Vocabulary

ONE = {1: "a single sentence", 2: "a pair of sentences"}
MANY = {1: "single sentences", 2: "pairs of sentences"}


class Input(NamedTuple):
    """A text as it was given, the sentences that the model reads for it, and its classes in the order of the logits."""

    text: Text
    sentences: tuple[str, ...]
    labels: list[str]


class Description(NamedTuple):
    """What a model of EFL reads beside a sentence: it says whether the one entails the other.

    Attributes:
        text: the description of a class.
        entailed, other: the task's classes that the two answers mean.
    """

    text: str
    entailed: str
    other: str

    def labels(self, answers: list[str]) -> list[str]:
        """Return the classes that a model's own stand for."""
        return [self.entailed if answer == ENTAILED else self.other for answer in answers]


def find_description(record: Record) -> Description | None:
    """Return the description of a model of two classes; None for one whose answers are no entailment of such.

    ``--efl`` gives a class that has a description a pair for each sentence: one is enough for two classes.
    """
    if set(record.labels or ()) != {ENTAILED, NOT_ENTAILED} or record.task not in TASKS:
        return None
    descriptions, classes = EFL_DESCRIPTIONS.get(record.task, {}), TASKS[record.task].labels
    if len(descriptions) != 1 or len(classes) != 2:
        return None
    ((entailed, text),) = descriptions.items()
    return Description(text, entailed, next(label for label in classes if label != entailed))


def numbered(number: int) -> str:
    """Return the name of an input, for errors."""
    return f"input {number + 1}"


def check_list(texts: Any) -> None:
    """Raise InputError for one text, and for what would give the names of its fields or columns as texts."""
    if isinstance(texts, (str, bytes, Mapping)) or hasattr(texts, "columns"):
        raise InputError(f"predict takes a list of texts, not {texts!r:.60}: put it, or one of its columns, into one")


def copied(values: Tensor) -> Tensor:
    """float32 on the CPU, in memory of their own: a prompt may be the method's parameter, ``<s>`` one of all states."""
    return values.detach().to("cpu", torch.float32, copy=True)


class Reading(NamedTuple):
    """N texts as a model reads them.

    Attributes:
        examples: makes batches of them.
        means: N x w, M(x) of a model that reads word vectors.
        cut: N, whether a text was too long and lost its end.
        name: of an input by its number, counted from 0, for errors.
    """

    predictor: "Predictor"
    inputs: list[Input]
    examples: PromptedDataset
    means: Tensor | None
    cut: np.ndarray
    name: Callable[[int], str]

    def predictions(self, logits: Tensor, numbers: list[int]) -> list[Prediction]:
        """Return what B x classes logits, or B x 1 scores, say of the inputs with these B numbers.

        Raises:
            ModelFault: one is not finite.
        """
        record, inputs, cut = self.predictor.record, [self.inputs[i] for i in numbers], self.cut[numbers].tolist()
        if record.regression:
            logits = logits * (record.scale or 1.0)  # in the task's own scale
        wrong = (~logits.isfinite().all(1)).nonzero().flatten().tolist()
        if wrong:
            raise ModelFault(f"the prediction of {self.name(numbers[wrong[0]])} is not finite: give another checkpoint")
        if record.regression:
            return [Prediction(i.text, score=score, cut=c) for i, score, c in zip(inputs, logits[:, 0].tolist(), cut)]
        answers = zip(inputs, logits.argmax(1).tolist(), logits.softmax(1).tolist(), cut)
        return [
            Prediction(given.text, given.labels[best], dict(zip(given.labels, row)), cut=c)
            for given, best, row, c in answers
        ]


class Predictor:
    """A model in evaluation mode, and what its text was encoded with. Several threads may use one.

    Nothing of torch's global state is changed. That texts were cut is logged as a warning.

    Args:
        model: ``roberta_idpg``, its method merged where it can be.
        task: its ``cfg`` are the options, which do not change any more.
        record: of the checkpoint.
        text: the checkpoint's own way from text to ids.
        means: M(x) of a method that reads word vectors.
        template: what texts are put into, if the model predicts words.
    """

    def __init__(
        self,
        model: Any,
        task: Any,
        record: Record,
        text: TextEncoder,
        means: MeanVectors | None = None,
        template: Template | None = None,
    ):
        self.model = model
        self.task = task
        options: Any = OmegaConf.to_container(task.cfg, resolve=True)  # which are read faster than OmegaConf's
        self.options = SimpleNamespace(**options)
        self.record = record
        self.text = text
        self.means = means
        self.template = template
        self.description = find_description(record)

    @property
    def labels(self) -> list[str]:
        """The classes in the order of the logits; empty for scores."""
        return list(self.record.labels or [])

    @property
    def head(self) -> Any:
        """The classification head: B x T x d features -> B x classes logits."""
        return self.model.classification_heads[self.options.classification_head_name]

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def predict(
        self,
        texts: Iterable[Text],
        batch_size: int = 64,
        features: bool = False,
        prompts: bool = False,
        words: int = 5,
        progress: bool = False,
        name: Callable[[int], str] = numbered,
    ) -> list[Prediction]:
        """Return a ``Prediction`` for each text, in the order of the texts, whatever the batches are.

        A model of EFL takes sentences, whose classes it then gives, or pairs, of which it says what it was trained on.

        Args:
            texts: sentences, or pairs of sentences, as the model was trained on.
            batch_size: inputs of similar length that are run together.
            features: give the last state of ``<s>`` too.
            prompts: give the prompt rows that each input gets at every layer too, with their ``words`` nearest words.
            progress: show a bar on stderr.
            name: of an input by its number, counted from 0, for errors.

        Raises:
            InputError: an input is not what the model reads, or too long for it; a prediction is not finite; a batch
                does not fit into memory; the backbone's file was written to; the model is in training mode.
        """
        if prompts:
            check_has_rows(self.model)
        reading = self.read(texts, name)
        if reading is None:
            return []
        predictions: dict[int, Prediction] = {}
        order = reading.examples.ordered_indices().tolist()
        for start in tqdm(range(0, len(order), batch_size), unit="batch", disable=not progress):
            batch = order[start : start + batch_size]
            net_input = reading.examples.collater([reading.examples[i] for i in batch])["net_input"]
            if reading.means is not None:
                net_input["representation"] = reading.means[batch]
            logits, states, rows = self.run(net_input, features, prompts)
            found = reading.predictions(logits, batch)
            if states is not None:
                found = [replace(each, features=state) for each, state in zip(found, states)]
            if prompts:
                seen = (prompt_rows(rows, place, self.nearest, words) for place in range(len(batch)))
                found = [replace(each, prompts=of_input) for each, of_input in zip(found, seen)]
            predictions.update(zip(batch, found))
        self.model.check_backbone()
        return [predictions[number] for number in range(len(order))]

    def read(self, texts: Iterable[Text], name: Callable[[int], str] = numbered) -> Reading | None:
        """Return the texts as the model reads them; None for no texts.

        Raises:
            InputError: see ``check``; one is too long; the model is in training mode.
        """
        if self.model.training or self.model.encoder.training:  # the backbone may be shared with other tasks
            raise InputError("the model is in training mode, where dropout changes answers: call its eval() first")
        inputs = self.check(texts, name)
        if not inputs:
            return None
        parts, cut = zip(*(self.text.beginnings(part) for part in zip(*(each.sentences for each in inputs))))
        length, dictionary = self.model.prompt_length, self.text.dictionary
        examples = text_examples(self.options, dictionary, parts, length, name, True, self.template)
        means = None if self.means is None else self.means.rows(parts)
        was_cut = np.logical_or.reduce([*cut, examples.places.shorten.cut])
        return Reading(self, inputs, examples, means, was_cut, name)

    def check(self, texts: Iterable[Text], name: Callable[[int], str] = numbered) -> list[Input]:
        """Return each text as the model reads it.

        Raises:
            InputError: one is empty, or of another kind than the model's.
        """
        check_list(texts)
        wanted, labels, described = 2 if self.record.pairs else 1, self.labels, self.description
        inputs = []
        for number, text in enumerate(texts):
            sentences = tuple(text) if isinstance(text, (tuple, list)) else (text,)
            if not all(map(is_text, sentences)):  # the keys of a mapping would be read for its texts
                raise InputError(f"{name(number)} is not text: {text!r:.60}: give a string, or a pair of strings")
            try:
                check_filled(text)
            except ValueError as error:
                raise InputError(f"{name(number)}: {error}: give text") from None
            if described is not None and len(sentences) == 1:
                inputs.append(Input(text, (*sentences, described.text), described.labels(labels)))
                continue
            if len(sentences) != wanted:
                kind = ONE.get(len(sentences), f"{len(sentences)} sentences")
                raise InputError(
                    f"{name(number)} is {kind}, and this model was trained on {MANY[wanted]}: give {ONE[wanted]}"
                )
            inputs.append(Input(text, sentences, labels))
        return inputs

    def batch_of(self, tokens: Tensor) -> AbstractContextManager[None]:
        """Around a pass over B x T tokens, see ``refuse_batch``."""
        return refuse_batch(tokens, "give a smaller `batch_size`")

    @torch.no_grad()
    def run(
        self, net_input: dict[str, Any], features: bool = False, prompts: bool = False
    ) -> tuple[Tensor, Tensor | None, list[LayerRows]]:
        """Return B x classes logits of a batch, on request B x d last states of ``<s>`` and B x t x d prompt rows."""
        seen = SeenRows()
        with self.batch_of(net_input["src_tokens"]):
            logits, extra = self.model(
                **utils.apply_to_sample(lambda tensor: tensor.to(self.device), net_input),
                features_only=True,
                classification_head_name=self.options.classification_head_name,
                return_all_hiddens=features,
                inspect=seen if prompts else None,
            )
        states = copied(extra["inner_states"][-1][0]) if features else None
        rows = [(layer, copied(of_layer.expand(len(logits), -1, -1))) for layer, of_layer in seen]
        return logits.float().cpu(), states, rows

    @functools.cached_property
    def nearest(self) -> NearestWords:
        """The word embeddings of the backbone, for the words that prompt rows resemble."""
        vocabulary = Vocabulary(self.text.dictionary, self.text.encoder, self.text.encoder.dictionary)
        embeddings = self.model.encoder.sentence_encoder.embed_tokens.weight.detach()
        return NearestWords(vocabulary, embeddings.float().cpu())
