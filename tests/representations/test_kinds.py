"""M(x): by default without gradient and without dropout; a mean over words of which there may be none."""

import pytest
import torch

from fairseq_idpg.representations.kinds import sentence_representation
from tests.helpers import PAD, logits, pair_batch, tiny_model


def test_the_mean_of_no_words_is_0():
    """That of some is compared in tests/methods."""
    encoder = tiny_model(method="head-only").encoder
    found = sentence_representation(encoder, torch.tensor([[0, 5, 2], [0, 2, PAD]]), kind="token-mean")
    assert torch.equal(found, torch.stack([encoder.sentence_encoder.embed_tokens.weight[5], torch.zeros(32)]))


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("dropout", [False, True])
def test_evaluation_mode_and_gradient_are_two_things(trained, dropout):
    """M(x) has a gradient if and only if the backbone is trained; dropout only on request; no mode stays changed."""
    options = {"no_freeze_backbone": trained, "representation_dropout": dropout, "dropout": 0.5}
    model = tiny_model(method="s-idpg-phm", phm_n=4, **options).train()
    seen, begin_pass = [], model.method.begin_pass
    model.method.begin_pass = lambda representation: (seen.append(representation), begin_pass(representation))[1]
    logits(model, pair_batch()).sum().backward()
    assert seen[0].requires_grad == trained
    assert all(module.training for module in model.encoder.modules())
    plain = model.eval().encoder(pair_batch(), features_only=True)[0][:, 0]
    assert torch.allclose(seen[0], plain, atol=1e-5) != dropout
    with torch.no_grad():
        logits(model, pair_batch())
    assert not seen[1].requires_grad
