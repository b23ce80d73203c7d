"""SMoP: each example's own choice in any batch, noise in training alone, an orthogonal router."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.backbone.injection import States
from tests.helpers import enlarge, logits, pair_batch, tiny_model


def model_of(**options):
    model = tiny_model(method="smop", **options)
    enlarge(model)
    return model


@torch.no_grad()
def test_an_example_gets_its_prompt_in_any_batch():
    """The released code adds up the choices of a batch."""
    method = model_of().method
    states = States(torch.randn(7, 40, 32), torch.rand(40, 7) > 1)
    rows = method.begin_pass(None)(0, states)
    for i in range(40):
        alone = method.begin_pass(None)(0, States(states.x[:, i : i + 1], states.padding[i : i + 1]))
        torch.testing.assert_close(alone[0], rows[i])
    chosen = method.weights(method.logits(states)).ne(0)
    assert chosen.sum(1).eq(1).all() and chosen.any(0).sum() > 1


@pytest.mark.parametrize(("noise", "same"), [("multiply", False), ("dropout", False), ("none", True)])
def test_noise_is_for_training(noise, same):
    method = model_of(smop_noise=noise).method.train()
    clean = torch.full((200, 4), 2.0)
    assert torch.equal(method.perturbed(clean), clean) == same
    assert torch.equal(method.eval().perturbed(clean), clean)


def test_the_noise_has_no_gradient():
    method = model_of().method.train()
    clean = torch.randn(5, 4, requires_grad=True)
    method.perturbed(clean).sum().backward()
    assert torch.equal(clean.grad, torch.ones(5, 4))


def test_places_of_one_pass_share_the_choice():
    model = model_of(prompt_layers="all").train()
    drawn = []
    model.method.draw = lambda values: drawn.append(1) or torch.randn_like(values)
    logits(model, pair_batch())
    assert drawn == [1]


def test_the_router_starts_orthogonal():
    router = tiny_model(method="smop").method.router
    torch.testing.assert_close(router @ router.t(), torch.eye(4), atol=1e-6, rtol=0)
