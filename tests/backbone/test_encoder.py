"""The open encoder with nothing injected is fairseq's."""

import pytest
import torch

from tests.helpers import TINY, enlarge, pair_batch, stock_twin, tiny_model

LAYERS = TINY["encoder_layers"]


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
