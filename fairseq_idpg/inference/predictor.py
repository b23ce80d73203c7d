"""A trained model that reads sentences."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq import utils
from omegaconf import OmegaConf
from torch import Tensor
from tqdm import tqdm

from preprocess.readers import is_text

from ..errors import InputError, ModelFault
from ..out_of_memory import refuse_batch
from ..saving.record import Record
from ..tasks.dataset import PromptedDataset
from ..tasks.template import Template
from .entailment import find_description
from .examples import text_examples
from .glove import MeanVectors
from .prediction import Prediction, Text
from .prompts import LayerRows, SeenRows, check_has_rows, prompt_rows
from .reading import check_filled
from .text import TextEncoder
from .values import check_switches, spelled, whole_number
from .vocabulary import NearestWords, Vocabulary

ONE = {1: "a single sentence", 2: "a pair of sentences"}
MANY = {1: "single sentences", 2: "pairs of sentences"}


class Input(NamedTuple):
    """A text as it was given, the sentences that the model reads for it, and its classes in the order of the logits."""

    text: Text
    sentences: tuple[str, ...]
    labels: list[str]


def numbered(number: int) -> str:
    """The name of an input, for errors."""
    return f"input {number + 1}"


def check_list(texts: Any) -> None:
    """Raises InputError for one text, and for what would give the names of its fields or columns as texts."""
    if isinstance(texts, (str, bytes, Mapping)) or hasattr(texts, "columns") or not isinstance(texts, Iterable):
        raise InputError(f"predict takes a list of texts, not {texts!r:.60}: put it, or one of its columns, into one")


def check_finite(logits: Tensor, numbers: Sequence[int], name: Callable[[int], str]) -> None:
    """Raises ModelFault where B x classes logits or scores, of the inputs with these numbers, are not finite."""
    wrong = (~logits.isfinite().all(1)).nonzero().flatten().tolist()
    if wrong:
        raise ModelFault(f"the prediction of {name(numbers[wrong[0]])} is not finite: give another checkpoint")


def copied(values: Tensor) -> Tensor:
    """float32 on the CPU, in memory of their own: a prompt may be the method's parameter, ``<s>`` one of all states."""
    return values.detach().to("cpu", torch.float32, copy=True)


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
        option: what named the checkpoint, for errors.
    """

    def __init__(
        self,
        model: Any,
        task: Any,
        record: Record,
        text: TextEncoder,
        means: MeanVectors | None = None,
        template: Template | None = None,
        option: str = "checkpoint",
    ):
        self.model = model
        self.task = task
        options: Any = OmegaConf.to_container(task.cfg, resolve=True)  # which are read faster than OmegaConf's
        self.options = SimpleNamespace(**options)
        self.record = record
        self.text = text
        self.means = means
        self.template = template
        self.option = option
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

    def batch_of(self, tokens: Tensor) -> AbstractContextManager[None]:
        """Around a pass over B x T tokens, see ``refuse_batch``."""
        return refuse_batch(tokens, f"give a smaller {spelled('batch_size', self.option)}")

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
        """A ``Prediction`` for each text, in the order of the texts, whatever the batches are.

        A model of EFL takes sentences, whose classes it then gives, or pairs, of which it says what it was trained on.

        Args:
            texts: sentences, or pairs of sentences, as the model was trained on.
            batch_size: inputs of similar length that are run together.
            features: give the last state of ``<s>`` too.
            prompts: give the prompt rows that each input gets at every layer too, with their ``words`` nearest words.
            progress: show a bar on stderr.
            name: of an input by its number, counted from 0, for errors.

        Raises:
            InputError: an input is not what the model reads, or too long for it; a number or a switch is none; a
                prediction is not finite; a batch does not fit into memory; the backbone's file was written to; the
                model is in training mode.
        """
        check_switches(features=features, prompts=prompts, progress=progress)
        batch_size, words = whole_number("batch_size", batch_size), whole_number("words", words)
        self.check_mode()
        if prompts:
            check_has_rows(self.model)
        inputs = self.check(texts, name)
        if not inputs:
            return []
        examples, means, cut = self.examples(inputs, name)
        order = examples.ordered_indices().tolist()
        predictions: dict[int, Prediction] = {}
        for start in tqdm(range(0, len(order), batch_size), unit="batch", disable=not progress):
            batch = order[start : start + batch_size]
            net_input = examples.collater([examples[i] for i in batch])["net_input"]
            if means is not None:
                net_input["representation"] = means[batch]
            logits, states, rows = self.run(net_input, features, prompts)
            check_finite(self.in_scale(logits), batch, name)
            answers = self.answers(logits, [inputs[number].labels for number in batch])
            for place, (number, answer) in enumerate(zip(batch, answers)):
                predictions[number] = Prediction(
                    text=inputs[number].text,
                    **answer,
                    cut=bool(cut[number]),
                    features=None if states is None else states[place],
                    prompts=prompt_rows(rows, place, self.nearest, words) if prompts else None,
                )
        self.model.check_backbone()
        return [predictions[number] for number in range(len(inputs))]

    def check_mode(self) -> None:
        """Raises InputError where the model draws dropout: in training mode, or its backbone, which may be shared."""
        if self.model.training or self.model.encoder.training:
            raise InputError("the model is in training mode, where dropout changes answers: call its eval() first")

    def check(self, texts: Iterable[Text], name: Callable[[int], str] = numbered) -> list[Input]:
        """Each text as the model reads it.

        Raises:
            InputError: one is not text, is empty, or is of another kind than the model's.
        """
        check_list(texts)
        wanted, labels, described = 2 if self.record.pairs else 1, self.labels, self.description
        inputs = []
        for number, text in enumerate(texts):
            sentences = tuple(text) if isinstance(text, (tuple, list)) else (text,)
            if not all(map(is_text, sentences)):
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

    def examples(
        self, inputs: Sequence[Input], name: Callable[[int], str] = numbered
    ) -> tuple[PromptedDataset, Tensor | None, np.ndarray]:
        """N checked inputs, at least one, made into examples.

        Returns:
            The data set that makes batches of them; M(x), N x w, of a model that reads word vectors, else None; N,
            whether an input was too long and lost its end.
        """
        parts, cut = zip(*(self.text.beginnings(part) for part in zip(*(each.sentences for each in inputs))))
        length, cut_by = self.model.prompt_length, spelled("truncate", self.option)
        examples = text_examples(self.options, self.text.dictionary, parts, length, name, cut_by, self.template)
        means = None if self.means is None else self.means.rows(parts)
        return examples, means, np.logical_or.reduce([*cut, examples.places.shorten.cut])

    @torch.no_grad()
    def run(
        self, net_input: dict[str, Any], features: bool = False, prompts: bool = False
    ) -> tuple[Tensor, Tensor | None, list[LayerRows]]:
        """Batch -> B x classes logits, on request B x d last states of ``<s>`` and B x t x d prompt rows by layer."""
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

    def in_scale(self, logits: Tensor) -> Tensor:
        """B x 1 scores in the task's own scale; the logits of classes as they are."""
        return logits * (self.record.scale or 1.0) if self.record.regression else logits

    def answers(self, logits: Tensor, labels: Sequence[list[str]]) -> Iterator[dict[str, Any]]:
        """Label and probabilities, or the score in the task's own scale, for each row of B x classes logits.

        Args:
            labels: B, the classes of each row in the order of its logits.
        """
        if self.record.regression:
            yield from ({"score": score} for score in self.in_scale(logits)[:, 0].tolist())
            return
        for best, row, names in zip(logits.argmax(1).tolist(), logits.softmax(1).tolist(), labels):
            yield {"label": names[best], "probabilities": dict(zip(names, row))}

    @functools.cached_property
    def nearest(self) -> NearestWords:
        """The word embeddings of the backbone, for the words that prompt rows resemble."""
        vocabulary = Vocabulary(self.text.dictionary, self.text.encoder, self.text.encoder.dictionary)
        embeddings = self.model.encoder.sentence_encoder.embed_tokens.weight.detach()
        return NearestWords(vocabulary, embeddings.float().cpu())
