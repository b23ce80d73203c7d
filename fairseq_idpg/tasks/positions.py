"""Positions 0 to 4 of the prompt (IDPG Figure 6), as pure functions of the sentences' lengths.

For ``<s> A </s> </s> B </s>`` and ``<s> A </s>`` with a = len(A), b = len(B), the prompt is inserted before index

| position | pair                             | single                      |
|----------|----------------------------------|-----------------------------|
| 0        | 1, after ``<s>``                 | 1                           |
| 1        | 1 + a, before the first ``</s>`` | 1 + a                       |
| 2        | 3 + a, before B                  | error                       |
| 3        | 3 + a + b, before the last one   | error                       |
| 4        | 4 + a + b, after the end         | 2 + a                       |

At position 4 the rows stand between two extra separators: ``</s> prompt </s>``. Pairs joined without a separator
token (``<s> A </s> B </s>``) have one index less from position 2 on.

Differs from the released code in: the same table for every row of a batch, padded or not; the released code
inserts at inconsistent places on single sentences and masks the wrong tokens at position 4.
"""

from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from preprocess.flags import flag_name

from ..errors import InputError

POSITIONS = (0, 1, 2, 3, 4)
SINGLE_POSITIONS = (0, 1, 4)
END = 4


def check_tokens(cfg: Any, dictionary: Dictionary) -> None:
    """Check the tokens that are put into every example.

    Raises:
        InputError: no --init-token, or another than ``<s>``; a token that the dictionary lacks, or padding.
    """
    if cfg.init_token is None:
        raise InputError("--init-token is missing: the prompt's place counts from <s>, give --init-token 0")
    for name, remedy in (("init_token", "give 0 for <s>"), ("separator_token", "give 2 for </s>, or 0 for <s>")):
        token = getattr(cfg, name)
        if token is not None and not 0 <= token < len(dictionary):
            found = f"none of the {len(dictionary)} symbols"
        elif token == dictionary.pad():
            found = "padding, which the model does not read"
        elif name == "init_token" and token != dictionary.bos():
            found = f"{dictionary[token]}, and the backbone's sentences begin with <s>"
        else:
            continue
        raise InputError(f"{flag_name(name)} {token} is {found}: {remedy}")


def check_position(position: int, pairs: bool, template: bool = False) -> None:
    """Raise InputError unless an input has the position; a template makes one text of both sentences."""
    known = POSITIONS if pairs and not template else SINGLE_POSITIONS
    if position not in known:
        of = " with --predict-with mlm" if template else "" if pairs else " of single sentences (no input1)"
        raise InputError(f"--prompt-position {position}{of} is unknown: choose from {', '.join(map(str, known))}")


def insertion_index(position: int, a: np.ndarray, b: np.ndarray | None, separators: int = 2) -> np.ndarray:
    """Index in front of which the prompt enters, for arrays of lengths; ``b`` is None for single sentences.

    ``separators`` counts the ``</s>`` between A and B: 2, or 1 without --separator-token.
    """
    check_position(position, b is not None)
    start = np.ones_like(a)
    if position == 0:
        return start
    if position == 1:
        return start + a
    before_b = start + a + separators
    if position == 2:
        return before_b
    if position == 3:
        return before_b + b
    return start + a + 1 if b is None else before_b + b + 1


def prompt_block(position: int, prompt_length: int, placeholder: int, separator: int) -> Tensor:
    """The token row that is inserted: placeholders, between separators at position 4; nothing without a prompt."""
    block = torch.full((prompt_length,), placeholder, dtype=torch.long)
    if position == END and prompt_length:
        ends = torch.tensor([separator])
        block = torch.cat([ends, block, ends])
    return block


def first_row(position: int, index: np.ndarray) -> np.ndarray:
    """Index of the first prompt row once the block stands before ``index``."""
    return index + (1 if position == END else 0)
