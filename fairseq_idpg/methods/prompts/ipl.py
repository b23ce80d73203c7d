"""IPL: each row of the task's prompt is scaled by its relevance to the input's words.

Paper: "Instance-aware Prompt Learning for Language Understanding and Generation" (Jin et al., 2022),
https://arxiv.org/abs/2201.07126; code: https://github.com/jinfeihu-stan/IPL

Differs from the paper in:
- A head on ``<s>`` is trained; --predict-with mlm predicts with the frozen LM head at ``<mask>``, as released.
Differs from the released code in: relevance is the mean over the text's tokens. There pads count too, so that it
depends on how far a text was padded: --ipl-pads counted.
"""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ..base import Geometry
from ..options import Filled, option
from ..registry import register_preset
from .base import TABLE_STD, PromptAt, PromptConfig, PromptMethod, mean_word, words_of

Pads: Any = ChoiceEnum(["left-out", "counted"])


@dataclass
class IPLConfig(PromptConfig):
    ipl_hidden_size: Filled[int] = option(64, "width h of queries and keys", least=1)
    ipl_pads: Filled[Pads] = option("left-out", "whether pads count in the mean over the input's words (as released)")


class IPL(PromptMethod):
    """P_l,i = sigmoid(q_i . mean_j k_j / sqrt(h)) P'_i, with P' = M2 ReLU(M1 table_l + m1) + m2.

    q_i = Q P'_i + b and k_j = K E_j + b', h wide, E_j the word embeddings of the input. ``table``: places x t x d, from
    N(0, 1) in ``ipl``. Trainable parameters with one place: t d + 2 d (d + 1) + 2 h (d + 1).
    """

    config = IPLConfig
    reads_words = True
    shared, shows_no_example = "the prompt that each input scales", "scales its rows for each input"

    def __init__(self, cfg: IPLConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        width, hidden = geometry.width, cfg.ipl_hidden_size
        self.counts_pads = str(cfg.ipl_pads) == "counted"
        self.table = nn.Parameter(torch.empty(len(self.places), self.rows, width).normal_(std=TABLE_STD))
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.query, self.key = nn.Linear(width, hidden), nn.Linear(width, hidden)

    def begin_pass(self, representation: Tensor | None) -> PromptAt:
        keys: list[Tensor] = []  # the mean key of the pass, B x h
        tables = self.table.unbind()

        def prompt_at(place: int, states: Any) -> Tensor:
            # keys are linear, so the key of the mean word is the mean of the words' keys
            if not keys:
                keys.append(self.key(words_of(states).x.mean(0) if self.counts_pads else mean_word(states)))
            rows = self.mlp(tables[self.places.index(place)])
            relevance = (keys[0] @ self.query(rows).t() / self.query.out_features**0.5).sigmoid()
            return relevance[:, :, None] * rows

        return prompt_at


register_preset("ipl", IPL, prompt_length=16, prompt_init="standard-normal")
