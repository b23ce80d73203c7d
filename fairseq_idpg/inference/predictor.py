"""A trained model that reads sentences."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.criterions.sentence_prediction import pearson_and_spearman
from fairseq.data import ConcatSentencesDataset, ListDataset, PrependTokenDataset
from omegaconf import OmegaConf
from torch import Tensor
from tqdm import tqdm

from preprocess.readers import is_text, label_text
from preprocess.split_scores import acc_and_macro_f1
from preprocess.splits import EFL_DESCRIPTIONS, ENTAILED, NOT_ENTAILED
from preprocess.tasks import TASKS

from ..errors import InputError, ModelFault, refused
from ..out_of_memory import refuse_batch
from ..representations.kinds import GLOVE, canonical_kind, pass_representation
from ..saving.record import Record, listed
from ..tasks.dataset import PromptedDataset, by_length, place_prompts, unlabelled
from ..tasks.positions import prompt_block, text_room
from ..tasks.template import Template, in_places
from .files import Prediction, Text, check_filled
from .prompts import NearestWords, SeenRows, Vocabulary, check_has_rows, prompt_rows
from .text import MeanVectors, TextEncoder

ONE = {1: "a single sentence", 2: "a pair of sentences"}


class Input(NamedTuple):
    """A text, the sentences that the model reads for it, and its classes in the order of the logits."""

    text: Text
    sentences: tuple[str, ...]
    labels: list[str]


class Description(NamedTuple):
    """The text that an EFL model reads beside a sentence, and the task's class for each of its two answers."""

    text: str
    labels: list[str]


def find_description(record: Record) -> Description | None:
    """Return the description that a model of EFL for two classes was trained with; None for other models."""
    # --efl pairs each sentence with the description of each class that has one. For two classes one is enough.
    answers, descriptions = record.labels or [], EFL_DESCRIPTIONS.get(record.task or "", {})
    if set(answers) != {ENTAILED, NOT_ENTAILED} or len(descriptions) != 1:
        return None
    ((entailed, text),) = descriptions.items()
    others = [label for label in TASKS[str(record.task)].labels if label != entailed]
    if len(others) != 1:
        return None
    return Description(text, [entailed if answer == ENTAILED else others[0] for answer in answers])


def numbered(number: int) -> str:
    """Return the name of an input, for errors."""
    return f"input {number + 1}"


def as_list(texts: Iterable[Text]) -> list[Text]:
    """Return a list; raise InputError for one text, and for a table, which would give the names of its columns."""
    if isinstance(texts, (str, bytes, Mapping)) or hasattr(texts, "columns"):
        raise InputError(f"predict takes a list of texts, not {texts!r:.60}: put it, or one of its columns, into one")
    return list(texts)


def copied(values: Tensor) -> Tensor:
    """Return a copy in float32 on the CPU: a prompt may be a parameter, and ``<s>`` lies among all states."""
    return values.detach().to("cpu", torch.float32, copy=True)


class BadTexts(InputError):
    """Texts that a model cannot read: ``reasons`` by number of the text. The message names the first and its reason."""

    def __init__(self, reasons: dict[int, str], name: Callable[[int], str]):
        self.reasons = reasons
        first = min(reasons)
        super().__init__(f"{name(first)}: {reasons[first]}")


class Reading(NamedTuple):
    """N texts as a model reads them."""

    predictor: "Predictor"
    inputs: list[Input]
    examples: PromptedDataset
    means: Tensor | None  # N x w, M(x) of a model that reads word vectors
    cut: np.ndarray  # N, whether a text was too long and lost its end
    name: Callable[[int], str]  # of an input by its number, counted from 0, for errors

    @torch.no_grad()
    def answers(
        self,
        numbers: list[int],
        shared: dict[Any, Any] | None,
        features: bool = False,
        prompts: bool = False,
        words: int = 5,
    ) -> list[Prediction]:
        """Return what the model says of the texts ``numbers``.

        ``shared``: M(x) that other tasks have computed of this batch, by kind and tokens; None for one task.
        """
        predictor, model, scores = self.predictor, self.predictor.model, self.predictor.record.regression
        net_input = self.examples.collater([self.examples[i] for i in numbers])["net_input"]
        if self.means is not None:
            net_input["representation"] = self.means[numbers]
        tokens, seen = net_input["src_tokens"], SeenRows()
        with refuse_batch(tokens, "give a smaller `batch_size`"):
            device = predictor.device  # asked for once: it searches all modules
            net_input = {key: v.to(device) if isinstance(v, Tensor) else v for key, v in net_input.items()}
            # tasks on one backbone that read the same tokens have the same M(x)
            kind = None if model.method is None else model.method.representation
            if shared is not None and kind not in (None, GLOVE):
                key = canonical_kind(kind), tokens.numpy().tobytes()
                if key not in shared:
                    shared[key] = pass_representation(model, net_input["src_tokens"], padded=net_input["padded"])
                net_input["representation"] = shared[key]
            logits, extra = model(
                **net_input,
                features_only=True,
                classification_head_name=predictor.options.classification_head_name,
                return_all_hiddens=features,
                inspect=seen if prompts else None,
            )
        states = copied(extra["inner_states"][-1][0]) if features else None
        rows = [(layer, copied(of_layer.expand(len(logits), -1, -1))) for layer, of_layer in seen]

        # Scores are on the task's own scale, not on that of the training.
        logits = logits.float().cpu() * ((predictor.record.scale or 1.0) if scores else 1.0)
        infinite = (~logits.isfinite().all(1)).nonzero().flatten().tolist()
        if infinite:
            name = self.name(numbers[infinite[0]])
            raise ModelFault(f"the prediction of {name} is not finite: give another checkpoint")
        best, values = logits.argmax(1).tolist(), (logits if scores else logits.softmax(1)).tolist()
        predictions = []
        for place, number in enumerate(numbers):
            text, _, labels = self.inputs[number]
            answer: dict[str, Any] = {"score": values[place][0]}
            if not scores:
                answer = {"label": labels[best[place]], "probabilities": dict(zip(labels, values[place]))}
            if states is not None:
                answer["features"] = states[place]
            if prompts:
                answer["prompts"] = prompt_rows(rows, place, predictor.nearest, words)
            predictions.append(Prediction(text, cut=bool(self.cut[number]), **answer))
        return predictions


