"""One sentence or pair through a model with prompts, written out plainly."""

import numpy as np
import torch
from torch import Tensor

from fairseq_idpg.methods.prompts.task_prompts import TaskPrompts
from tests.helpers import EOS
from tests.plain import plain_embedding, plain_layer, plain_prompt, plain_representation

PLACEHOLDER = 3


def single(tokens: list[int]) -> list[int]:
    """<s> A </s>"""
    return [0, *tokens, EOS]


def with_prompt(ids: list[int], position: int, rows: int) -> tuple[list[int], int]:
    """A single sentence with placeholders at position 0, 1 or 4, and the index of the first."""
    block = [PLACEHOLDER] * rows
    if position == 0:
        return [0, *block, *ids[1:]], 1
    if position == 1:
        return [*ids[:-1], *block, EOS], len(ids) - 1
    return [*ids, EOS, *block, EOS], len(ids) + 1


def plain_rows(method, place: int, m_of_x: Tensor, sentence: Tensor | None) -> Tensor:
    """t x d, the prompt at a place from M(x) and the <s> state below it."""
    row = method.places.index(place)
    if isinstance(method, TaskPrompts):
        return method.table[row]
    c = sentence if place and method.from_previous_layer else m_of_x
    return plain_prompt(method, row, c)


@torch.no_grad()
def plain_pass(model, ids: list[int], prompted: list[int], at: int) -> tuple[Tensor, dict[int, Tensor]]:
    """Last <s> state and rows of each place; ``prompted`` is ``ids`` with placeholders from index ``at`` on."""
    stack, method = model.encoder.sentence_encoder, model.method
    m_of_x = plain_representation(stack, torch.tensor(ids))
    if method is None:
        return m_of_x, {}
    rows = {0: plain_rows(method, 0, m_of_x, None)}
    x = plain_embedding(stack, torch.tensor(prompted), rows[0], at)
    for place, layer in enumerate(stack.layers, start=1):
        x = plain_layer(layer, x)
        if place in method.places:
            rows[place] = plain_rows(method, place, m_of_x, x[0])
            x[at : at + len(rows[place])] += rows[place]
    return x[0], rows


def plain_state(model, tokens: list[int], position: int) -> np.ndarray:
    ids = single(tokens)
    rows = 0 if model.method is None else model.method.prompt_length
    return plain_pass(model, ids, *with_prompt(ids, position, rows))[0].numpy()


def plain_cosine(a: np.ndarray, b: np.ndarray) -> float:
    dot = sum(float(x) * float(y) for x, y in zip(a, b))
    return dot / (sum(float(x) ** 2 for x in a) ** 0.5 * sum(float(y) ** 2 for y in b) ** 0.5)
