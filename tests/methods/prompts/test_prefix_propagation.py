"""Prefix propagation: rows behind the embedding and behind each layer, dropped for each example alone."""

import torch

from fairseq_idpg.backbone.injection import States
from tests.contract import Row
from tests.helpers import enlarge, tiny_model

CONTRACT = {
    "prefix-propagation": Row(
        *(24 * 8 * 1024, "table", lambda method, number, text: method.table[number]),
        behind_embedding=True,
        variants=({"prompt_layers": "0,2"}, {"prompt_layers": "first"}, {"prompt_insertion": "replace"}),
        published={"prompt_init": "standard-normal", "prompt_length": 8, "propagation_dropout": 0.1},
    )
}


def test_each_example_drops_other_rows():
    method = tiny_model(method="prefix-propagation", propagation_dropout=0.5).method.train()
    enlarge(method)
    table = method.table[1].expand(2, -1, -1)
    rows = method.injection(None).hidden(0, States(torch.zeros(3, 2, table.size(-1))))
    assert not torch.equal(*rows.eq(0)) and torch.equal(rows[rows != 0], 2 * table[rows != 0])
