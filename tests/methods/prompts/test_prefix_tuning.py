"""Prefix tuning, its ablations, and MAM."""

import pytest
import torch

from fairseq_idpg.backbone.injection import States
from tests.contract import Row
from tests.helpers import enlarge, tiny_model
from tests.methods.adapters.test_adapters import DENSE
from tests.methods.prompts.test_task_prompts import MLP, by_hand, of_network

LENGTH, WIDTH, LAYERS = 3, 32, 3
SMALL = {"prompt_length": LENGTH, "reparameterization_hidden_size": 7}
CONTRACT = {
    "prefix-tuning": Row(
        *(25_760_256, of_network(*MLP), by_hand),
        **{"folded": 983_040, "kept": "table", "variants": ({"prompt_reparameterization": "none"},)},
    ),
    "mam": Row(
        16 * 1024 + 1024 * 800 + 800 + 801 * 2 * 24 * 1024 + 811_392,
        " ".join([*(f"parts.0.reparameterization.{n}" for n in MLP), *(f"parts.1.{n}" for n in DENSE.split())]),
        folded=786_432 + 811_392,
        kept="parts.0.table",
        published={
            **{"adapter_dropout": 0.1, "adapter_activation": "relu", "adapter_scale": "4", "prefix_dropout": 0.0},
            **{"adapter_place": "ffn", "adapter_hidden_size": 16, "prompt_length": 16},
        },
    ),
}


@pytest.mark.parametrize("method", ["prefix-tuning", "m-idpg-phm", "p-tuning-v2-kv"])
def test_dropout_of_keys_and_values_is_drawn_for_each_example(method):
    """Numbers are dropped or made larger by 1/(1-p); none in evaluation."""
    own = {"generator_dropout": 0.0} if "phm" in method else {}
    model = tiny_model(method=method, prefix_dropout=0.25, prompt_insertion="key-value", prompt_length=64, **own)
    enlarge(model.method)
    states = States(torch.zeros(2, 3, WIDTH))
    c = torch.ones(3, WIDTH)
    whole = torch.cat(model.eval().method.injection(c).key_value(0, states)[:2], 1).expand(3, -1, -1)
    dropped = torch.cat(model.train().method.injection(c).key_value(0, states)[:2], 1)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], whole[kept] / 0.75)
    assert 0.2 < 1 - kept.float().mean() < 0.3
    assert not torch.equal(kept[0], kept[1])
