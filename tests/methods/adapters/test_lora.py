"""LoRA: its equation written out, what it starts as, what it refuses, and its place in the weights for prediction."""

from __future__ import annotations

import pytest
import torch

from fairseq_idpg.backbone.injection import NOTHING
from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.adapters.lora import LINEARS
from tests.helpers import PAD, enlarge, logits, pair_batch, stock_twin, tiny_model
from tests.plain import plain_embedding, plain_layer

SOME = [("q,v", "all"), ("all", "0,2"), ("fc2, k", "1"), ("out,fc1", "all")]


def lora(projections: str = "q,v", layers: str = "all", **options):
    """A tiny model of rank 3 whose every parameter matters."""
    more = {"lora_projections": projections, "lora_layers": layers, "lora_rank": 3, "lora_alpha": 5.0}
    model = tiny_model(**{"method": "lora", **more, **options})
    enlarge(model)
    return model


def written_out(method) -> dict[int, dict]:
    """Layer -> Linear -> 5/3 B A x, entry by entry of the rank."""

    def change(a, b):
        return lambda x: 5 / 3 * sum(torch.outer(x @ a[k], b[:, k]) for k in range(3))

    return {
        layer: {name: change(method.a[name][i], method.b[name][i]) for name in method.a}
        for i, layer in enumerate(method.layers)
    }


@pytest.mark.parametrize(("projections", "layers"), SOME)
def test_equation(projections, layers):
    model = lora(projections, layers)
    stack, additions = model.encoder.sentence_encoder, written_out(model.method)
    with torch.no_grad():
        features, _ = model(pair_batch(), features_only=True)
        for example, row in enumerate(pair_batch()):
            x = plain_embedding(stack, row[row != PAD])
            for i, layer in enumerate(stack.layers):
                x = plain_layer(layer, x, additions=additions.get(i))
            torch.testing.assert_close(features[example, : len(x)], x, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("name", ["lora", "lora-all"])
def test_start_is_the_untouched_backbone_and_a_is_drawn_as_a_linear_is(name):
    model, tokens = tiny_model(method=name), pair_batch()[:, :6]  # without pads, whose absence rounds otherwise
    assert torch.equal(model(tokens, features_only=True)[0], stock_twin(model)(tokens, features_only=True)[0])
    for linear, a in model.method.a.items():
        read = 64 if linear == "fc2" else 32
        assert a.shape == (3, 8, read) and read**-0.5 * 0.9 < a.abs().max() <= read**-0.5


def test_dropout_falls_on_the_input_of_the_change():
    method = lora(lora_dropout=0.5).method
    x, change = torch.randn(5, 2, 32), method.injection(None).projection(1).v_proj
    a, b = method.a["v_proj"][1], method.b["v_proj"][1]
    with torch.no_grad():
        torch.testing.assert_close(change(x), 5 / 3 * x @ a.T @ b.T)
        method.train()
        torch.manual_seed(3)
        dropped = method.dropout(x)
        torch.manual_seed(3)
        torch.testing.assert_close(change(x), 5 / 3 * dropped @ a.T @ b.T)
    assert 0.3 < dropped.eq(0).float().mean() < 0.7


@pytest.mark.parametrize(("projections", "layers"), SOME)
def test_merged_for_prediction_it_says_the_same(projections, layers):
    model = lora(projections, layers)
    before, weights = logits(model, pair_batch()), {n: w.clone() for n, w in model.encoder.named_parameters()}
    model.merge_method()
    model.merge_method()  # once is enough
    assert model.method.injection(None) is NOTHING
    torch.testing.assert_close(logits(model, pair_batch()), before, atol=2e-5, rtol=2e-5)
    changed = {name for name, weight in model.encoder.named_parameters() if not torch.equal(weight, weights[name])}
    ends = tuple(
        f"{LINEARS[short.strip()]}.weight" for short in projections.replace("all", ",".join(LINEARS)).split(",")
    )
    assert changed == {
        name for name in weights for layer in model.method.layers if f"layers.{layer}." in name and name.endswith(ends)
    }


@pytest.mark.parametrize("use", [lambda m: m.state_dict(), lambda m: m.train(), lambda m: m.load_state_dict({})])
def test_merged_it_is_neither_saved_nor_trained(use):
    model = lora()
    model.merge_method()
    with pytest.raises(RuntimeError, match="merged into the backbone's weights for prediction: load the model anew"):
        use(model)


def test_saving_and_evaluation_leave_the_backbones_weights_alone():
    model = lora(save_full_model=True)
    before = {name: weight.clone() for name, weight in model.encoder.named_parameters()}
    for training in (True, False, True, False):
        logits(model.train(training), pair_batch())
        state = model.state_dict()
    assert all(torch.equal(state[f"encoder.{name}"], weight) for name, weight in before.items())


def test_m_of_x_stays_the_untouched_backbones():
    """A method that reads M(x) keeps LoRA beside the weights; another prompt does not need it there."""
    for other, merged in (("s-idpg-phm", False), ("p-tuning-v2", True)):
        model = lora(method=f"lora+{other}", **({"phm_n": 4} if other == "s-idpg-phm" else {}))
        before = logits(model, pair_batch())
        model.merge_method()
        assert model.method.merged == merged
        torch.testing.assert_close(logits(model, pair_batch()), before, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("other", ["adapter", "prompt-tuning", "p-tuning-v2-kv", "bitfit", "adapter-parallel"])
def test_with_a_method_at_another_place_both_are_trained(other):
    model = lora(method=f"lora+{other}").train()
    logits(model, pair_batch()).square().sum().backward()
    still = {name for name, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.any())}
    assert all(name.endswith("k_proj.bias") for name in still)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lora_rank": 0}, "--lora-rank 0 is no rank"),
        ({"lora_alpha": 0.0}, "--lora-alpha 0.0 would leave the matrices as they are"),
        ({"lora_dropout": 1.0}, "--lora-dropout 1.0 is no rate"),
        ({"lora_projections": "q,w"}, "--lora-projections q,w: give all or a list of q, k, v, out, fc1, fc2"),
        ({"lora_projections": ""}, "--lora-projections : give all"),
        ({"lora_layers": "0,3"}, "--lora-layers 0,3: layers count from 0 to 2"),
        ({"method": "adapter", "lora_rank": 4}, "--lora-rank 4 has no effect with --method adapter"),
        ({"method": "lora+lora-all"}, "lora and lora-all share --lora-rank"),
        ({"method": "lora+adapter-multihead-parallel"}, r"parallel enter at the same place \(projection\): choose one"),
    ],
)
def test_impossible_options(options, message):
    with pytest.raises(InputError, match=message):
        tiny_model(**{"method": "lora", **options})


def test_bfloat16():
    model = lora("all")
    with torch.no_grad():
        expected = logits(model, pair_batch())
        torch.testing.assert_close(logits(model.bfloat16(), pair_batch()).float(), expected, atol=0.1, rtol=0.05)


def test_log_says_what_is_changed():
    described = tiny_model(method="lora", lora_projections="v,q", lora_layers="0,2").method.describe()
    assert described == "LoRA: q_proj,v_proj of layers 0,2; rank 8"
