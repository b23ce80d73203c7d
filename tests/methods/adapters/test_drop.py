"""AdapterDrop: layers without adapters, the same for all batches or drawn for each."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from fairseq_idpg.backbone.injection import UNCHANGED
from tests.contract import Row
from tests.helpers import tiny_model
from tests.methods.adapters.test_adapters import DENSE, SOME, houlsby

COUNT = 14 * 2 * (2 * 16 * 1024 + 16 + 1024)  # in the upper 14 of 24 layers
CONTRACT = {"adapter-drop": Row(COUNT, DENSE, partial(houlsby, activation=F.gelu), start=1e-4, variants=SOME)}


def with_adapters(method) -> list[int]:
    sublayer = method.injection(None).sublayer
    return [layer for layer in range(3) if sublayer(layer) is not UNCHANGED]


@pytest.mark.parametrize(
    ("layers", "drop", "left"),
    [(3, "0", (0, 1, 2)), (3, "2", (2,)), (4, "auto", (1, 2, 3)), (12, "auto", range(5, 12))],
)
def test_first_layers_have_no_adapters(layers, drop, left):
    method = tiny_model(method="adapter-drop", adapter_drop=drop, encoder_layers=layers).method
    assert method.layers == tuple(left) and method.down.shape[0] == 2 * len(left)


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
