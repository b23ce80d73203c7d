"""Adapters: their equations written out with loops, their initial values, what they train and save."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.base import Geometry
from fairseq_idpg.methods.phm import kronecker_sum
from fairseq_idpg.methods.registry import PRESETS
from fairseq_idpg.representations.kinds import sentence_representation
from tests.helpers import ALWAYS_SAVED, PAD, TINY, logits, model_args, pair_batch, single_batch, stock_twin, tiny_model
from tests.methods.adapters.presets import (
    ADAPTERS,
    HEAD,
    LAYER_NORMS,
    OWN,
    PLAIN,
    adapted,
    plain_adapters,
    trained_in_two_steps,
)
from tests.plain import plain_adapter, plain_embedding, plain_layer

SIDE = st.integers(1, 4)


@pytest.mark.parametrize("layers", ["all", "0,2"])
@pytest.mark.parametrize("name", ADAPTERS)
def test_equations(name, layers):
    """The whole encoder with adapters in it, each example alone, token by token."""
    model = adapted(name, adapter_layers=layers)
    stack, adapters = model.encoder.sentence_encoder, plain_adapters(model)
    with torch.no_grad():
        features, _ = model(pair_batch(), features_only=True)
        for example, row in enumerate(pair_batch()):
            x = plain_embedding(stack, row[row != PAD])
            for i, layer in enumerate(stack.layers):
                x = plain_layer(layer, x, adapters=adapters.get(i, (None, None)))
            torch.testing.assert_close(features[example, : len(x)], x, atol=2e-5, rtol=2e-5)


@settings(max_examples=40)
@given(n=SIDE, r=SIDE, s=SIDE, batch=SIDE, shared=st.booleans(), seed=st.integers(0, 2**31))
def test_batched_kronecker_sum_of_rank_one_matrices(n, r, s, batch, shared, seed):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    a, left, right = draw(1 if shared else batch, n, n, n), draw(batch, n, r), draw(batch, n, s)
    ours = kronecker_sum(a, left[..., None] * right[..., None, :])
    for k in range(batch):
        parts = [torch.kron(a[0 if shared else k, i], torch.outer(left[k, i], right[k, i])) for i in range(n)]
        torch.testing.assert_close(ours[k], sum(parts), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", ["adapter", "adapter-drop", "compacter-shared"])
def test_start_is_the_untouched_backbone(name):
    """Near-identity initial values: features move by less than 1e-4, logits by less than 1e-4."""
    model = tiny_model(method=name)
    features, _ = model(pair_batch(), features_only=True)
    expected, _ = stock_twin(model)(pair_batch(), features_only=True)
    real = pair_batch().ne(PAD)
    assert 0 < (features - expected)[real].abs().max() < 1e-4


def uniform(side: int) -> float:
    """Standard deviation of Glorot's uniform distribution with gain sqrt 2 for side x 1."""
    return math.sqrt(2) * math.sqrt(6 / (side + 1)) / math.sqrt(3)


@pytest.mark.parametrize(
    ("name", "stds"),
    [
        # a normal distribution cut at two standard deviations keeps 0.88 of its own
        ("adapter", {"down": 0.88e-3, "up": 0.88e-3, "down_bias": 0, "up_bias": 0}),
        ("adapter-pfeiffer", {"down": 0.0176, "up": 0.0176, "down_bias": 0, "up_bias": 0}),
        ("adapter-drop", {"down": 0.88e-3, "up": 0.88e-3, "down_bias": 0, "up_bias": 0}),
        ("adapter-scaled-parallel", {"down": 256**-0.5 / math.sqrt(3), "up": 0, "down_bias": 0, "up_bias": 0}),
        ("adapter-multihead-parallel", {"down": 64**-0.5 / math.sqrt(3), "up": 0, "down_bias": 0, "up_bias": 0}),
        ("compacter", {**dict.fromkeys(("a", "down_s", "down_t", "up_s", "up_t", "down_bias"), 0.05), "up_bias": 0.02}),
        (
            "compacter-shared",
            {
                **{"a": 1e-4, "down_s": uniform(64), "up_t": uniform(64), "down_t": uniform(16), "up_s": uniform(16)},
                **{"down_bias": 0, "up_bias": 0},
            },
        ),
    ],
)
def test_initial_values(name, stds):
    torch.manual_seed(0)
    args = model_args(method=name, adapter_hidden_size=64)
    method = PRESETS[name].build(args, Geometry(8, 256, 1024, heads=4))
    assert {key for key, _ in method.named_parameters()} == set(stds)
    for key, parameter in method.named_parameters():
        assert parameter.std().item() == pytest.approx(stds[key], rel=0.2), key
        assert abs(parameter.mean().item()) <= 0.3 * stds[key], key


