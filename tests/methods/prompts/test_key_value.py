"""Prompts as keys and values, against a pass written out with loops."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.errors import InputError
from tests.helpers import PAD, enlarge, logits, pair_batch, tiny_model
from tests.plain import plain_embedding, plain_layer, plain_prompt, plain_representation

SMALL = {"generator_hidden_size": 8, "prompt_length": 3}


def plain_features(model, ids, before_projection):
    """T x d last states of one example; rows of layer i from c_i: M(x), or the <s> state below the layer."""
    stack, method = model.encoder.sentence_encoder, model.method
    c0 = plain_representation(stack, ids) if method.representation else None
    x = plain_embedding(stack, ids)
    for i, layer in enumerate(stack.layers):
        prefix = None
        if i in method.places:
            row = method.places.index(i)
            if c0 is None:
                rows = method.table[row]
            else:
                read = x[0] if i and method.from_previous_layer else c0
                rows = torch.from_numpy(plain_prompt(method, row, read.numpy())).float()
            keys, values = rows[: len(rows) // 2], rows[len(rows) // 2 :]
            if before_projection:
                keys, values = layer.self_attn.k_proj(keys), layer.self_attn.v_proj(values)
            prefix = keys, values
        x = plain_layer(layer, x, prefix=prefix)
    return x


@pytest.mark.parametrize("insertion", ["key-value", "key-value-input"])
@pytest.mark.parametrize(
    "options",
    [
        {"method": "p-tuning-v2-kv", "prompt_length": 3},
        {"method": "p-tuning-v2-kv", "prompt_length": 2, "prompt_layers": "1,2"},
        {"method": "m-idpg-phm", "phm_n": 4, **SMALL},
        {"method": "m-idpg-dnn", "representation": "backbone", "generator_sharing": "L", **SMALL},
        {"method": "s-idpg-phm", "phm_n": 4, **SMALL},
    ],
    ids=["task prompts", "some layers", "M, previous layer", "L, M(x)", "S, first layer"],
)
@torch.no_grad()
def test_pass(insertion, options):
    model = tiny_model(**options, prompt_insertion=insertion)
    enlarge(model.method)
    tokens = pair_batch()
    ours, _ = model(tokens, features_only=True)
    assert model.prompt_length == 0 and ours.shape[1] == tokens.shape[1]
    for example, row in enumerate(tokens):
        ids = row[row != PAD]
        plain = plain_features(model, ids, insertion == "key-value-input")
        assert torch.allclose(ours[example, : len(ids)], plain, atol=1e-4)


def test_a_prefix_of_nothing_but_distance_is_the_backbone():
    """Keys so far away that no token attends to them leave the backbone as it is."""
    model, backbone = tiny_model(method="p-tuning-v2-kv"), tiny_model(method="head-only")
    backbone.encoder.load_state_dict(model.encoder.state_dict())
    backbone.classification_heads.load_state_dict(model.classification_heads.state_dict())
    with torch.no_grad():
        for layer in model.encoder.sentence_encoder.layers:  # every query gets a large part along the first axis
            for part in (layer.self_attn, backbone.encoder.sentence_encoder.layers[layer.index].self_attn):
                part.q_proj.weight.zero_()
                part.q_proj.bias.fill_(1.0)
        model.method.table[:, :5] = -1e4
        assert torch.allclose(logits(model, pair_batch()), logits(backbone, pair_batch()), atol=1e-6)


def test_needs_no_layer_zero_but_layers_that_exist():
    assert tiny_model(method="p-tuning-v2-kv", prompt_layers="2").method.places == (2,)
    with pytest.raises(InputError, match="--prompt-layers 3: layers count from 0 to 2"):
        tiny_model(method="p-tuning-v2-kv", prompt_layers="3")
    with pytest.raises(InputError, match="--prompt-layers 1,2: add 0"):
        tiny_model(method="p-tuning-v2", prompt_layers="1,2")
