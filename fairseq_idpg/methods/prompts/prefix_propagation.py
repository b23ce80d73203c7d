"""Prefix propagation: rows that run through the whole encoder, to which every layer adds its own.

Paper: "Prefix-Propagation: Parameter-Efficient Tuning for Long Sequences" (Li et al., ACL 2023),
https://arxiv.org/abs/2305.12086; code: https://github.com/MonliH/prefix-propagation

Its additive relative is ``p-tuning-v2``, whose first rows stand among the words, in front of the embedding LayerNorm.
Here the rows of the input are 0, and layer 0 has rows too, which are added behind that LayerNorm.

Differs from the paper in:
- The rows start from N(0, 1), as the released code draws them before it loads a backbone.
Differs from the released code in: there the rows of the prompt have RoBERTa's positions 0 to t - 1, which no word has
and one of which is its padding's.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...backbone.cpu import QuickDropout
from ...backbone.injection import Injection, States
from ..base import Geometry
from ..options import Filled, dropout_option
from ..registry import register_preset
from .task_prompts import TaskPromptConfig, TaskPrompts


@dataclass
class PrefixPropagationConfig(TaskPromptConfig):
    propagation_dropout: Filled[float] = dropout_option(
        0.1,
        "dropout on the rows that are added to hidden states, drawn for each example",
        only_with=("prompt_insertion", ("add", "replace")),
    )


class PrefixPropagation(TaskPrompts):
    """x_l + drop(P_l) enters layer l at the prompt's places, the first layer too; the input's rows there are 0.

    P_l = table[l]. Trainable parameters: places t d.
    """

    config = PrefixPropagationConfig

    def __init__(self, cfg: PrefixPropagationConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.dropout = QuickDropout(cfg.propagation_dropout)
        if self.in_input:
            self.slots = ("input", "hidden")

    def injection(self, representation: Tensor | None) -> Injection:
        if not self.in_input:
            return super().injection(representation)
        rows_at = self.begin_pass(representation)

        def behind(layer: int, states: States) -> Tensor | None:
            if layer + 1 not in self.places:
                return None
            rows = rows_at(layer + 1, states)
            # rows that the batch shares are expanded first, so that dropout draws for each example
            return self.dropout(rows.expand(states.x.size(1), -1, -1)) if self.training and self.dropout.p else rows

        return Injection(input=torch.zeros_like(rows_at(0, None)), hidden=behind, insertion=self.insertion)

    def without_effect(self, cfg: Any) -> dict[str, str]:
        reasons = super().without_effect(cfg)
        reasons.pop("prompt_insertion", None)  # layer 0 has hidden states to replace
        return reasons


register_preset(
    "prefix-propagation", PrefixPropagation, prompt_length=8, prompt_layers="all", prompt_init="standard-normal"
)
