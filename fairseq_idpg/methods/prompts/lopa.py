"""LoPA: one prompt of the task, gated by a low-rank matrix that is made from each input.

Paper: "Prompt Tuning Strikes Back: Customizing Foundation Models with Low-Rank Prompt Adaptation" (Jain et al., NeurIPS
2024), https://arxiv.org/abs/2405.15282; code: https://github.com/jabhinav/Prompt-Tuning-Strikes-Back-with-LOPA-NLU

Differs from the paper in:
- A head on ``<s>`` is trained; --predict-with mlm predicts with the frozen LM head at ``<mask>``, as released.
- With prompts in several layers, --generator-sharing says what they share; the paper has one prompt, in the input.
Differs from the released code in: M is the frozen backbone itself. There it is a second RoBERTa, trained too
(--representation-trained true), with h = 1024; the paper's count (1.6M) is that of a frozen one with h = 256.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..base import Geometry
from ..options import Filled, TrueFalse, option
from ..registry import register_preset
from .base import TABLE_STD, GeneratorConfig, PromptAt, PromptMethod


@dataclass
class LoPAConfig(GeneratorConfig):
    lopa_rank: Filled[int] = option(4, "rank r of the matrix that gates the prompt", least=1)
    representation_trained: Filled[TrueFalse] = option(
        "false", "train a copy of the backbone's encoder, with its dropout, to compute M(x) (as released)"
    )


class Gate(nn.Module):
    """sigmoid(U V^T), B x t x d, from c (B x d): U = W2 tanh(W1 c + b1) + b2 is t x r, V alike d x r.

    Parameters: 2 h (d + 1) + (h + 1) (t + d) r.
    """

    def __init__(self, cfg: LoPAConfig, rows: int, width: int):
        super().__init__()
        self.rank, hidden = cfg.lopa_rank, cfg.generator_hidden_size
        self.dropout = nn.Dropout(cfg.generator_dropout)
        self.row_down, self.row_up = nn.Linear(width, hidden), nn.Linear(hidden, rows * self.rank)
        self.column_down, self.column_up = nn.Linear(width, hidden), nn.Linear(hidden, width * self.rank)
        for layer in (self.row_down, self.row_up, self.column_down, self.column_up):
            nn.init.normal_(layer.weight, std=TABLE_STD)
        for layer in (self.row_up, self.column_up):
            nn.init.zeros_(layer.bias)

    def forward(self, c: Tensor) -> Tensor:
        # each factor has its own dropout on c
        rows = self.row_up(self.row_down(self.dropout(c)).tanh()).unflatten(-1, (-1, self.rank))
        columns = self.column_up(self.column_down(self.dropout(c)).tanh()).unflatten(-1, (-1, self.rank))
        return (rows @ columns.transpose(1, 2)).sigmoid()


class LoPA(PromptMethod):
    """P_l = table_l * sigmoid(U V^T), elementwise; U (t x r) and V (d x r) are made from M(x), see ``Gate``.

    Sharing over places: S one table and one gate, M one gate, L nothing. ``table``: 1 or places x t x d, from N(0, 1)
    in ``lopa``. Trainable parameters with one place: t d + 2 h (d + 1) + (h + 1) (t + d) r.
    """

    config = LoPAConfig
    representation = "backbone"
    shared, shows_no_example = "the prompt that each input gates", None

    def __init__(self, cfg: LoPAConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.own_encoder = self.representation_dropout = str(cfg.representation_trained) == "true"
        sharing, places = str(cfg.generator_sharing), len(self.places)
        self.gates = nn.ModuleList(Gate(cfg, self.rows, geometry.width) for _ in range(places if sharing == "L" else 1))
        self.table = nn.Parameter(torch.empty(1 if sharing == "S" else places, self.rows, geometry.width))
        nn.init.normal_(self.table, std=TABLE_STD)

    def begin_pass(self, representation: Tensor | None) -> PromptAt:
        assert representation is not None
        gates = [gate(representation) for gate in self.gates]
        tables = self.table.unbind()

        def prompt_at(place: int, states: Any) -> Tensor:
            number = self.places.index(place)
            return tables[number % len(tables)] * gates[number % len(gates)]

        return prompt_at


register_preset("lopa", LoPA, prompt_length=10, generator_hidden_size=256, prompt_init="standard-normal")
