"""PT-MoE: a prompt of two factors, the first of which is chosen among experts for each input.

Paper: "PT-MoE: An Efficient Finetuning Framework for Integrating Mixture-of-Experts into Prompt Tuning" (Li et al.,
2025), https://arxiv.org/abs/2505.09519. No code was published (https://github.com/ZongqianLi/PT-MoE has none).

What the paper's summaries leave open, and how it is read here: the router reads the mean of the real tokens; the kept
weights are not made to sum to 1 again; the gradient goes through the noise.

Differs from the paper in:
- A_i and B start random, as in ``low-rank``, not from the singular values of a text's embeddings.
- t, N and r of the preset fit the paper's budget for larger models; sigma = 0.1 is ours.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from ..base import Geometry
from ..options import Filled, option
from ..registry import register_preset
from .base import TABLE_STD, PromptAt, PromptConfig, PromptMethod, largest, mean_word


@dataclass
class PTMoEConfig(PromptConfig):
    moe_experts: Filled[int] = option(2, "experts N, each with its own A", least=1)
    moe_chosen: Filled[int] = option(1, "experts k that an input gets, summed with their weights", least=1)
    moe_rank: Filled[int] = option(36, "rank r of A B", least=1)
    moe_noise: Filled[float] = option(
        0.1, "sigma of the noise of training: the router's logits times 1 + N(0, sigma^2)", least=0, changeable=True
    )


class PTMoE(PromptMethod):
    """P_l = sum over the k largest w_i of w_i A_l,i B_l;  w = softmax(W x + c), x the mean word embedding.

    x: B x d. ``a``: places x N x rows x r, from N(0, 1 / r); ``b``: places x r x d, from N(0, 0.02^2); ``router``: W
    and c. The first place that is reached chooses for all. Trainable parameters: places (N rows r + r d) + N (d + 1).
    """

    config = PTMoEConfig
    reads_words = True
    initial_rows = None
    shows_no_example = "chooses among experts for each input"
    shared = None

    def __init__(self, cfg: PTMoEConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.chosen, self.noise = cfg.moe_chosen, cfg.moe_noise
        if self.chosen > cfg.moe_experts:
            raise InputError(f"--moe-chosen {self.chosen}: give 1 to --moe-experts {cfg.moe_experts}")
        places, rank = len(self.places), cfg.moe_rank
        self.a = nn.Parameter(torch.randn(places, cfg.moe_experts, self.rows, rank) * rank**-0.5)
        self.b = nn.Parameter(torch.randn(places, rank, geometry.width) * TABLE_STD)
        self.router = nn.Linear(geometry.width, cfg.moe_experts)

    def draw(self, logits: Tensor) -> Tensor:
        """Draw B x N numbers from N(0, sigma^2)."""
        return torch.randn_like(logits) * self.noise

    def begin_pass(self, representation: Tensor | None) -> PromptAt:
        once: list[Tensor] = []
        a, b = self.a.unbind(), self.b.unbind()

        def prompt_at(place: int, states: Any) -> Tensor:
            if not once:
                logits = self.router(mean_word(states))
                if self.training and self.noise:
                    logits = logits * (1 + self.draw(logits))
                once.append(largest(logits, self.chosen))
            number = self.places.index(place)
            return torch.einsum("bn,ntr->btr", once[0], a[number]) @ b[number]

        return prompt_at

    def without_effect(self, cfg: Any) -> dict[str, str]:
        reasons = super().without_effect(cfg)
        if self.router.out_features == 1:
            reasons["moe_experts"] = "one expert makes the same prompt for every input: give 2 or more"
        return reasons

    def describe(self) -> str:
        return f"{super().describe()}, {self.chosen} of {self.router.out_features} experts for each input"


register_preset("pt-moe", PTMoE, prompt_length=40)
