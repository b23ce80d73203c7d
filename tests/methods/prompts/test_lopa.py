"""LoPA: the gate written out, its count with the paper's setting."""

import torch

from tests.contract import Row


def by_hand(method, number, text):
    """Row i of the prompt times the sigmoid of u_i . v_j, number by number."""
    gate = method.gates[number % len(method.gates)]
    low = [
        (up.weight @ torch.tanh(down.weight @ text.sentence + down.bias) + up.bias).view(-1, gate.rank)
        for down, up in ((gate.row_down, gate.row_up), (gate.column_down, gate.column_up))
    ]
    table = method.table[number % len(method.table)]
    return torch.stack([row * torch.stack([(u * v).sum() for v in low[1]]).sigmoid() for row, u in zip(table, low[0])])


def layers(gates):
    return [
        f"gates.{i}.{name}.{part}"
        for i in range(gates)
        for name in ("row_down", "row_up", "column_down", "column_up")
        for part in ("weight", "bias")
    ]


CONTRACT = {
    "lopa": Row(
        1_597_992,
        " ".join(["table", *layers(1)]),
        by_hand,
        variants=(
            {"lopa_rank": 1},
            {"prompt_layers": "all", "generator_sharing": "L"},
            {"prompt_layers": "all", "generator_sharing": "S"},
            {"prompt_insertion": "key-value", "prompt_layers": "all"},
        ),
        published={"prompt_init": "standard-normal", "lopa_rank": 4, "prompt_length": 10},
    )
}
