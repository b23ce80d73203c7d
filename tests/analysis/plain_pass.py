"""One sentence or pair through a model with prompts, written out plainly."""

import numpy as np
import torch
from torch import Tensor

from tests.contract import Text, written
from tests.helpers import EOS, prompted
from tests.plain import plain_embedding, plain_layer, plain_representation


@torch.no_grad()
def plain_pass(model, ids: list[int], position: int) -> tuple[Tensor, dict[int, Tensor]]:
    """Last <s> state and t x d rows of each place, from M(x) and the states below it."""
    stack, method, tokens = model.encoder.sentence_encoder, model.method, torch.tensor(ids)
    m_of_x = plain_representation(stack, tokens)
    if method is None:
        return m_of_x, {}
    text = Text(model.args, *[None] * 4, sentence=m_of_x)
    by_hand, given = written()[type(method)].by_hand, prompted(tokens[None], position, method.prompt_length)
    at, rows = int(given.prompt_offset), {0: by_hand(method, 0, text)}
    x = plain_embedding(stack, given.prompted_tokens[0], rows[0], at)
    for place, layer in enumerate(stack.layers, start=1):
        x = plain_layer(layer, x)
        if place in method.places:
            rows[place] = by_hand(method, method.places.index(place), text._replace(below=x))
            x[at : at + len(rows[place])] += rows[place]
    return x[0], rows


def plain_state(model, tokens: list[int], position: int) -> np.ndarray:
    """Of <s> A </s>."""
    return plain_pass(model, [0, *tokens, EOS], position)[0].numpy()


def plain_cosine(a: np.ndarray, b: np.ndarray) -> float:
    dot = sum(float(x) * float(y) for x, y in zip(a, b))
    return dot / (sum(float(x) ** 2 for x in a) ** 0.5 * sum(float(y) ** 2 for y in b) ** 0.5)
