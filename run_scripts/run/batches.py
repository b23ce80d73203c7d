"""The batches of a run: at most so many examples and so many tokens, and how many updates that makes.

The authors' scripts, as the official ones for RoBERTa (fairseq, examples/roberta/README.glue.md), fill a batch with
examples in a random order until it holds ``batch`` of them or 4,400 tokens with the padding: of RTE's, every fourth
batch is a smaller one. Tokens are those of the text, without prompts, so all methods see the same batches.
"""

from __future__ import annotations

from typing import Iterable

import numpy as np

from fairseq_idpg.tasks.ordering import grouped_by_length
from preprocess.data_folder import DataFolder

from .experiment import Experiment

MAX_TOKENS, MAX_POSITIONS = 4400, 512
VALID_BATCH = 64


def sizes(batch: int) -> list[str]:
    """Options of fairseq-train. Validation, whose batches change no score, is not limited in tokens."""
    return [
        *("--total-batch-size", str(batch), "--batch-size", str(batch), "--max-tokens", str(MAX_TOKENS)),
        *("--required-batch-size-multiple", "1", "--batch-size-valid", str(VALID_BATCH)),
        *("--max-tokens-valid", str(VALID_BATCH * MAX_POSITIONS)),
    ]


def given(experiment: Experiment, name: str) -> str | None:
    """The value of one of the experiment's further options, the last one if there are several."""
    words, value = experiment.options, None
    for at, word in enumerate(words):
        option, equals, after = word.partition("=")
        if option == name:
            value = after if equals else words[at + 1] if at + 1 < len(words) else None
    return value


def batches_of_epoch(experiment: Experiment, folder: DataFolder, batch: int) -> int:
    """Of one process, counted as fairseq makes them for this experiment's seed."""
    lengths = sum(folder.rows(part, "train").lengths.astype(np.int64) + 1 for part in folder.inputs)  # <s> or </s>
    tokens = np.minimum(np.tile(lengths, 2 if experiment.supplementary else 1), MAX_POSITIONS)
    order = np.random.RandomState(experiment.seed).permutation(len(tokens))
    if not experiment.supplementary:  # fairseq's task sorts by the drawn numbers, ours takes them for the order
        order = np.argsort(order)
    if "--group-by-length" in experiment.options:
        order = grouped_by_length(order, tokens)
    return count_batches(tokens[order].tolist(), batch, int(given(experiment, "--max-tokens") or MAX_TOKENS))


def count_batches(sizes: Iterable[int], examples: int, tokens: int) -> int:
    """Batches of examples of these sizes in this order, each with at most so many examples, and tokens with padding."""
    batches = held = longest = 0
    for size in sizes:
        held, longest = held + 1, max(longest, size)
        if batches == 0 or held > examples or held * longest > tokens:
            batches, held, longest = batches + 1, 1, size
    return batches