def test_the_released_codes_start_of_adapters():
    method = PRESETS["adapter"].build(model_args(method="adapter", adapter_init_std=0.02), Geometry(8, 256, 1024))
    assert method.down.std().item() == pytest.approx(0.0176, rel=0.05) and method.down.abs().max() <= 0.04


def test_values_survive_the_models_own_initialisation():
    """RobertaModel draws every Linear again; a method attached too early would lose its values."""
    assert tiny_model(method="adapter").method.down.std().item() == pytest.approx(0.88e-3, rel=0.05)


@pytest.mark.parametrize("norms", ["true", "false", None])
@pytest.mark.parametrize("name", ADAPTERS)
def test_trains_and_saves_its_own_and_the_head_and_layer_norms_when_asked(name, norms):
    """None: the preset's own choice, in which only compacter-shared trains LayerNorms."""
    model = tiny_model(method=name, adapter_hidden_size=8, train_layer_norms=norms)
    trained = norms == "true" or (norms is None and name == "compacter-shared")
    expected = OWN[name] | HEAD | (LAYER_NORMS if trained else set())
    assert trained_in_two_steps(model, pair_batch()) == expected
    assert set(model.state_dict()) == expected | ALWAYS_SAVED
    assert {f"method.{n}" for n, _ in model.method.named_parameters()} == OWN[name]
    assert set(model.encoder.state_dict()) == set(stock_twin(model).encoder.state_dict())


@pytest.mark.parametrize("name", ADAPTERS)
def test_layer_norms_are_not_counted_as_the_methods(name):
    counts = [tiny_model(method=name, train_layer_norms=n).parameter_counts()["method"] for n in ("true", "false")]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", ADAPTERS)
def test_order_and_padding(name):
    model = adapted(name)
    with torch.no_grad():
        for tokens in (pair_batch(), single_batch()):
            together, order = logits(model, tokens), torch.tensor([2, 0, 1])
            wider = torch.nn.functional.pad(tokens, (0, 4), value=PAD)
            torch.testing.assert_close(logits(model, tokens[order]), together[order], atol=1e-5, rtol=0)
            torch.testing.assert_close(logits(model, wider), together, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ADAPTERS)
def test_representation_is_the_backbones_own(name):
    """A pass without an injection, such as the one for M(x), runs without adapters, after one with them too."""
    model = adapted(name)
    expected = stock_twin(model)(pair_batch()[:, :6], features_only=True)[0][:, 0]
    logits(model, pair_batch()[:, :6])
    assert torch.equal(sentence_representation(model.encoder, pair_batch()[:, :6]), expected)


@pytest.mark.parametrize(("name", "on_hidden"), [("adapter", False), ("compacter", True), ("compacter-shared", True)])
def test_dropout_follows_the_mode_and_stands_where_the_released_code_has_it(name, on_hidden):
    """On an adapter's output: zeros and doubled values; with the compacters on its hidden layer before that."""
    model = adapted(name, adapter_dropout=0.5)
    method, f = model.method, torch.randn(7, 1, TINY["encoder_embed_dim"])
    with torch.no_grad():
        adapter = method.injection(None).sublayer(0)[0]
        expected = plain_adapter(method, 0, PLAIN[name][1])(f[:, 0])
        torch.testing.assert_close((adapter(f, f, None) - f)[:, 0], expected, atol=2e-5, rtol=2e-5)
        method.train()
        out = (adapter(f, f, None) - f)[:, 0]
        kept = out.abs() > 1e-6
        assert 0.3 < kept.float().mean() < 0.7
        assert torch.allclose(out[kept], 2 * expected[kept], atol=1e-5) != on_hidden


