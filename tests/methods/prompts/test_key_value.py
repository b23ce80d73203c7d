"""Prompts as keys and values; test_places.py compares their passes."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.errors import InputError
from tests.helpers import logits, pair_batch, tiny_model


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
