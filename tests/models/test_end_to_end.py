"""Tokens to logits at every position, each step written out plainly."""

from __future__ import annotations

import pytest
import torch

from tests.helpers import PAD, enlarge, logits, pair_batch, prompted, single_batch, tiny_model
from tests.plain import plain_embedding, plain_layer, plain_prompt, plain_representation

SMALL = {"generator_hidden_size": 8, "prompt_length": 3, "generator_dropout": 0.0}


def plain_logits(model, ids, prompted_ids, at):
    """One example: M(x), its prompts layer by layer, and the head on <s>."""
    stack, method = model.encoder.sentence_encoder, model.method
    m_of_x = plain_representation(stack, ids)

    def rows(place, sentence):
        read = sentence if place and method.from_previous_layer else m_of_x
        return plain_prompt(method, method.places.index(place), read)

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
                expected = plain_logits(model, *place)
                torch.testing.assert_close(ours[i], expected, atol=2e-5, rtol=2e-5)
