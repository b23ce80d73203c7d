"""The open encoder with nothing injected is fairseq's, and what an injection needs of it."""

import pytest
import torch

from fairseq_idpg.backbone.injection import Injection
from tests.helpers import PAD, TINY, enlarge, pair_batch, stock_twin, tiny_model

LAYERS, WIDTH = TINY["encoder_layers"], TINY["encoder_embed_dim"]


@pytest.fixture
def model():
    built = tiny_model(method="head-only")
    enlarge(built.encoder)
    return built


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("told", [True, False])
def test_bitwise_equal_to_fairseq_when_nothing_is_injected(training, frozen, padded, told):
    """Features, all hidden states, predicted words and gradients, with the same draws of dropout."""
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "activation_dropout": 0.3}
    model = tiny_model(method="head-only", no_freeze_backbone=not frozen, **rates)
    enlarge(model.encoder)
    model.train(training)
    twin = stock_twin(model)
    tokens = pair_batch() if padded else pair_batch()[:, :6]
    outputs = []
    for each, more in ((model, {"padded": padded} if told else {}), (twin, {})):
        torch.manual_seed(7)
        features, extra = each(tokens, features_only=True, return_all_hiddens=True, **more)
        words, without = each(tokens, **more)
        assert without == {"inner_states": None} and len(extra["inner_states"]) == LAYERS + 1
        outputs.append([features, words, *extra["inner_states"]])
        if not frozen:
            (features.square().sum() + words.square().sum()).backward()
            own = dict(each.encoder.sentence_encoder.named_parameters())
            outputs[-1] += [own[name].grad for name in sorted(own)]
    ours, theirs = outputs
    assert len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))
    assert frozen or len(ours) > 16 * LAYERS


@pytest.mark.parametrize("slot", ["hidden", "late", "key_value"])
@pytest.mark.parametrize("padded", [True, False])
def test_functions_see_the_states_at_their_place(model, slot, padded):
    """Below the layer, or with ``hidden`` after it; ``sentence`` is the state of <s>; a mask if there are pads."""
    tokens, seen = pair_batch() if padded else pair_batch()[:, :6], []
    injection = Injection(**{slot: lambda layer, states: seen.append((layer, states))})
    _, extra = model.encoder(tokens, features_only=True, return_all_hiddens=True, injection=injection)
    assert [layer for layer, _ in seen] == list(range(LAYERS))
    for layer, states in seen:
        below = extra["inner_states"][layer + (slot == "hidden")]
        assert torch.equal(states.x, below) and torch.equal(states.sentence, below[0])
        assert torch.equal(states.padding, tokens.eq(PAD)) if padded else states.padding is None


@torch.no_grad()
def test_rows_that_joined_late_are_part_of_the_sequence_above_and_of_no_result(model):
    tokens, seen, count = pair_batch(), [], 2
    injection = Injection(
        late=lambda layer, states: torch.ones(1, count, WIDTH) if layer != 1 else None,
        hidden=lambda layer, states: seen.append(states),
    )
    features, extra = model.encoder(tokens, features_only=True, return_all_hiddens=True, injection=injection)
    lengths = [tokens.size(1) + more for more in (count, count, 2 * count)]
    assert [states.x.size(0) for states in seen] == lengths
    for states in seen:
        assert torch.equal(states.padding[:, : tokens.size(1)], tokens.eq(PAD))
        assert not states.padding[:, tokens.size(1) :].any()
    assert features.shape[:2] == tokens.shape
    for states, below in zip(seen, extra["inner_states"][1:]):
        assert torch.equal(below, states.x[: tokens.size(1)])