@pytest.mark.parametrize("half", [True, False])
def test_a_frozen_backbone_takes_no_other_weights_from_a_checkpoint(half):
    """They would be left out of the next checkpoint; equal ones may come, in a coarser precision too."""
    frozen, full = tiny_model(method="adapter"), tiny_model(method="adapter", no_freeze_backbone=True)
    state = (full.bfloat16() if half else full).state_dict()
    frozen.load_state_dict(state)
    state["encoder.sentence_encoder.layers.1.fc1.weight"][0, 0] += 1
    with pytest.raises(InputError, match="another encoder.sentence_encoder.layers.1.fc1.weight .* frozen here"):
        frozen.load_state_dict(state)
    full.load_state_dict(state)


def test_matrices_are_built_once_per_pass(monkeypatch):
    model, calls = adapted("compacter-shared"), []
    original = model.method.matrices
    monkeypatch.setattr(model.method, "matrices", lambda: calls.append(1) or original())
    logits(model, pair_batch())
    assert len(calls) == 1


@pytest.mark.parametrize("name", ADAPTERS)
def test_bfloat16(name):
    model = adapted(name)
    with torch.no_grad():
        expected = logits(model, pair_batch())
        torch.testing.assert_close(logits(model.bfloat16(), pair_batch()).float(), expected, atol=0.04, rtol=0)


@pytest.mark.parametrize(
    ("text", "layers"), [("all", (0, 1, 2)), ("0", (0,)), ("2,1", (1, 2)), ("2,2", (2,)), (" 0, 2", (0, 2))]
)
def test_layers(text, layers):
    assert tiny_model(method="adapter", adapter_layers=text).method.layers == layers


@pytest.mark.parametrize("text", ["3", "-1,0", "some", "0,,1", "", "first"])
def test_impossible_layers(text):
    with pytest.raises(InputError, match=f"--adapter-layers {text}: "):
        tiny_model(method="adapter", adapter_layers=text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "adapter", "adapter_layers": "0,3"}, "--adapter-layers 0,3: layers count from 0 to 2"),
        ({"method": "adapter", "adapter_hidden_size": 0}, "--adapter-hidden-size 0 is no size"),
        ({"method": "adapter", "adapter_dropout": 1.0}, "--adapter-dropout 1.0 is no rate"),
        ({"method": "adapter", "adapter_init_std": 0.0}, "--adapter-init-std 0.0 would give the matrices no gradient"),
        ({"method": "compacter", "compacter_n": 3}, "--compacter-n 3 does not divide the width d = 32"),
        (
            {"method": "compacter", "adapter_hidden_size": 6},
            "--compacter-n 4 does not divide --adapter-hidden-size m = 6",
        ),
        ({"method": "compacter-shared", "compacter_n": 0}, "--compacter-n 0 is no factor"),
        ({"method": "adapter", "compacter_n": 4}, "--compacter-n 4 has no effect with --method adapter"),
        ({"method": "compacter", "adapter_init_std": 0.1}, "--adapter-init-std 0.1 has no effect with"),
        ({"method": "compacter", "prompt_length": 5}, "--prompt-length 5 has no effect with --method compacter"),
        ({"method": "m-idpg-phm", "train_layer_norms": "true"}, "--train-layer-norms true has no effect with"),
        ({"method": "prompt-tuning", "adapter_layers": "0"}, "--adapter-layers 0 has no effect with"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(InputError, match=message):
        tiny_model(**options)


def test_log_says_where_adapters_are():
    assert tiny_model(method="adapter").method.describe() == (
        "adapters: after attention and FFN of layers 0,1,2; hidden size 16"
    )
    describe = tiny_model(method="adapter-pfeiffer", adapter_layers="1").method.describe()
    assert describe == "adapters: after FFN of layers 1; hidden size 16"


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("lora", {"lora_alpha": float("nan")}, "--lora-alpha nan would leave"),
        ("lora", {"lora_alpha": float("inf")}, "--lora-alpha inf would leave .*, or no numbers: give more than 0, and"),
        ("adapter", {"adapter_init_std": float("inf")}, "--adapter-init-std inf would give .*, or no numbers: give"),
        ("adapter", {"adapter_init_std": float("nan")}, "--adapter-init-std nan would give"),
        ("adapter-drop", {"adapter_drop": "\u00b2"}, "--adapter-drop \u00b2: give auto"),
    ],
)
def test_numbers_that_are_none(method, options, message):
    with pytest.raises(InputError, match=message):
        tiny_model(method=method, **options)
