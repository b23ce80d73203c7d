"""How often each class stands in a task's training set, and where that is published.

fairseq numbers the classes of a training set by their frequency. Without a training split the same order comes from
these counts, so that a folder of a validation set alone fits a model that was trained on the whole.

The dict.txt of a folder that fairseq-preprocess made with many workers counts a few lines too few; orders do not hang
on these.
"""

from __future__ import annotations

from typing import NamedTuple

from .dictionary import by_frequency


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
    "Reviews": Counted({"0": 1005, "1": 995}, "run_scripts/quickstart/data.py with its sizes and seed"),
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
