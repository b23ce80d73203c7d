"""AdaMix: one expert for each layer and pass, their mean in evaluation, and what two passes add to the loss."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fairseq_idpg.criterions.sentence_prediction_idpg import SentencePredictionIDPGCriterion
from fairseq_idpg.methods.adapters.adamix import divergence
from tests.contract import Row, exact
from tests.criterions.test_extra_loss import criterion_of
from tests.helpers import PAD, enlarge, logits, pair_batch, tiny_model
from tests.plain import plain_embedding, plain_layer

SIDES = ("down", "up")
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0}


def by_hand(method, layer, draws=None):
    """f + adapter(f) after the feed-forward.

    Matrices and biases are the means of the experts', or with ``draws`` (side -> the expert of each layer) their own.
    """

    def of(side):
        if side not in method.experts:
            return getattr(method, side)[layer], getattr(method, f"{side}_bias")[layer]
        values = [each[:, layer] for each in (method.experts[side].weight, method.experts[side].bias)]
        return [each[draws[side][layer]] if draws else sum(each.detach()) / len(each) for each in values]

    (down, down_bias), (up, up_bias) = map(of, SIDES)
    return {"adapters": (None, lambda f, x, norm: f + F.gelu(f @ down + down_bias) @ up + up_bias)}


CONTRACT = {
    "adamix": Row(
        24 * (4 * (16 * 1024 + 16) + 16 * 1024 + 1024),
        *("experts.down.weight experts.down.bias up up_bias", by_hand),
        folded=811_392,  # the paper's 0.8M
        kept="down down_bias",
        variants=({"adamix_shared": "down"}, {"adamix_shared": "none"}),
        published={"adamix_consistency": 1.0, "adapter_dropout": 0.0, "adapter_activation": "gelu"},
    )
}


def made(**options):
    model = tiny_model(method="adamix", **{"adapter_hidden_size": 3, **NO_DROPOUT, **options})
    enlarge(model)
    return model.eval()


def with_draws(model, *draws):
    """Lets the draws of a training pass be these."""
    left = [list(draw) for draw in draws]
    model.method.draw = lambda: left.pop(0)
    return model.train()


@pytest.mark.parametrize("shared", ["up", "down", "none"])
def test_a_training_pass_is_that_of_the_experts_drawn(shared, double_precision):
    """Values and all gradients; both sides are drawn by themselves."""
    model = exact(made(adamix_shared=shared, adamix_experts=3, adamix_consistency=0.0))
    stack = model.encoder.sentence_encoder
    draws = {side: draw for side, draw in zip(SIDES, ([2, 0, 2], [1, 1, 0])) if side != shared}
    ids = pair_batch()[0][pair_batch()[0] != PAD]
    ours = with_draws(model, *draws.values())(ids[None], features_only=True)[0][0]
    plain = plain_embedding(stack, ids)
    for i, layer in enumerate(stack.layers):
        plain = plain_layer(layer, plain, **by_hand(model.method, i, draws))
    torch.testing.assert_close(ours, plain, atol=1e-9, rtol=0)
    trained = dict(model.method.named_parameters())
    draw = torch.randn(32)
    mine, theirs = (torch.autograd.grad(x[0] @ draw, list(trained.values()), allow_unused=True) for x in (ours, plain))
    for name, one, other in zip(trained, mine, theirs):
        torch.testing.assert_close(one, other, atol=1e-8, rtol=1e-6, msg=name)
    gradient = dict(zip(trained, mine))
    for side in draws:
        reached = gradient[f"experts.{side}.weight"].flatten(2).abs().sum(2).ne(0)  # M x N
        assert reached.sum(0).tolist() == [1, 1, 1] and reached.long().argmax(0).tolist() == draws[side]


def test_draws_are_even_and_apart():
    model = made()
    torch.manual_seed(0)
    drawn = torch.tensor([model.method.draw() for _ in range(400)])
    assert drawn.shape == (400, 3) and set(drawn.flatten().tolist()) == {0, 1, 2, 3}
    for expert in range(4):
        assert 0.18 < drawn.eq(expert).float().mean() < 0.32
    for i, j in ((0, 1), (0, 2), (1, 2)):  # each place by itself
        assert 0.15 < drawn[:, i].eq(drawn[:, j]).float().mean() < 0.35


def released_divergence(one, other):
    """The lines of the released code, number by number."""
    total = 0.0
    for a, b in zip(one.tolist(), other.tolist()):
        p, q = ([math.exp(z) / sum(map(math.exp, row)) for z in row] for row in (a, b))
        total += sum(y * (math.log(y) - math.log(x)) + x * (math.log(x) - math.log(y)) for x, y in zip(p, q))
    return 0.5 * total / len(one)


def test_the_divergence_is_the_released_one():
    """Its gradient too: where softmax(other) is a constant, that of a cross entropy with it, halved."""
    one, other = (torch.randn(5, 3, requires_grad=True) for _ in range(2))
    found = divergence(one, other)
    assert found.item() == pytest.approx(released_divergence(one, other), abs=1e-6)
    gradients = torch.autograd.grad(found, (one, other))
    p, q = one.softmax(1), other.softmax(1)
    for gradient, expected in zip(gradients, ((p - q) / 10, (q - p) / 10)):
        torch.testing.assert_close(gradient, expected, atol=1e-6, rtol=1e-4)


def test_the_loss_is_that_of_the_first_pass_and_the_divergence_of_both():
    model = with_draws(made(adamix_consistency=0.5), [0, 1, 2], [3, 3, 3])
    batch = {"net_input": {"src_tokens": pair_batch()}, "target": torch.tensor([0, 1, 1]), "ntokens": 9}
    loss, size, log = criterion_of(SentencePredictionIDPGCriterion)(model, batch)
    first, second = (logits(with_draws(model, draw, [0, 0, 0]), pair_batch()) for draw in ([0, 1, 2], [3, 3, 3]))
    expected = nn.functional.cross_entropy(first, torch.tensor([0, 1, 1]), reduction="sum")
    torch.testing.assert_close(log["loss"], expected.detach())
    torch.testing.assert_close(log["method_loss"], (0.5 * size * divergence(first, second)).detach())
    torch.testing.assert_close(loss.detach(), log["loss"] + log["method_loss"])
    assert log["method_loss"] > 1e-5


@pytest.mark.parametrize(
    ("training", "consistency", "heads", "expected"),
    [(True, 1.0, 2, 2), (True, 0.0, 2, 1), (False, 1.0, 2, 1), (True, 1.0, 1, 1)],
)
def test_a_second_pass_is_for_training_of_classes_with_a_factor_alone(training, consistency, heads, expected):
    model, passes = made(adamix_consistency=consistency, heads=heads).train(training), []
    model.encoder.sentence_encoder.register_forward_hook(lambda *_: passes.append(1))
    logits(model, pair_batch())
    assert len(passes) == expected
    assert heads == 2 or model.method.extra_loss().item() == 0


def test_what_other_methods_add_to_the_loss_is_of_the_first_pass():
    """The released code's task loss is; each pass chooses among SMoP's prompts anew."""
    model = tiny_model(method="smop+adamix", smop_balance=0.5, adamix_consistency=0.25, prompt_init="normal")
    enlarge(model.method)
    smop, adamix = model.train().method.parts
    drawn, passes = iter((torch.zeros(3, 4), torch.randn(3, 4))), []
    smop.draw = lambda logits: next(drawn)
    smop.perturbed = lambda clean, old=smop.perturbed: passes.append(old(clean)) or passes[-1]
    logits(model, pair_batch())
    first, second = (0.5 * smop.imbalance(noisy) for noisy in passes)
    assert (first - second).abs() > 1e-3
    consistency = adamix.extra
    assert consistency > 0 and smop.extra.requires_grad
    torch.testing.assert_close(model.method.extra_loss(), first + consistency)
