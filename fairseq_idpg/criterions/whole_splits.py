"""What a validation logs of each example, and the scores of the whole split that are made of it.

The names of these lists, ``COLUMNS``, begin with an underscore: fairseq does not print what is called so.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.logging import metrics
from fairseq.logging.meters import safe_round
from torch import Tensor

from preprocess.questions import Questions
from preprocess.split_scores import BY_CHOICE, METRICS, OF_QUESTIONS, OF_TEXTS, PARTS, chosen

from ..metrics import REPORT

COLUMNS = ("_id", "_answer", "_target", "_likely", "_question", "_em", "_f1")


def fetched_columns(
    reports: Sequence[str], logits: Tensor, sample: dict[str, Any], one: int, more: dict[str, Tensor] | None = None
) -> dict[str, Any]:
    """What the metrics are made of: a list of B for each column, fetched from the device together.

    Args:
        logits: B x classes.
        sample: with ``answers_question`` B, and ``answer_em`` and ``answer_f1`` B where answers are texts.
        one: the class with the label 1, where there are questions.
        more: columns that are fetched with them.
    """
    columns = {**columns_of(reports, logits, sample, one), **(more or {})}
    rows = torch.stack([column.double() for column in columns.values()]).tolist()
    return {**dict(zip(columns, rows)), **{REPORT + metric: True for metric in reports}}


def columns_of(reports: Sequence[str], logits: Tensor, sample: dict[str, Any], one: int) -> dict[str, Tensor]:
    """B numbers for each column that some of the ``reports`` read."""
    if not reports:
        return {}
    answer, target = logits.argmax(1), sample["target"].view(-1)
    columns = {"_id": sample["id"], "_answer": answer, "_target": target}
    if set(reports) & set(OF_QUESTIONS):
        likely = logits[:, one].double() - logits[:, 1 - one].double()
        columns.update({"_answer": answer == one, "_target": target == one, "_likely": likely})
        columns["_question"] = sample["answers_question"]
    if set(reports) & set(OF_TEXTS):
        columns.update({"_em": sample["answer_em"], "_f1": sample["answer_f1"]})
    return columns


def log_split_scores(logging_outputs: list[dict[str, Any]]) -> None:
    """Logs what ``fetched_columns`` gave, and the scores that are made of all of it."""
    for name in COLUMNS:
        values = [value for log in logging_outputs for value in log.get(name, ())]
        if values:
            metrics.log_concat_tensor(name, torch.tensor(values, dtype=torch.float64), dim=0)
    for metric in METRICS:
        if any(REPORT + metric in log for log in logging_outputs):
            for part in PARTS[metric]:
                metrics.log_derived(part, split_score(metric, part))


def split_score(metric: str, part: str) -> Callable[[Any], float]:
    """A part of a metric over all examples so far, in %."""

    def of(meters: Any) -> float:
        found = {name: meters[name].tensor.numpy() for name in COLUMNS if name in meters}
        order = np.argsort(found["_id"])  # so that no choice hangs on the order of batches or processes
        found = {name: values[order] for name, values in found.items()}
        answers, questions = found["_answer"], None
        if metric in OF_QUESTIONS:
            questions = Questions(found["_question"].astype(np.int64), found.get("_em"), found.get("_f1"))
        if metric in BY_CHOICE and questions is not None:
            answers = chosen(questions, found["_likely"])
        return safe_round(100 * METRICS[metric](answers, found["_target"], questions)[part], 1)

    return of
