"""transformers' text-classification pipeline on the encoder and the head of a trained ``head-only``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fairseq_idpg.inference.predictor import Predictor
from preprocess.errors import InputError

Pipeline = Callable[..., Any]  # transformers'
TOLERANCE = 1e-5  # of probabilities


def pipeline_of(folder: Path, predictor: Predictor, max_length: int) -> Pipeline:
    """The pipeline as its users build it, in float32 on the CPU: probabilities of all classes of a text or of a list.

    BERT's pooler is the hidden layer of RoBERTa's head: both are tanh(W x + b) of the first state.

    Args:
        folder: the encoder as transformers keeps it.
        predictor: whose head it gets; nothing but a head is trained there.
        max_length: tokens of a text.

    Raises:
        InputError: transformers is not installed, or the encoder is no BERT.
    """
    try:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer, logging, pipeline
    except ImportError:
        raise InputError("transformers is not installed: pip install transformers") from None
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    names = dict(enumerate(predictor.labels))
    model = AutoModelForSequenceClassification.from_pretrained(
        str(folder),
        local_files_only=True,
        dtype=torch.float32,
        num_labels=len(names),
        id2label=names,
        label2id={name: number for number, name in names.items()},
    )
    if not hasattr(model, "bert"):
        raise InputError(f"{folder} holds {type(model).__name__}: give the folder of a quick start, with a BERT")
    model.bert.pooler.dense.load_state_dict(predictor.head.dense.state_dict())
    model.classifier.load_state_dict(predictor.head.out_proj.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, model_max_length=max_length)
    return pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu", top_k=None, truncation=True)


def check_equal(what: str, found: list[dict[str, float]], predictor: Predictor, texts: list[str]) -> float:
    """The largest difference of ``found`` from the predictor's probabilities by name.

    Raises:
        InputError: it is above ``TOLERANCE``.
    """
    differences = [
        abs(own.probabilities[name] - probability)
        for own, probabilities in zip(predictor.predict(texts), found)
        for name, probability in probabilities.items()
    ]
    if not max(differences) <= TOLERANCE:
        raise InputError(
            f"probabilities of {what} differ by {max(differences):.1e}: give the folder of one quick start, whose "
            "encoder and runs belong together"
        )
    return max(differences)


def by_name(entries: list[dict[str, Any]]) -> dict[str, float]:
    """What the pipeline gives for a text, as probabilities by name."""
    return {entry["label"]: entry["score"] for entry in entries}
