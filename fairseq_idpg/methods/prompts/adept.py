"""ADePT: a short prompt, and a change of each word embedding that is made from the word itself.

Paper: "ADePT: Adaptive Decomposed Prompt Tuning for Parameter-Efficient Fine-tuning" (Tang et al., ICLR 2025),
https://arxiv.org/abs/2501.03291; code: https://github.com/HungerPWAY/ADePT

Differs from the paper in:
- Dropout of 0.1 on E_j A + a in training, in front of the ReLU, as released.
- A starts uniform in +-1/sqrt(r), and a, B and b at 0, as released, so that words start unchanged. The prompt starts
  from N(0, 0.02^2). The released code's start is --prompt-init text --prompt-init-text "Classify this text is postive
  or not:" (its spelling).
- The prompt and the change have one learning rate, unless --optimizer grouped_adam --words-lr; the paper has two.
Differs from the released code in: its wrapper for classification leaves the change out.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ...backbone.injection import Injection
from ..base import Geometry
from ..options import Filled, dropout_option, option
from ..registry import register_preset
from .task_prompts import TaskPromptConfig, TaskPrompts


@dataclass
class ADePTConfig(TaskPromptConfig):
    adept_rank: Filled[int] = option(19, "rank r of the network that changes word embeddings", least=1)
    adept_dropout: Filled[float] = dropout_option(0.1, "dropout of its hidden row")


class ADePT(TaskPrompts):
    """P = table, and E_j + ReLU(E_j A + a) B + b for each word embedding E_j.

    ``down``: A, d x r, and a; ``up``: B, r x d, and b. Trainable parameters: places rows d + 2 d r + r + d.
    """

    config = ADePTConfig

    def __init__(self, cfg: ADePTConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        width, rank = geometry.width, cfg.adept_rank
        self.down = nn.Parameter(torch.empty(width, rank).uniform_(-1 / math.sqrt(rank), 1 / math.sqrt(rank)))
        self.down_bias, self.up_bias = nn.Parameter(torch.zeros(rank)), nn.Parameter(torch.zeros(width))
        self.up = nn.Parameter(torch.zeros(rank, width))
        self.dropout = nn.Dropout(cfg.adept_dropout)
        self.slots = (*self.slots, "words")

    def change(self, words: Tensor) -> Tensor:
        """Return what is added to T x B x d word embeddings."""
        return self.dropout(words @ self.down + self.down_bias).relu() @ self.up + self.up_bias

    def injection(self, representation: Tensor | None) -> Injection:
        return replace(super().injection(representation), words=self.change)

    def word_parameters(self) -> list[nn.Parameter]:
        return [self.down, self.down_bias, self.up, self.up_bias]


register_preset("adept", ADePT, prompt_length=60)
