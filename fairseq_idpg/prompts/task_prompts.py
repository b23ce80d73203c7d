"""Prompts of a task: the same rows for every input.

prompt-tuning: "The Power of Scale for Parameter-Efficient Prompt Tuning" (Lester et al., EMNLP 2021),
https://arxiv.org/abs/2104.08691
p-tuning-v2, as the IDPG paper compares with it: https://arxiv.org/abs/2110.07602

Differs from the papers in:
- prompt-tuning: rows stand after ``<s>`` (or at another --prompt-position), not in front of the sequence, and
  take position embeddings, LayerNorm and dropout like words, as in the IDPG paper's code; a head is trained.
- p-tuning-v2: rows are ADDED to the hidden states, t per layer, half the parameters of the original, which puts
  t keys and t values in front of every attention. The IDPG paper's code keeps t more rows that nothing reads;
  they are left out, so the count is the paper's.
"""

from typing import Optional

import torch
from torch import Tensor, nn

from ..registry import Geometry, register_method
from .base import TABLE_STD, PromptAt, PromptConfig, PromptMethod


class TaskPrompts(PromptMethod):
    """P_l = table[l], for each place l.

    ``table``: places x rows x d, drawn from N(0, 0.02^2); rows is t, or 2 t (t keys, then t values).
    Trainable parameters: places * rows * d.
    """

    def __init__(self, cfg: PromptConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.table = nn.Parameter(torch.empty(len(self.places), self.rows, geometry.width))
        nn.init.normal_(self.table, std=TABLE_STD)

    @property
    def initial_rows(self) -> nn.Parameter:
        return self.table

    def start(self, representation: Optional[Tensor]) -> PromptAt:
        rows = dict(zip(self.places, self.table))
        return lambda place, sentence: rows[place][None]


register_method("prompt-tuning", TaskPrompts, PromptConfig, prompt_length=5)
register_method("prompt-tuning-134", TaskPrompts, PromptConfig, prompt_length=134)
register_method("prompt-tuning-100", TaskPrompts, PromptConfig, prompt_length=100)
register_method("p-tuning-v2", TaskPrompts, PromptConfig, prompt_length=5, prompt_layers="all")
register_method(
    "p-tuning-v2-kv", TaskPrompts, PromptConfig, prompt_length=5, prompt_layers="all", prompt_insertion="key-value"
)
