"""What stands beside sublayers or heads, in some layers or for some batches: parallel adapters, AdapterDrop, BitFit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fairseq_idpg import count
from fairseq_idpg.backbone.injection import UNCHANGED
from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.adapters.drop import parse_drop
from tests.helpers import PAD, enlarge, logits, pair_batch, stock_twin, tiny_model
from tests.methods.adapters.presets import PARALLEL, adapted
from tests.plain import plain_embedding, plain_layer, plain_parallel, relu

HEADS = "adapter-multihead-parallel"


def check_plainly(model, adapters=None, additions=None):
    """The whole encoder, each example alone; ``adapters`` and ``additions``: layer -> what is in it."""
    stack = model.encoder.sentence_encoder
    with torch.no_grad():
        features, _ = model(pair_batch(), features_only=True)
        for example, row in enumerate(pair_batch()):
            x = plain_embedding(stack, row[row != PAD])
            for i, layer in enumerate(stack.layers):
                changes = (adapters or {}).get(i, (None, None))
                x = plain_layer(layer, x, adapters=changes, additions=(additions or {}).get(i))
            torch.testing.assert_close(features[example, : len(x)], x, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("scale", ["1", "4", "0.5", "learned"])
@pytest.mark.parametrize("place", ["ffn", "attention", "both"])
def test_equation_of_parallel_adapters(place, scale):
    model = adapted("adapter-parallel", adapter_place=place, adapter_scale=scale, adapter_layers="0,2")
    method = model.method
    assert method.count == (4 if place == "both" else 2)
    check_plainly(model, {layer: plain_parallel(method, i, relu) for i, layer in enumerate(method.layers)})


@pytest.mark.parametrize("place", ["ffn", "attention", "both"])
def test_equation_of_sequential_adapters_of_one_sublayer(place):
    """SA (attn) and SA (ffn) of He et al.; both places are Houlsby's adapter but for the start and the activation."""
    model = adapted("adapter-parallel", adapter_place=place, adapter_reads="output", adapter_layers="0,2")
    method = model.method
    assert "after" in method.describe() and "beside" not in method.describe()
    check_plainly(model, {layer: plain_parallel(method, i, relu, True) for i, layer in enumerate(method.layers)})


def plain_heads(method, i: int):
    """s W_up,h ReLU(W_down,h q_h + b_down,h) + s b_up,h of the i-th layer that has some, token by token."""
    scale = method.scale[i].item() if torch.is_tensor(method.scale) else method.scale
    width = method.width // method.heads

    def beside(queries):
        rows = []
        for token in queries:
            parts = []
            for h in range(method.heads):
                own = slice(h * width, (h + 1) * width)
                hidden = (token[own] @ method.down[i, h] + method.down_bias[i, h]).relu()
                parts.append(hidden @ method.up[i, h] + method.up_bias[i, own])
            rows.append(scale * torch.cat(parts))
        return torch.stack(rows)

    return beside


@pytest.mark.parametrize("scale", ["1", "4", "learned"])
def test_equation_of_multi_head_adapters(scale):
    model = adapted(HEADS, adapter_scale=scale, adapter_layers="0,2")
    method = model.method
    assert method.down.shape == (2, 4, 8, 8)
    check_plainly(model, additions={layer: {"heads": plain_heads(method, i)} for i, layer in enumerate(method.layers)})


@pytest.mark.parametrize("name", [*PARALLEL, HEADS])
def test_start_is_the_untouched_backbone(name):
    model, tokens = tiny_model(method=name), pair_batch()[:, :6]  # without pads, whose absence rounds otherwise
    features, _ = model(tokens, features_only=True)
    assert torch.equal(features, stock_twin(model)(tokens, features_only=True)[0])


@pytest.mark.parametrize("name", [*PARALLEL, HEADS])
def test_dropout_falls_on_the_hidden_layer_alone(name):
    class Seen(nn.Identity):
        def forward(self, x):
            widths.append(x.size(-1))
            return x

    model, widths = adapted(name, adapter_hidden_size=6, adapter_place=None), []
    model.method.dropout = Seen()
    logits(model, pair_batch())
    assert widths == [6] * 3


@pytest.mark.parametrize("scale", ["four", "0", "-1", "nan", "inf"])
def test_impossible_scales(scale):
    with pytest.raises(InputError, match=f"--adapter-scale {scale}"):
        tiny_model(method="adapter-parallel", adapter_scale=scale)


def with_adapters(method) -> list[int]:
    sublayer = method.injection(None).sublayer
    return [layer for layer in range(3) if sublayer(layer) is not UNCHANGED]


