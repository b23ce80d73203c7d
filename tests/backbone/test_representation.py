"""M(x): the last <s> state, without gradient and by default without dropout."""

from __future__ import annotations

import torch

from fairseq_idpg.backbone.representation import evaluating, sentence_representation
from tests.helpers import pair_batch, tiny_model


def test_is_the_last_sentence_state_without_gradient():
    model = tiny_model(method="head-only", no_freeze_backbone=True)
    expected = model.encoder(pair_batch(), features_only=True)[0][:, 0]
    out = sentence_representation(model.encoder, pair_batch())
    assert torch.equal(out, expected) and not out.requires_grad


def test_dropout_only_on_request():
    model = tiny_model(method="head-only", dropout=0.5).train()
    evaluated = sentence_representation(model.encoder, pair_batch())
    assert torch.equal(evaluated, sentence_representation(model.encoder, pair_batch()))
    noisy = sentence_representation(model.encoder, pair_batch(), dropout=True)
    assert not torch.allclose(noisy, evaluated)
    assert model.encoder.training and all(m.training for m in model.encoder.modules())


def test_mode_is_put_back_after_an_error():
    model = tiny_model(method="head-only").train()
    try:
        with evaluating(model.encoder):
            assert not model.encoder.training
            raise KeyError
    except KeyError:
        assert model.encoder.training
