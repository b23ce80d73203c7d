"""What a CPU does with less work: dropout, attention with dropout, layers without pads, packed weights."""

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_idpg.backbone import cpu, encoder
from fairseq_idpg.backbone.cpu import (
    ALL,
    PACKED,
    QuickDropout,
    dropped_attention,
    keep_mask,
    pack_linears,
    threshold_and_scale,
)
from fairseq_idpg.methods.registry import PRESETS
from tests.helpers import pair_batch, stock_twin, tiny_model
from tests.models.started import behaviour, made, usual


def quick(p: float, training: bool = True) -> QuickDropout:
    return QuickDropout(p).train(training)


@settings(max_examples=30)
@given(st.floats(0.01, 0.99), st.integers(0, 2**31))
def test_rate_and_scale(p, seed):
    torch.manual_seed(seed)
    x = torch.ones(400, 50)
    out = quick(p)(x)
    _, scale = threshold_and_scale(p)
    assert all(value in (0.0, pytest.approx(scale)) for value in out.unique().tolist())
    sd = (p * (1 - p) / x.numel()) ** 0.5
    assert abs((out != 0).float().mean().item() - (1 - p)) < 6 * sd + 2**-16
    assert scale == pytest.approx(1 / (1 - p), rel=2e-3)
    assert threshold_and_scale(0.1) == (6554, 2**16 / (2**16 - 6554))  # of 6553.6 steps


def test_draws_are_independent_of_each_other():
    """Neighbours come from one 64-bit draw: their joint rates are those of independent elements."""
    torch.manual_seed(0)
    kept = keep_mask(torch.empty(400_000, 4), round(0.3 * 2**16)).double()
    joint = kept.T @ kept / len(kept)
    expected = torch.full((4, 4), 0.49).fill_diagonal_(0.7).double()
    assert (joint - expected).abs().max() < 0.005
    rows = kept[:-1].T @ kept[1:] / (len(kept) - 1)
    assert (rows - 0.49).abs().max() < 0.005


def test_gradient_is_that_of_the_mask():
    x = torch.randn(6, 7, dtype=torch.double, requires_grad=True)
    out = quick(0.4)(x)
    out.sum().backward()
    assert torch.equal(x.grad != 0, out != 0)
    assert torch.allclose(x.grad * x.detach(), out.detach())


@pytest.mark.parametrize(("p", "training"), [(0.5, False), (0.0, True), (1.0, True)])
def test_nothing_to_draw(p, training):
    x = torch.randn(5, 3)
    assert torch.equal(quick(p, training)(x), F.dropout(x, p, training))


@pytest.mark.parametrize("keys", [5, 8])
@pytest.mark.parametrize("masked", [True, False])
def test_attention_and_its_gradients(monkeypatch, keys, masked):
    """Against autograd through plain operations with the same mask."""
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 3, n, 4, dtype=torch.double, requires_grad=True) for n in (5, keys, keys))
    part = torch.ones(2, 1, 1, keys, dtype=torch.bool)
    part[1, :, :, -2:] = False
    mask = torch.rand(2, 3, 5, keys) > 0.3
    monkeypatch.setattr(cpu, "keep_mask", lambda like, threshold: mask)
    p = 0.25
    bias = torch.zeros(part.shape, dtype=q.dtype).masked_fill(~part, float("-inf"))
    out = dropped_attention(q, k, v, bias if masked else None, p)
    scores = q @ k.transpose(-1, -2) / 2
    if masked:
        scores = scores.masked_fill(~part, float("-inf"))
    expected = (scores.softmax(-1) * mask / (1 - p)) @ v
    torch.testing.assert_close(out, expected, atol=1e-12, rtol=0)
    weights = torch.randn_like(out)
    ours = torch.autograd.grad((out * weights).sum(), (q, k, v))
    theirs = torch.autograd.grad((expected * weights).sum(), (q, k, v))
    for mine, plain in zip(ours, theirs):
        torch.testing.assert_close(mine, plain, atol=1e-12, rtol=0)


def outcome(model):
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
    # the last layer computes what the head reads, in both
    fewer = {all_tokens - some for some, all_tokens in zip(real, everything)}
    assert fewer - {0} == {int(pair_batch().eq(1).sum())}


def test_with_a_method_the_text_is_that_of_fairseq_and_pads_are_zero():
    model, pads = tiny_model(method="prompt-tuning"), pair_batch().eq(1)
    expected, found = (each.encoder(pair_batch(), features_only=True)[0] for each in (stock_twin(model), model))
    assert pads.any() and expected[pads].abs().min() > 0 and not found[pads].any()
    torch.testing.assert_close(found[~pads], expected[~pads], atol=1e-5, rtol=0)
    whole = pair_batch()[:, :6]
    assert torch.equal(*(each.encoder(whole, features_only=True)[0] for each in (stock_twin(model), model)))


# --- packed weights --------------------------------------------------------------------------------------------------

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")


@needs_onednn
def test_packed_products_and_their_gradients(monkeypatch):
    """Frozen layers alone are packed for a training, all for a prediction; neither a copy nor a file knows of it."""
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(48, 96), torch.nn.ReLU(), torch.nn.Linear(96, 32, bias=False))
    plain.requires_grad_(False)
    plain.append(torch.nn.Linear(32, 8))
    packed = copy.deepcopy(plain)
    pack_linears(packed, trains=True)
    assert [layer in PACKED for layer in packed] == [True, False, True, False]
    calls, product = [], cpu.packed_product
    monkeypatch.setattr(cpu, "packed_product", lambda *given: (calls.append(1), product(*given))[1])
    x = torch.randn(5, 3, 48)
    found = []
    for model in (plain, packed):
        read = x.clone().requires_grad_()
        out = model(read)
        out.square().sum().backward()
        found.append([out.detach(), read.grad, model[3].weight.grad])
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert len(calls) == 4  # two products and their gradients
    pack_linears(packed[3])
    with torch.no_grad():
        torch.testing.assert_close(packed(x), plain(x), rtol=1e-5, atol=1e-5)
    twin = copy.deepcopy(packed)
    assert twin[0] not in PACKED and torch.equal(twin(x), plain(x))
    assert packed.state_dict().keys() == plain.state_dict().keys()


@needs_onednn
@pytest.mark.parametrize("change", ["in place", "another tensor", "half", "trained"])
def test_a_weight_that_changed_is_not_the_packed_one(change):
    layer = torch.nn.Linear(16, 16).requires_grad_(False)
    pack_linears(layer, trains=True)
    if change == "in place":
        layer.load_state_dict({name: value + 1 for name, value in layer.state_dict().items()})
    elif change == "another tensor":
        layer.weight.data = layer.weight + 1
    elif change == "half":
        layer.half()
    else:
        with torch.autocast("cpu"):
            layer.requires_grad_()(torch.ones(1, 16))
        layer.weight.data.add_(1)  # as fairseq's Adam does
    x = torch.randn(4, 16, dtype=layer.weight.dtype, requires_grad=True)
    for with_gradients in (True, False):
        with torch.set_grad_enabled(with_gradients):
            assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))


@needs_onednn
def test_packed_layers_are_recorded_as_plain_ones():
    layer, x = torch.nn.Linear(4, 4).requires_grad_(False), torch.randn(2, 4)
    pack_linears(layer)
    for program in (torch.jit.trace(layer, (x,)), torch.export.export(layer, (x,), strict=False).module()):
        assert torch.equal(program(x), F.linear(x, layer.weight, layer.bias))
    with torch.inference_mode():  # where changes of weights are not counted
        pack_linears(other := torch.nn.Linear(4, 4))
        assert other not in PACKED
