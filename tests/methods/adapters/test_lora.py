"""LoRA: its equation written out, what it starts as, and its place in the weights for prediction."""

import pytest
import torch

from fairseq_idpg.backbone.injection import NOTHING
from fairseq_idpg.methods.adapters.lora import LINEARS
from tests.contract import Row
from tests.helpers import enlarge, logits, pair_batch, tiny_model

SOME = [("q,v", "all"), ("all", "0,2"), ("fc2, k", "1"), ("out,fc1", "all")]


def lora(projections: str = "q,v", layers: str = "all", **options):
    """A tiny model of rank 3 whose every parameter matters."""
    more = {"lora_projections": projections, "lora_layers": layers, "lora_rank": 3, "lora_alpha": 5.0}
    model = tiny_model(**{"method": "lora", **more, **options})
    enlarge(model)
    return model


def by_hand(method, layer):
    """alpha / r B A x beside W x of a layer, entry by entry of the rank."""
    if layer not in method.layers:
        return {}
    i, rank = method.layers.index(layer), method.rank

    def change(a, b):
        return lambda x: method.scale * sum(torch.outer(x @ a[k], b[:, k]) for k in range(rank))

    return {"additions": {name: change(method.a[name][i], method.b[name][i]) for name in method.a}}


def names(*linears: str) -> str:
    return " ".join(f"{which}.{linear}" for linear in linears for which in "ab")


CONTRACT = {
    "lora": Row(
        *(786_432, names("q_proj", "v_proj"), by_hand),
        start=0,
        variants=tuple({"lora_projections": p, "lora_layers": layers, "lora_alpha": 5.0} for p, layers in SOME),
        published={"lora_alpha": 16.0, "lora_dropout": 0.0},
    ),
    "lora-all": Row(3_538_944, names(*LINEARS.values()), by_hand, start=0, published={"lora_alpha": 16.0}),
}


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
    linears = [LINEARS[short.strip()] for short in projections.replace("all", ",".join(LINEARS)).split(",")]
    expected = [f"layers.{layer}.{linear}.weight" for layer in model.method.layers for linear in linears]
    assert {name.partition("sentence_encoder.")[2].replace("self_attn.", "") for name in changed} == {*expected}


@pytest.mark.parametrize("use", [lambda m: m.state_dict(), lambda m: m.train(), lambda m: m.load_state_dict({})])
def test_merged_it_is_neither_saved_nor_trained(use):
    model = lora()
    model.merge_method()
    with pytest.raises(RuntimeError, match="merged into the backbone's weights for prediction: load the model anew"):
        use(model)


def test_m_of_x_stays_the_untouched_backbones():
    """A method that reads M(x) keeps LoRA beside the weights; another prompt does not need it there."""
    for other, merged in (("s-idpg-phm", False), ("p-tuning-v2", True)):
        model = lora(method=f"lora+{other}")
        before = logits(model, pair_batch())
        model.merge_method()
        assert model.method.merged == merged
        torch.testing.assert_close(logits(model, pair_batch()), before, atol=2e-5, rtol=2e-5)
