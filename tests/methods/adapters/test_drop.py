"""AdapterDrop: layers without adapters, the same for all batches or drawn for each."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from fairseq_idpg.backbone.injection import UNCHANGED
from tests.contract import Row
from tests.helpers import enlarge, logits, pair_batch, tiny_model
from tests.methods.adapters.test_adapters import DENSE, SOME, houlsby

CONTRACT = {
    "adapter-drop": Row(  # in the upper 14 of 24 layers
        14 * 2 * (2 * 16 * 1024 + 16 + 1024), DENSE, partial(houlsby, activation=F.gelu), start=1e-4, variants=SOME
    )
}


def with_adapters(method) -> list[int]:
    sublayer = method.injection(None).sublayer
    return [layer for layer in range(3) if sublayer(layer) is not UNCHANGED]


@pytest.mark.parametrize(("drop", "left"), [("auto", [1, 2]), ("0", [0, 1, 2]), ("2", [2])])
def test_first_layers_have_no_adapters(drop, left):
    method = tiny_model(method="adapter-drop", adapter_drop=drop).method
    assert with_adapters(method) == list(method.layers) == left
    assert method.down.shape[0] == 2 * len(left)


@pytest.mark.parametrize(("layers", "without"), [(24, 10), (12, 5), (8, 3), (4, 1)])
def test_the_paper_drops_5_of_12(layers, without):
    assert tiny_model(method="adapter-drop", encoder_layers=layers).method.layers[0] == without


def test_a_layer_is_drawn_for_each_training_batch():
    """Every number of layers comes up; evaluation has its own; a seed gives the same draws again."""
    method = tiny_model(method="adapter-drop", adapter_drop="2", adapter_drop_random=True).method
    assert method.layers == (0, 1, 2) and all(with_adapters(method) == [2] for _ in range(30))
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
    model = tiny_model(method="adapter-drop", adapter_drop="1", adapter_drop_random=True)
    whole = tiny_model(method="adapter-drop", adapter_drop="1")
    enlarge(model)
    with torch.no_grad():
        for name, parameter in whole.method.named_parameters():
            parameter.copy_(getattr(model.method, name)[2:])
    whole.classification_heads.load_state_dict(model.classification_heads.state_dict())
    whole.encoder.load_state_dict(model.encoder.state_dict())
    out = logits(model, pair_batch())
    assert torch.equal(out, logits(whole, pair_batch()))
    out.sum().backward()
    assert not model.method.down.grad[:2].any() and model.method.down.grad[2:].flatten(1).any(1).all()
