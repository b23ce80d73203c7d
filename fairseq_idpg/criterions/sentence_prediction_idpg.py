"""``--criterion sentence_prediction_idpg``: fairseq's, with metrics that are exact with any number of processes.

Where a method adds a term to the loss, such as SMoP's load balance, the gradient is that of loss + term.
``method_loss`` is the term for an example; ``loss`` stays without it, and fairseq logs it divided by ln 2.

fairseq sums what each process logs. Lists of predictions have no sum, so --report-mcc and the like end in an error with
two processes. Here each process puts its predictions into its row of an otherwise empty table, so that the sum of the
tables holds all predictions. Scores, also those of SuperGLUE, are then of the whole split, as with one process.

Correlations that are not defined, such as those of constant predictions, score 0: fairseq's NaN would take part in the
choice of the best checkpoint. The task logs them so with fairseq's criterion too.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_prediction import (
    SentencePredictionConfig,
    SentencePredictionCriterion,
    pearson_and_spearman,
)
from fairseq.logging import metrics
from fairseq.logging.meters import safe_round
from torch import Tensor

from preprocess.questions import Questions
from preprocess.split_scores import BY_CHOICE, METRICS, OF_QUESTIONS, OF_TEXTS, PARTS, chosen

from ..errors import InputError
from ..metrics import REPORT, reported
from ..models.heads import OTHER_WORDS
from ..names import documented

PREDICTED = ("pred", "targ")
# values of each example of a validation; fairseq does not print names that begin with an underscore
COLUMNS = ("_id", "_answer", "_target", "_likely", "_question", "_em", "_f1")
FAIRSEQS = ("report_mcc", "report_acc_and_f1", "report_pearson_and_spearman")
LISTS = (*PREDICTED, *COLUMNS)
EXTRA = "method_loss"
CORRELATIONS = {"pearson_and_spearman": "corr", "pearson": "pearson", "spearman": "spearmanr"}


@dataclass
class SentencePredictionIDPGCriterionConfig(SentencePredictionConfig):
    """Options besides fairseq's; ``report_`` is followed by a metric of preprocess/split_scores.py."""

    class_weights: str = documented(
        "weights of classes in the loss of training, as JSON: '{\"rare\": 5}' (default: 1 each)", ""
    )
    report_acc_and_macro_f1: bool = documented(
        "log macro_f1, the mean of the classes' F1, and its mean with the accuracy", False
    )
    report_choice_accuracy: bool = documented(
        "log choice_accuracy: of how many questions the likeliest answer is a right one (COPA)", False
    )
    report_f1a_and_em: bool = documented(
        "log f1a, F1 over all answers, em, the questions without a mistake, and their mean (MultiRC)", False
    )
    report_choice_f1_and_em: bool = documented(
        "log choice_f1 and choice_em, the agreement of each question's likeliest answer with a right one "
        "in its words and as a whole, and their mean (ReCoRD)",
        False,
    )


