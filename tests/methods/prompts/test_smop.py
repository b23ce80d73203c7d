"""SMoP: each example's own choice in any batch, noise in training alone, an orthogonal router."""

import pytest
import torch

from fairseq_idpg.backbone.injection import States
from tests.contract import Row
from tests.helpers import enlarge, logits, pair_batch, tiny_model
from tests.models.started import made


def by_hand(method, number, text):
    """The k best of the prompts times their shares."""
    shares = (method.router @ (sum(text.words) / len(text.words))).softmax(0)
    prompts = method.table[number].chunk(method.prompts)
    best = sorted(range(method.prompts), key=lambda i: -shares[i])[: method.chosen]
    return sum(shares[i] * prompts[i] for i in best)


CONTRACT = {
    "smop": Row(
        *(24_576, "table router", by_hand),
        variants=({"smop_chosen": 2, "smop_prompts": 3},),
        published={"prompt_init": "standard-normal", "smop_noise": "multiply"},
    )
}


def model_of(**options):
    model = tiny_model(method="smop", **options)
    enlarge(model)
    return model


def test_the_released_code_drops_a_fifth_of_the_logits_in_training():
    method, clean = model_of(smop_noise="dropout").method, torch.ones(2000, 4)
    assert torch.equal(method.perturbed(clean), clean)
    noisy = method.train().perturbed(clean)
    assert set(noisy.unique().tolist()) == {0.0, 1.25} and 0.17 < noisy.eq(0).float().mean() < 0.23


def test_the_noise_is_a_factor():
    """1 + N(0, 1), as released: a large logit is moved further than a small one, and 0 stays 0. It has no gradient."""
    torch.manual_seed(0)
    clean, method = torch.tensor([0.0, 0.5, -3.0, 40.0]).repeat(5000, 1).requires_grad_(), model_of().method
    assert torch.equal(method.perturbed(clean), clean)
    noisy = method.train().perturbed(clean)
    factors = noisy[:, 1:] / clean[:, 1:]
    assert not noisy[:, 0].any() and torch.equal(torch.autograd.grad(noisy.sum(), clean)[0], torch.ones(5000, 4))
    torch.testing.assert_close(factors.mean(0), torch.ones(3), atol=0.06, rtol=0)
    torch.testing.assert_close(factors.std(0), torch.ones(3), atol=0.06, rtol=0)


@pytest.mark.parametrize("method", ["smop", "pt-moe", "dynamic-prompt"])
def test_noise_is_drawn_once_in_a_training_pass_for_all_places(method):
    model, drawn = tiny_model(method=method, prompt_layers="all", prompt_length=2), []
    draw = model.method.draw
    model.method.draw = lambda values: drawn.append(1) or draw(values)
    logits(model, pair_batch())
    logits(model.train(), pair_batch())
    assert drawn == [1]


def test_the_router_starts_orthogonal():
    router = tiny_model(method="smop").method.router
    torch.testing.assert_close(router @ router.t(), torch.eye(4), atol=1e-6, rtol=0)


def plain_balance(router, means, chosen):
    """The released formula, choice by choice: n sum_i f_i p_i."""
    weights = [(router @ mean).softmax(0) for mean in means]
    count = len(router)
    picked = [i for p in weights for i in sorted(range(count), key=lambda i: -p[i])[:chosen]]
    shares = [picked.count(i) / len(picked) for i in range(count)]
    return count * sum(shares[i] * sum(p[i] for p in weights) / len(weights) for i in range(count))


@pytest.mark.parametrize("chosen", [1, 2])
def test_load_balance_is_the_released_formula(chosen):
    """The gradient reaches the router through the mean weights alone."""
    method = model_of(smop_chosen=chosen, smop_noise="none", smop_balance=0.25).method.train()
    means = torch.randn(40, 32)
    method.begin_pass(None)(0, States(means[None]))
    expected = 0.25 * plain_balance(method.router, means, chosen)
    found = method.extra_loss()
    torch.testing.assert_close(found, expected)
    ours, theirs = (torch.autograd.grad(loss, method.router)[0] for loss in (found, expected))
    assert theirs.abs().max() > 1e-3
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-4)
    method.eval().begin_pass(None)(0, States(means[None]))
    assert method.extra is None


def test_load_balance_is_not_computed_in_half_precision():
    method, logits = model_of(smop_noise="none").method, torch.randn(9, 4).half()
    assert torch.equal(method.imbalance(logits), method.imbalance(logits.float()))


def test_load_balance_where_every_prompt_is_chosen():
    """n sum_i p_i / n = 1 whatever the router does."""
    method = model_of(smop_chosen=4).method
    assert method.imbalance(torch.randn(9, 4)).item() == pytest.approx(1)
    made("smop", smop_chosen=3, smop_balance=0.5)
