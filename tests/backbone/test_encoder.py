"""The open encoder with nothing injected is fairseq's."""

import pytest
import torch

from fairseq_idpg.backbone.encoder import OpenTransformerEncoder
from tests.helpers import TINY, enlarge, logits, pair_batch, stock_twin, tiny_model

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


@pytest.mark.parametrize("method", ["m-idpg-phm", "p-tuning-v2-kv", "adapter", "lora", "lpt-npg", "head-only"])
def test_what_is_read_is_what_the_whole_last_layer_gives(method, monkeypatch):
    """States and gradients of the read token alone, beside those with every token computed."""
    found = []
    forward = OpenTransformerEncoder.forward
    for whole in (False, True):
        model = tiny_model(method=method)
        enlarge(model)
        if whole:
            unread = lambda self, *given, read=None, **more: forward(self, *given, **more)  # noqa: E731
            monkeypatch.setattr(OpenTransformerEncoder, "forward", unread)
        out = logits(model, pair_batch())
        out.square().sum().backward()
        found.append([out, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert len(found[0]) == len(found[1])
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, atol=1e-6 * max(1.0, float(theirs.abs().max())), rtol=0)