def in_batches(readings: Sequence[Reading], batch_size: int, progress: bool, **more: Any) -> list[list[Prediction]]:
    """Return for each text the answers of the models, which share a backbone; ``more``: to ``Reading.answers``."""
    if more.get("prompts"):
        for reading in readings:
            check_has_rows(reading.predictor.model)
    answers: list[list[Prediction]] = [[] for _ in readings[0].inputs]
    order = readings[0].examples.ordered_indices().tolist()
    starts: Iterable[int] = range(0, len(order), batch_size)
    for start in tqdm(starts, unit="batch") if progress else starts:
        batch = order[start : start + batch_size]
        shared: dict[Any, Any] | None = {} if len(readings) > 1 else None
        for reading in readings:
            for number, prediction in zip(batch, reading.answers(batch, shared, **more)):
                answers[number].append(prediction)
    for reading in readings:
        reading.predictor.model.check_backbone()
    return answers


@dataclass(eq=False, repr=False)
class Predictor:
    """A model in evaluation mode, and what its text was encoded with. Several threads may use one."""

    model: Any
    task: Any  # its ``cfg`` are the options, which do not change any more
    record: Record
    text: TextEncoder
    means: MeanVectors | None = None  # M(x) of a method that reads word vectors
    template: Template | None = None  # what texts are put into, if the model predicts words
    if_too_long: str = "shorten it, or let texts be cut at their ends with `truncate`"

    def __post_init__(self) -> None:
        options: Any = OmegaConf.to_container(self.task.cfg, resolve=True)  # read faster than OmegaConf's objects
        self.options = SimpleNamespace(**options)
        self.description = find_description(self.record)

    @property
    def labels(self) -> list[str]:
        """The classes in the order of the logits; empty for scores."""
        return list(self.record.labels or [])

    def __repr__(self) -> str:
        method, classes = self.model.args.method, "scores" if self.record.regression else listed(self.labels)
        return f"Predictor(method={method}, labels={classes}, backbone={self.model.args.backbone})"

    @property
    def head(self) -> Any:
        """The classification head: B x T x d features -> B x classes logits."""
        return self.model.classification_heads[self.options.classification_head_name]

    @property
    def device(self) -> torch.device:
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

        A model of EFL takes sentences, and gives their classes; or pairs, and gives the labels that it was trained on.

        Args:
            texts: sentences, or pairs of sentences, as the model was trained on.
            batch_size: inputs of similar length that are run together.
            features: give the last state of ``<s>`` too.
            prompts: give the prompt rows that each input gets at every layer too, with their ``words`` nearest words.
            progress: show a bar on stderr.
            name: of an input by its number, counted from 0, for errors.

        Raise InputError where an input is too long, or not what the model reads; a prediction is not finite; a batch
        does not fit into memory; the backbone's file was written to; or the model is in training mode.
        """
        texts = as_list(texts)
        if not texts:
            return []
        more = {"features": features, "prompts": prompts, "words": words}
        # each text has the answers of a list of models, here of one
        return [answer for (answer,) in in_batches([self.read(texts, name)], batch_size, progress, **more)]

    def evaluate(self, texts: Iterable[Text], labels: Iterable[Any], batch_size: int = 64) -> dict[str, float]:
        """Return accuracy and macro F1 of the model's answers, both from 0 to 1; for scores both correlations."""
        answers = self.predict(texts, batch_size)
        targets = [each.item() if isinstance(each, np.generic) else each for each in labels]
        if not answers or len(answers) != len(targets):
            raise refused("labels", f"has {len(targets)} labels for {len(answers)} texts: give one for each text")
        if self.record.regression:
            correlations = pearson_and_spearman([answer.score for answer in answers], targets)
            return {"pearson": float(correlations["pearson"]), "spearman": float(correlations["spearmanr"])}
        known, names = list(answers[0].probabilities or ()), list(map(label_text, targets))
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            raise refused("labels", f"has {unknown!r:.60}: give labels of {', '.join(known)}")
        said, wanted = ([known.index(str(name)) for name in of] for of in ([a.label for a in answers], names))
        scores = acc_and_macro_f1(np.array(said), np.array(wanted))
        return {name: scores[name] for name in ("accuracy", "macro_f1")}

    def read(self, texts: list[Text], name: Callable[[int], str]) -> Reading:
        """Return the texts, one or more, as the model reads them; raise InputError where it does not."""
        if self.model.training or self.model.encoder.training:  # the backbone may be shared with other tasks
            raise InputError("the model is in training mode, where dropout changes answers: call its eval() first")
        inputs = self.check(texts, name)
        # All first sentences are encoded together, and so are all second ones.
        parts, cut = zip(*map(self.text.beginnings, zip(*(each.sentences for each in inputs))))
        examples = self.examples(parts, name)
        means = None if self.means is None else self.means.rows(parts)
        # a sentence may be cut to the length of the data's sentences, and a text to the room beside the prompt
        was_cut = np.logical_or.reduce([*cut, examples.places.shorten.cut])
        return Reading(self, inputs, examples, means, was_cut, name)

    def check(self, texts: Iterable[Text], name: Callable[[int], str] = numbered) -> list[Input]:
        """Return each text as the model reads it; raise BadTexts where some are empty, or of another kind."""
        wanted, labels, described = 2 if self.record.pairs else 1, self.labels, self.description
        inputs, bad = [], dict[int, str]()
        for number, text in enumerate(texts):
            sentences = tuple(text) if isinstance(text, (tuple, list)) else (text,)
            try:
                if not all(map(is_text, sentences)):  # the keys of a mapping would be read for its texts
                    raise ValueError(f"{text!r:.60} is not text, or a pair of texts")
                check_filled(text)
            except ValueError as error:
                bad[number] = f"{error}: give text"
                continue
            if described is not None and len(sentences) == 1:
                inputs.append(Input(text, (*sentences, described.text), described.labels))
                continue
            if len(sentences) != wanted:
                kind = ONE.get(len(sentences), f"{len(sentences)} sentences")
                bad[number] = f"it is {kind}: give {ONE[wanted]}, as this model was trained on"
                continue
            inputs.append(Input(text, sentences, labels))
        if bad:
            raise BadTexts(bad, name)
        return inputs

    def examples(
        self, parts: Sequence[list[Tensor]], name: Callable[[int], str], may_be_cut: bool = True
    ) -> PromptedDataset:
        """Return sentences, their ids closed by ``</s>``, as the examples that the task makes of a data folder."""
        cfg, dictionary, length = self.options, self.text.dictionary, self.model.prompt_length
        sizes = [np.array([len(ids) for ids in part], np.int64) for part in parts]
        lengths = [each - 1 for each in sizes]  # without </s>
        empty = np.flatnonzero(np.min(lengths, axis=0) == 0).tolist()  # the encoder leaves some signs out
        if empty:
            raise BadTexts(dict.fromkeys(empty, "a sentence has no token of this model: give text"), name)
        template = self.template
        placed = lengths if template is None else in_places(template, lengths, [parts])

        # With --shorten-data-split-list only splits of a folder may be cut.
        if not may_be_cut or str(cfg.shorten_method) == "none" or cfg.shorten_data_split_list:
            rows = len(prompt_block(cfg.prompt_position, length, 0, 0))  # that the prompt adds
            room = text_room(cfg, len(parts) == 2, length, rows, None if template is None else template.words)
            taken = np.sum(placed, axis=0)
            too_long = np.flatnonzero(taken > room).tolist()
            if too_long:
                takes = f"this model takes {room} beside its prompt"
                remedy = self.if_too_long if may_be_cut else "shorten it"
                raise BadTexts({i: f"it has {taken[i]} tokens, and {takes}: {remedy}" for i in too_long}, name)
        places = place_prompts(cfg, dictionary, "text", lengths, length, template, placed)

        # <s> A </s>, or <s> A </s> [</s>] B </s>
        first, *others = map(ListDataset, parts, sizes)
        tokens: Any = PrependTokenDataset(first, cfg.init_token)
        for second in others:
            behind = second if cfg.separator_token is None else PrependTokenDataset(second, cfg.separator_token)
            tokens = ConcatSentencesDataset(tokens, behind)
        pad = dictionary.pad()
        return PromptedDataset(unlabelled(tokens, pad), places, pad=pad, arrange=by_length)

    @functools.cached_property
    def nearest(self) -> NearestWords:
        """The word embeddings of the backbone, for the words that prompt rows resemble."""
        vocabulary = Vocabulary(self.text.dictionary, self.text.encoder, self.text.encoder.dictionary)
        embeddings = self.model.encoder.sentence_encoder.embed_tokens.weight.detach()
        return NearestWords(vocabulary, embeddings.float().cpu())