@pytest.mark.parametrize(("drop", "left"), [("auto", [1, 2]), ("0", [0, 1, 2]), ("2", [2])])
def test_first_layers_have_no_adapters(drop, left):
    method = tiny_model(method="adapter-drop", adapter_drop=drop).method
    assert with_adapters(method) == list(method.layers) == left
    assert method.down.shape[0] == 2 * len(left)


def test_the_paper_drops_5_of_12():
    assert [parse_drop("auto", layers) for layers in (24, 12, 8, 4)] == [10, 5, 3, 1]


def test_a_layer_is_drawn_for_each_training_batch():
    """Every number of layers comes up; evaluation has its own; a seed gives the same draws again."""
    method = tiny_model(method="adapter-drop", adapter_drop="2", adapter_drop_random=True).method
    assert method.layers == (0, 1, 2) and all(with_adapters(method) == [2] for _ in range(30))
    assert "above a layer drawn for each batch, in evaluation above the first 2" in method.describe()
    method.train()
    draws = []
    for _ in range(2):
        torch.manual_seed(1)
        draws.append([with_adapters(method) for _ in range(30)])
    assert draws[0] == draws[1]
    assert {tuple(draw) for draw in draws[0]} == {(0, 1, 2), (1, 2), (2,)}


def test_some_adapter_is_used_in_every_batch():
    options = {"adapter_drop": "0", "adapter_layers": "0,1", "adapter_drop_random": True}
    method = tiny_model(method="adapter-drop", **options).method.train()
    assert {tuple(with_adapters(method)) for _ in range(30)} == {(0, 1), (1,)}


def test_what_is_not_used_has_no_gradient_and_no_part_in_the_pass():
    model = adapted("adapter-drop", adapter_drop="1", adapter_drop_random=True)
    whole = adapted("adapter-drop", adapter_drop="1")
    with torch.no_grad():
        for name, parameter in whole.method.named_parameters():
            parameter.copy_(getattr(model.method, name)[2:])
    whole.classification_heads.load_state_dict(model.classification_heads.state_dict())
    whole.encoder.load_state_dict(model.encoder.state_dict())
    out = logits(model, pair_batch())
    assert torch.equal(out, logits(whole, pair_batch()))
    out.sum().backward()
    assert not model.method.down.grad[:2].any() and model.method.down.grad[2:].flatten(1).any(1).all()


@pytest.mark.parametrize("drop", ["3", "-1", "some", "1.5", ""])
def test_impossible_numbers_of_layers(drop):
    with pytest.raises(InputError, match=f"--adapter-drop {drop}: give auto or a number of layers from 0 to 2"):
        tiny_model(method="adapter-drop", adapter_drop=drop)


@pytest.mark.parametrize("drawn", [True, False])
def test_no_adapter_left(drawn):
    options = {"adapter_drop": "2", "adapter_layers": "0,1", "adapter_drop_random": drawn}
    with pytest.raises(InputError, match="--adapter-drop 2 leaves no adapter in --adapter-layers 0,1"):
        tiny_model(method="adapter-drop", **options)


@pytest.mark.parametrize("norms", ["true", "false"])
def test_bitfit_trains_the_biases_and_counts_them(norms):
    model = tiny_model(method="bitfit", bitfit_layer_norms=norms)
    trained = {name for name, p in model.encoder.named_parameters() if p.requires_grad}
    biases = {name for name, _ in model.encoder.named_parameters() if name.endswith(".bias") and "lm_head" not in name}
    assert trained == {name for name in biases if norms == "true" or "norm" not in name}
    row = count.count_preset("roberta_idpg_large", "bitfit")
    assert (row.own, row.of_backbone) == (0, 271_360)


def test_bitfit_without_layer_norms_at_large():
    method = tiny_model(method="bitfit", bitfit_layer_norms="false").method
    sizes = count.backbone_sizes(count.architecture("roberta_idpg_large", "bitfit"))
    assert sum(size for name, size in sizes.items() if method.trains(name)) == 221_184


def test_bitfit_moves_the_pass_as_its_biases_say():
    """The equation is the backbone's own."""
    model = tiny_model(method="bitfit")
    enlarge(model)
    check_plainly(model)


@pytest.mark.parametrize("method", ["adapter-parallel", "adapter-multihead-parallel"])
def test_a_learned_scale_begins_at_1_in_each_layer(method):
    assert torch.equal(tiny_model(method=method, adapter_scale="learned").method.scale, torch.ones(3))