@register_criterion("sentence_prediction_idpg", dataclass=SentencePredictionIDPGCriterionConfig)
class SentencePredictionIDPGCriterion(SentencePredictionCriterion):
    """Loss, metrics and options of fairseq's criterion, and the scores of SuperGLUE."""

    class_weights: dict[str, float] = {}
    reports: Sequence[str] = ()
    fairseqs_reports: Sequence[str] = ()  # options of fairseq for scores of predictions and targets

    def __init__(self, cfg: SentencePredictionIDPGCriterionConfig, task: Any):
        super().__init__(cfg, task)
        self.reports = reported(cfg)
        self.fairseqs_reports = [name for name in FAIRSEQS if getattr(cfg, name)]
        self.class_weights = parse_weights(cfg.class_weights, self.regression_target)
        self.weights: Tensor | None = None  # C, once the order of the classes is known
        self.keep_pred_and_targ = False  # fairseq would fetch predictions from the device one by one

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True):
        last = LastPass(model)
        loss, sample_size, log = super().forward(last, sample, reduce)
        if (self.reports or self.fairseqs_reports) and not model.training:
            log.update(self.logged_columns(last.logits, sample))
        if self.class_weights and model.training:
            targets = sample["target"].view(-1)
            # with --verbaliser-loss vocabulary an example has the loss of the other words too, see ``with_all_words``
            each = F.cross_entropy(last.logits.float(), targets, reduction="none") + last.extra.get(OTHER_WORDS, 0)
            more = ((self.weights_of_classes(last.logits)[targets] - 1) * each).sum()
            loss, log["loss"] = loss + more, log["loss"] + more.detach()
        method = getattr(model, "method", None)
        if method is not None and method.adds_loss and model.training:
            extra = sample_size * method.extra_loss()
            loss, log[EXTRA] = loss + extra, extra.detach()
        if dist.is_initialized() and dist.get_world_size() > 1:
            log.update({name: spread(log[name], loss.device) for name in LISTS if name in log})
        return loss, sample_size, log

    def weights_of_classes(self, logits: Tensor) -> Tensor:
        """Return the weight of each class; raise InputError for a class that is not there."""
        if self.weights is None:
            first = self.label_dict.nspecial
            names = self.label_dict.symbols[first : first + logits.size(1)]
            unknown = self.class_weights.keys() - set(names)
            if unknown:
                raise InputError(f"--class-weights names {min(unknown)}: give classes of {', '.join(names)}")
            self.weights = torch.tensor([self.class_weights.get(name, 1.0) for name in names], device=logits.device)
        return self.weights

    def logged_columns(self, logits: Tensor, sample: dict[str, Any]) -> dict[str, Any]:
        """Return what the reports are made of, B numbers each. Nothing else waits for the device."""
        symbols, predicted = self.label_dict, {}
        if self.fairseqs_reports:
            answers = logits if self.regression_target else logits.argmax(1)
            predicted = dict(zip(PREDICTED, (answers.view(-1), sample["target"].view(-1))))
        columns = fetched_columns(self.reports, logits, sample, symbols.index("1") - symbols.nspecial, predicted)
        if not self.regression_target:  # fairseq scores the classes' names, which are numbers
            for name in predicted:
                columns[name] = [int(symbols[symbols.nspecial + int(i)]) for i in columns[name]]
        return {**columns, **dict.fromkeys(self.fairseqs_reports, True)}

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        gathered = [
            {key: gather(value) if key in LISTS and torch.is_tensor(value) else value for key, value in log.items()}
            for log in logging_outputs
        ]
        log_correlations(gathered)
        for name in COLUMNS:
            values = [value for log in gathered for value in log.get(name, ())]
            if values:
                metrics.log_concat_tensor(name, torch.tensor(values, dtype=torch.float64), dim=0)
        for metric in METRICS:
            if any(REPORT + metric in log for log in gathered):
                for part in PARTS[metric]:
                    metrics.log_derived(part, partial(split_score, metric, part))
        SentencePredictionCriterion.reduce_metrics(gathered)
        if any(EXTRA in log for log in logging_outputs):
            examples = sum(log["sample_size"] for log in logging_outputs)
            metrics.log_scalar(EXTRA, sum(log[EXTRA] for log in logging_outputs) / examples, examples, round=5)


