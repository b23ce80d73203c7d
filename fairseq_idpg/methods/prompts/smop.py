"""SMoP: a few of many short prompts, chosen for each input.

Paper: "SMoP: Towards Efficient and Effective Prompt Tuning with Sparse Mixture-of-Prompts" (Choi et al., EMNLP 2023),
https://aclanthology.org/2023.emnlp-main.884; code: https://github.com/jyjohnchoi/SMoP

Differs from the paper in:
- The loss has no load-balancing term unless --smop-balance. Released is 0.01 times ``imbalance``, added in one version
  (240e096) and not in another (34da5e2).
- Each example has its own prompt in any batch. In the released code with k = 1 a prompt is the sum of those chosen in
  the whole batch, times the example's weight. This follows its other wrapper, since that for classification ends with a
  TypeError.
- Prompts above the input, late ones, keys and values are chosen by the same weights.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ...errors import InputError
from ..base import Geometry
from ..options import Filled, option
from ..registry import register_preset
from .base import TABLE_STD, PromptAt, PromptConfig, PromptMethod, largest, mean_word

LOGITS_DROPOUT = 0.2  # as released

Noise: Any = ChoiceEnum(["multiply", "dropout", "none"])


@dataclass
class SMoPConfig(PromptConfig):
    smop_prompts: Filled[int] = option(4, "short prompts n, each of --prompt-length rows", least=1)
    smop_chosen: Filled[int] = option(1, "number k of prompts that an input gets, summed with their weights", least=1)
    smop_noise: Filled[Noise] = option(
        "multiply",
        "in training 'multiply' the router's logits by 1 + N(0, 1), without gradient through the noise, 'dropout' 0.2 "
        "of them (the released code without noise), or 'none'",
        changeable=True,
    )
    smop_balance: Filled[float] = option(
        0.0,
        "factor of n sum_i f_i p_i, which --criterion sentence_prediction_idpg adds to the loss in training: f_i the "
        "share of a batch that chose prompt i, p_i its mean weight; 0.01 in the released code",
        least=0,
    )


class SMoP(PromptMethod):
    """P_l = sum over the k largest p_i of p_i P_l,i;  p = softmax(W x), x the mean word embedding.

    x: B x d. ``table``: places x (n rows) x d, prompt after prompt, from N(0, 1) in ``smop``, as released; ``router``:
    W, n x d, starts orthogonal. The k largest p are not made to sum to 1, since their sizes give W its gradient.
    Trainable parameters: places n rows d + n d.
    """

    config = SMoPConfig
    reads_words = True
    shows_no_example = "chooses among prompts for each input, all of which are shown without"

    def __init__(self, cfg: SMoPConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.prompts, self.chosen, self.noise = cfg.smop_prompts, cfg.smop_chosen, str(cfg.smop_noise)
        if self.chosen > self.prompts:
            raise InputError(f"--smop-chosen {self.chosen}: give 1 to --smop-prompts {self.prompts}")
        self.shared = f"{self.prompts} prompts of {self.rows} rows, of which an input gets {self.chosen}"
        self.balance = cfg.smop_balance
        self.adds_loss = f"--smop-balance {self.balance}" if self.balance else None
        self.table = nn.Parameter(torch.empty(len(self.places), self.prompts * self.rows, geometry.width))
        nn.init.normal_(self.table, std=TABLE_STD)
        self.router = nn.Parameter(torch.empty(self.prompts, geometry.width))
        nn.init.orthogonal_(self.router)

    def perturbed(self, logits: Tensor) -> Tensor:
        """Return the router's logits with the noise of training."""
        if self.noise == "multiply" and self.training:
            return logits + logits.detach() * self.draw(logits)
        return F.dropout(logits, LOGITS_DROPOUT, self.training) if self.noise == "dropout" else logits

    def draw(self, logits: Tensor) -> Tensor:
        """Draw B x n numbers from N(0, 1)."""
        return torch.randn_like(logits)

    def imbalance(self, logits: Tensor) -> Tensor:
        """Return n sum_i f_i p_i over a batch: f_i prompt i's share of the choices, p_i its mean weight.

        It is 1 for even choices and weights, n if one prompt has all; f has no gradient.
        """
        p = logits.float().softmax(1)
        shares = torch.zeros_like(p).scatter(1, p.topk(self.chosen, dim=1).indices, 1 / self.chosen).mean(0)
        return self.prompts * (shares * p.mean(0)).sum()

    def begin_pass(self, representation: Tensor | None) -> PromptAt:
        once: list[Tensor] = []  # the weights, of the whole pass
        tables = self.table.unbind()

        def prompt_at(place: int, states: Any) -> Tensor:
            # the first place that is reached chooses for all places
            if not once:
                logits = self.perturbed(mean_word(states) @ self.router.t())
                once.append(largest(logits, self.chosen))
                if self.balance and self.training:
                    self.extra = self.balance * self.imbalance(logits)
            (weights,) = once
            prompts = tables[self.places.index(place)].view(self.prompts, -1)
            return (weights @ prompts).view(weights.size(0), self.rows, -1)

        return prompt_at

    def without_effect(self, cfg: Any) -> dict[str, str]:
        reasons = super().without_effect(cfg)
        if self.prompts == 1:
            reasons["smop_prompts"] = "one prompt is the same for every input: give 2 or more"
        if self.chosen == self.prompts:
            reasons["smop_balance"] = "every prompt is chosen, so it is the same for all: lower --smop-chosen"
        return reasons

    def describe(self) -> str:
        return f"{super().describe()}, {self.chosen} of {self.prompts} prompts for each input"


register_preset("smop", SMoP, prompt_length=5, prompt_init="standard-normal")
