"""The labels of the tasks: in which order they are numbered, and what they mean.

fairseq numbers the classes of a training set by their frequency. Without a training split the same order comes from
published counts, so that a folder of a validation set alone fits a model that was trained on the whole. (The dict.txt
of a folder that fairseq-preprocess made with many workers counts a few lines too few; orders do not hang on these.)

A class's number means nothing outside its folder, and its name nothing outside its task: "1" is a paraphrase in QQP and
an objective sentence in SUBJ, and the class that MRPC counts first is the one that QQP counts second. Labels of two
tasks are the same where they have the same words here.

Sources of the meanings: label_classes of huggingface/datasets (datasets/glue/glue.py), where QQP's "duplicate" and
MRPC's "equivalent" are one meaning here, as in ID-SPAM, Table 1; for CR, MR, SUBJ and MPQA the verbalisers of LPT's
released code (encoder-only/data/process.py); for SuperGLUE what its tasks ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .dictionary import by_frequency
from .errors import InputError

# --- their order ----------------------------------------------------------------------------------


class Counted(NamedTuple):
    """``counts``: {class: examples}; ``source``: what says so."""

    counts: dict[str, int]
    source: str


AUTHORS = "label/dict.txt of the authors' folder, github.com/CSerxy/IDPG at d018cdb"
SUPERGLUE = "label/dict.txt of github.com/ksboy/superglue at bcb1c9c"
TEXT = "the training text of the authors' folder, counted (tests/preprocess/test_tasks.py)"

LABEL_COUNTS = {
    "CR": Counted({"1": 1407, "0": 368}, TEXT),
    "MR": Counted({"0": 4331, "1": 4331}, TEXT),
    "SUBJ": Counted({"0": 4000, "1": 3981}, AUTHORS),
    "MPQA": Counted({"0": 6294, "1": 2287}, AUTHORS),
    "IMDB": Counted({"neg": 12500, "pos": 12500}, "README of aclImdb: 25,000 reviews, as many of each label"),
    "Reviews": Counted({"0": 1005, "1": 995}, "run_scripts/quickstart.py with its sizes and seed"),
    "SST-2": Counted({"1": 37552, "0": 29769}, AUTHORS),
    "QNLI": Counted({"entailment": 52374, "not_entailment": 52365}, AUTHORS),
    "RTE": Counted({"entailment": 1249, "not_entailment": 1241}, TEXT),
    "MRPC": Counted({"1": 2474, "0": 1194}, TEXT),
    "QQP": Counted({"0": 229466, "1": 134375}, AUTHORS),
    "MNLI": Counted(
        {"contradiction": 130903, "neutral": 130900, "entailment": 130899},
        "the README of an IndicXNLI benchmark, whose training set is MNLI translated; the order is also that of "
        "roberta.large.mnli in fairseq's examples/roberta/README.md (0 contradiction, 2 entailment)",
    ),
    "SNLI": Counted(
        {"entailment": 183416, "contradiction": 183187, "neutral": 182764}, "README.txt of SNLI 1.0, 'Train labels'"
    ),
    "CB": Counted({"contradiction": 118, "entailment": 111, "neutral": 16}, SUPERGLUE),
    "COPA": Counted(
        {"0": 400, "1": 400},
        "each of the 400 records has a right and a wrong choice (json_examples.py makes a pair of either)",
    ),
}

# No counts were found for these. CoLA: shares of 70% and 30%, meenham.tistory.com/m/8; WSC: 52% false,
# huggingface/datasets (datasets/super_glue/super_glue.py); the others are unverified.
UNVERIFIED = {
    "CoLA": ("1", "0"),
    "WNLI": ("0", "1"),
    "BoolQ": ("true", "false"),
    "WiC": ("false", "true"),
    "MultiRC": ("0", "1"),
    "WSC": ("false", "true"),
    "ReCoRD": ("0", "1"),
}


def label_order(task: str) -> tuple[str, ...]:
    """The classes of a task: the most frequent first, equally frequent ones alphabetically."""
    return UNVERIFIED[task] if task in UNVERIFIED else tuple(by_frequency(LABEL_COUNTS[task].counts))


# --- their meanings -------------------------------------------------------------------------------

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
