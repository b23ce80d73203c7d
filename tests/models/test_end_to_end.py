"""Golden cases of our own: tokens to logits, every step written out plainly."""

from __future__ import annotations

import pytest
import torch

from tests.helpers import PAD, enlarge, logits, pair_batch, prompted, single_batch, tiny_model
from tests.plain import plain_embedding, plain_layer, plain_prompt, plain_representation

SMALL = {"generator_hidden_size": 8, "prompt_length": 3}


def by_definition(method, row, c):
    return plain_prompt(method, row, c)


def plain_logits(model, method, ids, prompted_ids, at, rows_of=by_definition):
    """One example: M(x), its prompts layer by layer, and the head on <s>."""
    stack, m_of_x = model.encoder.sentence_encoder, plain_representation(model.encoder.sentence_encoder, ids)

    def rows(place, sentence):
        return rows_of(method, method.places.index(place), sentence if place and method.from_previous_layer else m_of_x)

    x = plain_embedding(stack, prompted_ids, rows(0, None), at)
    for i, layer in enumerate(stack.layers):
        x = plain_layer(layer, x)
        if i + 1 in method.places:
            delta = rows(i + 1, x[0])
            x = torch.stack([x[j] + delta[j - at] if at <= j < at + len(delta) else x[j] for j in range(len(x))])
    head = model.classification_heads["sentence_classification_head"]
    return head.out_proj(torch.tanh(head.dense(x[0])))


@pytest.mark.parametrize("representation", ["previous-layer", "backbone"])
@pytest.mark.parametrize(("name", "batch"), [("pairs", pair_batch), ("singles", single_batch)])
@pytest.mark.parametrize("method", ["m-idpg-phm", "m-idpg-dnn", "s-idpg-phm"])
def test_tokens_to_logits(method, name, batch, representation):
    phm = {"phm_n": 4} if "phm" in method else {}
    model = tiny_model(method=method, representation=representation, **SMALL, **phm)
    enlarge(model)
    tokens = batch()
    with torch.no_grad():
        for position in range(5) if name == "pairs" else (0, 1, 4):
            extra = prompted(tokens, position, 3)
            ours = logits(model, tokens, position)
            for i, row in enumerate(tokens):
                wide = extra.prompted_tokens[i]
                place = row[row != PAD], wide[wide != PAD], int(extra.prompt_offset[i])
                expected = plain_logits(model, model.method, *place)
                torch.testing.assert_close(ours[i], expected, atol=2e-5, rtol=2e-5)
