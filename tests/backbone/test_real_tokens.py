"""Pads are left out of what a CPU computes, and nothing else changes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_idpg.backbone import encoder
from fairseq_idpg.backbone.cpu import ALL, real_tokens
from fairseq_idpg.methods.registry import PRESETS
from tests.helpers import pair_batch, stock_twin, tiny_model
from tests.models.started import behaviour, made, usual

masks = st.integers(1, 5).flatmap(
    lambda width: st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=1, max_size=5)
)


@given(masks)
def test_there_and_back(rows):
    padding = torch.tensor(rows)
    tokens, x = real_tokens(padding), torch.randn(padding.size(1), len(padding), 3, requires_grad=True)
    real = ~padding.t()
    assert torch.equal(tokens.of(x)[:, 0], x[real])
    back = tokens.spread(tokens.of(x))
    assert torch.equal(back, x * real[..., None])
    back.sum().backward()
    assert torch.equal(x.grad, real[..., None].expand_as(x).to(x))


def test_without_a_mask_all_tokens_are_taken():
    x = torch.randn(3, 2, 4)
    assert real_tokens(None) is ALL and ALL.of(x) is x and ALL.spread(x) is x
    assert real_tokens(torch.zeros(2, 3, dtype=torch.bool, device="meta")) is ALL


def outcome(model):
    """Logits and gradients, and how many tokens each layer's feed-forward saw."""
    seen = []
    for layer in model.encoder.sentence_encoder.layers:
        layer.fc1.register_forward_pre_hook(lambda _, given: seen.append(given[0].shape[:-1].numel()))
    return behaviour(model), seen


@pytest.mark.parametrize("method", [name for name, preset in PRESETS.items() if preset.methods])
def test_the_same_as_of_all_tokens(method, monkeypatch):
    drops = {name: 0.0 for name in ("adapter_dropout", "lora_dropout") if name in PRESETS[method].options}
    options = {**usual(method), **drops, "dropout": 0.0, "attention_dropout": 0.0}
    found, real = outcome(made(method, **options))
    monkeypatch.setattr(encoder, "real_tokens", lambda padding: ALL)
    expected, everything = outcome(made(method, **options))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs, atol=1e-5 * max(1.0, float(theirs.abs().max())), rtol=0)
    assert {all_tokens - some for some, all_tokens in zip(real, everything)} == {int(pair_batch().eq(1).sum())}


def test_with_a_method_the_text_is_that_of_fairseq_and_pads_are_zero():
    model, pads = tiny_model(method="prompt-tuning"), pair_batch().eq(1)
    expected, found = (each.encoder(pair_batch(), features_only=True)[0] for each in (stock_twin(model), model))
    assert pads.any() and expected[pads].abs().min() > 0 and not found[pads].any()
    torch.testing.assert_close(found[~pads], expected[~pads], atol=1e-5, rtol=0)
    whole = pair_batch()[:, :6]
    assert torch.equal(*(each.encoder(whole, features_only=True)[0] for each in (stock_twin(model), model)))
