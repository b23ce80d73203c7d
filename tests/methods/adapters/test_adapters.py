"""Bottleneck adapters and compacters: their equations, dropout and layers; LayerNorms that are trained with them."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from fairseq_idpg.errors import InputError
from tests.contract import Row
from tests.helpers import TINY, enlarge, tiny_model

DENSE, FACTORS = "down up down_bias up_bias", "a down_s down_t up_s up_t down_bias up_bias"


def matrices(method, k):
    """W_down (d x m) and W_up (m x d) of the k-th adapter: dense, or W = sum_i A_i (x) (s_i t_i^T)."""
    if hasattr(method, "down"):
        return method.down[k], method.up[k]
    a = method.a[k if len(method.a) > 1 else 0]
    pairs = ((method.down_s, method.down_t), (method.up_s, method.up_t))
    return [sum(torch.kron(a[i], torch.outer(s[k, i], t[k, i])) for i in range(len(a))) for s, t in pairs]


def branch(method, k, activation):
    """The k-th adapter without its skip connection, token by token: T x d -> T x d."""
    down, up = matrices(method, k)

    def of_token(x):
        return activation(x @ down + method.down_bias[k]) @ up + method.up_bias[k]

    return lambda x: torch.stack([of_token(token) for token in x])


def houlsby(method, layer, activation):
    """After attention and after the feed-forward: f + adapter(f)."""
    if layer not in method.layers:
        return {}
    i = method.layers.index(layer)
    first, second = (branch(method, 2 * i + j, activation) for j in range(2))
    return {"adapters": (lambda f, x, norm: f + first(f), lambda f, x, norm: f + second(f))}


def pfeiffer(method, layer):
    """It reads LN(f + x), its skip connection is f."""
    if layer not in method.layers:
        return {}
    adapter = branch(method, method.layers.index(layer), torch.relu)
    return {"adapters": (None, lambda f, x, norm: f + adapter(norm(f + x)))}


SOME = ({"adapter_layers": "0,2"},)
CONTRACT = {
    "adapter": Row(1_622_784, DENSE, partial(houlsby, activation=F.gelu), start=1e-4, variants=SOME),
    "adapter-pfeiffer": Row(811_392, DENSE, pfeiffer, variants=SOME),
    "compacter": Row(
        *(152_832, FACTORS, partial(houlsby, activation=F.gelu)),
        variants=SOME,
        published={"adapter_dropout": 0.1, "adapter_activation": "gelu"},
    ),
    "compacter-shared": Row(
        *(149_824, FACTORS, partial(houlsby, activation=partial(F.gelu, approximate="tanh"))),
        trains=lambda name: "layer_norm" in name or "layernorm" in name,
        **{"of_backbone": (2 * 24 + 1) * 2 * 1024, "start": 1e-4, "variants": SOME},
        published={"adapter_dropout": 0.0, "adapter_activation": "gelu_accurate"},
    ),
}


@pytest.mark.parametrize(("name", "on_hidden"), [("adapter", False), ("compacter", True), ("compacter-shared", True)])
def test_dropout_follows_the_mode_and_stands_where_the_released_code_has_it(name, on_hidden):
    """On an adapter's output: zeros and doubled values; with the compacters on its hidden layer before that."""
    method = tiny_model(method=name, adapter_hidden_size=8, adapter_dropout=0.5).method
    enlarge(method)
    f = torch.randn(7, 1, TINY["encoder_embed_dim"])
    with torch.no_grad():
        adapter = method.injection(None).sublayer(0)[0]
        expected = branch(method, 0, method.activation)(f[:, 0])
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
    with pytest.raises(InputError, match="layers.1.fc1.weight"):
        frozen.load_state_dict(state)
    full.load_state_dict(state)


@pytest.mark.parametrize(
    ("text", "layers"), [("all", (0, 1, 2)), ("0", (0,)), ("2,1", (1, 2)), ("2,2", (2,)), (" 0, 2", (0, 2))]
)
def test_layers(text, layers):
    assert tiny_model(method="adapter", adapter_layers=text).method.layers == layers
