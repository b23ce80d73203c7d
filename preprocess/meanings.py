"""What the labels of the tasks mean, so that a model of one task may answer another.

A class's number means nothing outside its folder, and its name nothing outside its task: "1" is a paraphrase in QQP and
an objective sentence in SUBJ, and the class that MRPC counts first is the one that QQP counts second. Labels of two
tasks are the same where they have the same words here.

Sources: label_classes of huggingface/datasets (datasets/glue/glue.py), where QQP's "duplicate" and MRPC's "equivalent"
are one meaning here, as in ID-SPAM, Table 1; for CR, MR, SUBJ and MPQA the verbalisers of LPT's released code
(encoder-only/data/process.py); for SuperGLUE what its tasks ask.
"""

from __future__ import annotations

from collections.abc import Sequence

from .errors import InputError

SENTIMENT = {"1": "positive", "0": "negative"}
EQUIVALENCE = {"1": "equivalent", "0": "not equivalent"}
ENTAILMENT = {"entailment": "entailment", "not_entailment": "not entailment"}
INFERENCE = {"entailment": "entailment", "neutral": "neutral", "contradiction": "contradiction"}

MEANINGS: dict[str, dict[str, str]] = {
    **dict.fromkeys(("CR", "MR", "MPQA", "Reviews", "SST-2"), SENTIMENT),
    "IMDB": {"pos": "positive", "neg": "negative"},
    "SUBJ": {"1": "objective", "0": "subjective"},
    "CoLA": {"1": "acceptable", "0": "unacceptable"},
    **dict.fromkeys(("MRPC", "QQP"), EQUIVALENCE),
    **dict.fromkeys(("QNLI", "RTE", "AX-b", "AX-g", "RTE-SuperGLUE"), ENTAILMENT),
    "WNLI": {"1": "entailment", "0": "not entailment"},
    **dict.fromkeys(("MNLI", "SNLI", "CB", "AX"), INFERENCE),
    "BoolQ": {"true": "yes", "false": "no"},
    "WiC": {"true": "same sense", "false": "other sense"},
    "WSC": {"true": "same thing", "false": "other thing"},
    "COPA": {"1": "right choice", "0": "wrong choice"},
    "MultiRC": {"1": "right answer", "0": "wrong answer"},
    "ReCoRD": {"1": "right entity", "0": "wrong entity"},
}


def meanings_of(task: str | None, labels: Sequence[str]) -> list[str] | None:
    """What each label means; None where the table does not say so of all: own data, or the answers of --efl."""
    known = MEANINGS.get(task or "", {})
    return [known[label] for label in labels] if labels and known.keys() >= set(labels) else None


def counterparts(task: str | None, labels: Sequence[str], other: str | None, others: Sequence[str]) -> list[str] | None:
    """For each of a task's labels the one of another task that means the same; None where it is not known of all.

    Raises:
        InputError: the other task's labels mean something else.
    """
    ours, theirs = meanings_of(task, labels), meanings_of(other, others)
    if ours is None or theirs is None:
        return None
    if sorted(ours) != sorted(theirs):
        raise InputError(
            f"the labels of {task} mean {', '.join(ours)}, and those of {other} {', '.join(theirs)}: a model of the "
            "one says nothing about the other, name a task whose labels mean the same"
        )
    return [others[theirs.index(meaning)] for meaning in ours]
