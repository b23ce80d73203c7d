"""Parallel adapters: beside a sublayer or beside the heads of attention, and the factor of what they make."""

import pytest
import torch
from torch import nn

from tests.contract import Row
from tests.helpers import enlarge, logits, pair_batch, tiny_model
from tests.methods.adapters.test_adapters import DENSE, branch

HEADS = "adapter-multihead-parallel"


def scale_of(method, k):
    return method.scale[k] if torch.is_tensor(method.scale) else method.scale


def beside(method, layer):
    """f + s adapter(x), or behind a sublayer: f + s adapter(f)."""
    if layer not in method.layers:
        return {}

    def of(name):
        if name not in method.sublayers:
            return None
        k = len(method.sublayers) * method.layers.index(layer) + method.sublayers.index(name)
        adapter = branch(method, k, torch.relu)
        return lambda f, x, norm: f + scale_of(method, k) * adapter(f if method.sequential else x)

    return {"adapters": (of("attention"), of("FFN"))}


def beside_heads(method, layer):
    """s W_up,h ReLU(W_down,h q_h + b_down,h) + s b_up,h, token by token and head by head."""
    if layer not in method.layers:
        return {}
    i, width = method.layers.index(layer), method.width // method.heads

    def of_token(query):
        parts = []
        for h in range(method.heads):
            own = slice(h * width, (h + 1) * width)
            hidden = (query[own] @ method.down[i, h] + method.down_bias[i, h]).relu()
            parts.append(hidden @ method.up[i, h] + method.up_bias[i, own])
        return scale_of(method, i) * torch.cat(parts)

    return {"additions": {"heads": lambda queries: torch.stack([of_token(query) for query in queries])}}


PLACES = ("ffn", "attention", "both")
VARIANTS = (
    *({"adapter_place": place, "adapter_scale": s, "adapter_layers": "0,2"} for place in PLACES for s in ("1", "0.5")),
    *({"adapter_place": place, "adapter_reads": "output", "adapter_scale": "learned"} for place in PLACES),
)
OF_ALL = {"adapter_dropout": 0.1, "adapter_activation": "relu"}
CONTRACT = {
    "adapter-parallel": Row(
        811_392, DENSE, beside, start=0, variants=VARIANTS, published={**OF_ALL, "adapter_scale": "1"}
    ),
    "adapter-scaled-parallel": Row(811_392, DENSE, beside, start=0, published={**OF_ALL, "adapter_scale": "4"}),
    HEADS: Row(
        *(24 * (2 * 16 * 1024 + 16 * 16 + 1024), DENSE, beside_heads),
        start=0,
        variants=tuple({"adapter_scale": scale, "adapter_layers": "0,2"} for scale in ("4", "learned")),
        published={**OF_ALL, "adapter_scale": "1"},
    ),
}


@pytest.mark.parametrize("name", ["adapter-parallel", "adapter-scaled-parallel", HEADS])
def test_dropout_falls_on_the_hidden_layer_alone(name):
    class Seen(nn.Identity):
        def forward(self, x):
            widths.append(x.size(-1))
            return x

    model, widths = tiny_model(method=name, adapter_hidden_size=6), []
    enlarge(model)
    model.method.dropout = Seen()
    logits(model, pair_batch())
    assert widths == [6] * 3


@pytest.mark.parametrize("method", ["adapter-parallel", HEADS])
def test_a_learned_scale_begins_at_1_in_each_layer(method):
    assert torch.equal(tiny_model(method=method, adapter_scale="learned").method.scale, torch.ones(3))