def parse_weights(text: str, scores: bool) -> dict[str, float]:
    """Return {class: weight} of --class-weights; raise InputError for anything else."""
    try:
        weights = {} if not text else {str(name): float(weight) for name, weight in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        weights = {"": -1.0}
    if not all(0 <= weight < math.inf for weight in weights.values()) or weights and scores:
        raise InputError(f"--class-weights {text}: give JSON of classes and numbers of 0 or more, not for scores")
    return weights


def check_extra_loss(criterion: Any, added: str | None) -> None:
    """Raise InputError if the method's option ``added`` adds to the loss, and ``criterion`` would leave that out."""
    if added and not isinstance(criterion, SentencePredictionIDPGCriterion):
        raise InputError(f"{added} adds to the loss: give --criterion sentence_prediction_idpg, which adds it")


def log_correlations(logging_outputs: list[dict[str, Any]]) -> None:
    """Log correlations that are always numbers, if --report-pearson-and-spearman is given.

    Call it before fairseq's ``reduce_metrics``, which logs what may be NaN: the first that is logged stays.
    """
    if any("report_pearson_and_spearman" in log for log in logging_outputs):
        for key, part in CORRELATIONS.items():
            metrics.log_derived(key, partial(correlation, part))


def correlation(part: str, meters: Any) -> float:
    """Return a correlation of all predictions so far, in %; 0 where it is not defined."""
    predicted, targets = (meters[name].tensor.numpy() for name in PREDICTED)
    if np.ptp(predicted) == 0 or np.ptp(targets) == 0:  # constant, or of one example
        return 0.0
    value = safe_round(float(pearson_and_spearman(predicted, targets)[part]) * 100, 1)
    return 0.0 if math.isnan(value) else value


def spread(values: list[float], device: torch.device) -> Tensor:
    """Put the n values of this process into its row of a table of zeros, n first.

    The table is world x (1 + most values of any process). Every process calls this for every batch: fairseq gives one
    that has run out of data a batch to ignore.
    """
    most = torch.tensor(len(values), device=device)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    table = torch.zeros(dist.get_world_size(), 1 + int(most), dtype=torch.float64, device=device)
    row = torch.tensor([len(values), *values], dtype=torch.float64, device=device)
    table[dist.get_rank(), : len(row)] = row
    return table


def gather(table: Tensor) -> list[float]:
    """Return the values in a sum of such tables, process by process; whole numbers as integers."""
    values = [value for row in table.tolist() for value in row[1 : 1 + int(row[0])]]
    return [int(value) for value in values] if all(value.is_integer() for value in values) else values


def fetched_columns(
    reports: Sequence[str], logits: Tensor, sample: dict[str, Any], one: int, more: dict[str, Tensor] | None = None
) -> dict[str, Any]:
    """Return what the ``reports`` are made of, a list of B for each column, fetched from the device together.

    ``logits``: B x classes; ``sample``: a batch of ``PromptedDataset``; ``one``: the class with the label 1, read where
    examples are answers to questions; ``more``: other columns to fetch.
    """
    columns = dict(more or {})
    if reports:
        columns.update(_id=sample["id"], _answer=logits.argmax(1), _target=sample["target"].view(-1))
    if set(reports) & set(OF_QUESTIONS):
        columns.update({name: columns[name] == one for name in ("_answer", "_target")})
        columns["_likely"] = logits[:, one].double() - logits[:, 1 - one].double()
        columns["_question"] = sample["answers_question"]
    if set(reports) & set(OF_TEXTS):
        columns.update(_em=sample["answer_em"], _f1=sample["answer_f1"])
    rows = torch.stack([column.double() for column in columns.values()]).tolist()
    return {**dict(zip(columns, rows)), **{REPORT + metric: True for metric in reports}}


def split_score(metric: str, part: str, meters: Any) -> float:
    """Return a part of a metric over all examples so far, in %."""
    columns = {name: meters[name].tensor.numpy() for name in COLUMNS if name in meters}
    # sorted, so that a choice does not depend on the order of batches or processes
    order = np.argsort(columns["_id"])
    columns = {name: values[order] for name, values in columns.items()}
    answers, questions = columns["_answer"], None
    if metric in OF_QUESTIONS:
        questions = Questions(columns["_question"].astype(np.int64), columns.get("_em"), columns.get("_f1"))
    if metric in BY_CHOICE and questions is not None:
        answers = chosen(questions, columns["_likely"])
    return safe_round(100 * METRICS[metric](answers, columns["_target"], questions)[part], 1)


def with_all_words(criterion: Any, model: Any, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
    """Call a criterion, and add to its loss what the other words of a masked language model take.

        -log softmax(z over all words)[word of the class] = cross entropy of the classes' logits + what other words take

    Accuracy and the like are still those of the classes alone.
    """
    last = LastPass(model)  # the criterion drops the pass's ``extra``, which has the other words
    loss, sample_size, log = criterion(last, sample)
    others = last.extra[OTHER_WORDS].sum()
    return loss + others, sample_size, {**log, "loss": log["loss"] + others.detach()}


class LastPass:
    """Call a model, and keep the logits and the ``extra`` of its last pass."""

    logits: Tensor

    def __init__(self, model: Any):
        self.model = model
        self.extra: dict[str, Any] = {}

    def __call__(self, **inputs: Any) -> tuple[Tensor, dict[str, Any]]:
        self.logits, self.extra = self.model(**inputs)
        return self.logits, self.extra

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)
