"""Where prompt rows start: numbers, words of the vocabulary, a text, or the prompt of another task.

Words: "The Power of Scale for Parameter-Efficient Prompt Tuning" (Lester et al., 2021), Section 2.1,
https://arxiv.org/abs/2104.08691; transfer: see ``saved``.

Differs from the IDPG paper in: nothing by default; its code writes uniform(-0.5, 0.5) but draws every table again from
N(0, 0.02^2) when the model is built.
"""

import re
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor

from preprocess.dictionary import FILLER

from ...errors import InputError
from ..base import WordEmbeddings
from .saved import load_saved

FREQUENT = 5000
NO_WORD = re.compile(rf"\[unused\d+\]|{FILLER}\d+")  # BERT's dictionary begins with a thousand of the former


def pieces(text: str, words: WordEmbeddings) -> Tensor:
    """Return embeddings of a text's pieces: n x d; InputError if it has none."""
    ids = words.encode(text)
    if not ids:
        raise InputError(f"--prompt-init-text {text!r} has no words: write some, or 'terrible|great' for class-labels")
    return words.embeddings[torch.as_tensor(ids)]


def frequent_words(words: WordEmbeddings) -> list[int]:
    """Return the first words of the dictionary, which has them in the order of their frequency."""
    ids = range(words.specials, len(words.embeddings) - 1)  # the last symbol is <mask>
    return list(islice((i for i in ids if not (words.symbols and NO_WORD.fullmatch(words.symbols[i]))), FREQUENT))


def vocabulary_rows(text: str, words: WordEmbeddings, count: int) -> Tensor:
    """Return embeddings of different words, drawn from the most frequent ones: count x d."""
    frequent = torch.tensor(frequent_words(words))
    times = max(1, -(-count // len(frequent)))
    return words.embeddings[torch.cat([frequent[torch.randperm(len(frequent))] for _ in range(times)])[:count]]


def class_label_rows(text: str, words: WordEmbeddings, count: int) -> Tensor:
    """Return a row for each class, the mean of its text's pieces, and sampled words after them: count x d.

    Raises:
        InputError: a text without pieces, or more texts than rows.
    """
    means = torch.stack([pieces(label, words).mean(0) for label in text.split("|")])
    if len(means) > count:
        raise InputError(f"--prompt-init-text has {len(means)} classes for {count} prompt rows: raise --prompt-length")
    return torch.cat([means, vocabulary_rows("", words, count - len(means))])


def text_rows(text: str, words: WordEmbeddings, count: int) -> Tensor:
    """Return embeddings of a text's pieces, cut to, or repeated up to, count x d; InputError if there are none."""
    return torch.stack(list(islice(cycle(pieces(text, words)), count)))


WORDS: dict[str, Callable[[str, WordEmbeddings, int], Tensor]] = {
    "vocabulary": vocabulary_rows,
    "class-labels": class_label_rows,
    "text": text_rows,
}
INITS = ("normal", "standard-normal", "uniform", *WORDS, "saved")


@torch.no_grad()
def set_initial_rows(method: Any, cfg: Any, words: WordEmbeddings, rows: Tensor | None = None) -> None:
    """Give ``rows``, or those that ``method.initial_rows`` names, the values that --prompt-init asks for, in place.

    Words are for the rows of the input, which stand among word embeddings, and for those that join late at the first
    place, as LPT does; rows of later layers keep what they are drawn from on construction.

    Raises:
        InputError: there are no such rows, or rows of another kind; see ``WORDS`` and ``load_saved``.
    """
    init, rows = str(cfg.prompt_init), method.initial_rows if rows is None else rows
    among_words = method.prompt_length or method.insertion == "late"
    if init not in ("normal", "saved") and (rows is None or init in WORDS and not among_words):
        raise InputError(
            f"--prompt-init {init}: --method {cfg.method} has no rows that may start so with --prompt-insertion "
            f"{method.insertion}: leave it out"
        )
    if init == "uniform":
        rows.uniform_(-0.5, 0.5)
    elif init == "standard-normal":
        rows.normal_()
    elif init == "saved":
        load_saved(method, cfg.prompt_init_from, cfg, words)
    elif init in WORDS:
        rows[0] = WORDS[init](cfg.prompt_init_text or "", words, rows.size(1)).to(rows)
