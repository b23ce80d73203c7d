"""Dynamic prompting: where a prompt's rows stand, and which prompts are mixed, is chosen for each input.

Paper: "Dynamic Prompting: A Unified Framework for Prompt Tuning" (Yang et al., 2023), https://arxiv.org/abs/2303.02909;
code: https://github.com/Xianjun-Yang/DPT

Differs from the paper in:
- The rows stand at --prompt-position, and those that move go in front of the last token; there they begin in front of
  ``<s>``.
- The temperature stays as it is. The released code lowers it from 1 to 0.5.
- One prompt starts from N(0, 0.02^2), a pool as released. The first words of the vocabulary, with which the released
  code starts, are nearly --prompt-init vocabulary.
Differs from the released code in: noise is drawn in training alone, and pads do not count in the mean of the states.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ...backbone.injection import Injection, Room
from ..base import Geometry
from ..options import Filled, TrueFalse, option
from ..registry import register_preset
from .base import TABLE_STD, PromptAt, PromptConfig, PromptMethod


@dataclass
class DynamicPromptConfig(PromptConfig):
    dynamic_position: Filled[TrueFalse] = option(
        "true",
        "choose how many rows, 0 to t, stand in front of the last token instead of at --prompt-position",
        only_with=("prompt_insertion", ("add", "replace")),
    )
    dynamic_pool: Filled[int] = option(1, "prompts that are mixed for each input", least=1)
    dynamic_temperature: Filled[float] = option(
        1.0, "temperature of the choice of places in training", above=0, changeable=True
    )


class Choice(torch.autograd.Function):
    """sum_j c_j A_j(x), where c is 1 at one arrangement A_j of the tokens x, with the gradient of c for ``soft``.

    ``x``: T x B x d, as chosen; ``soft``: B x n, softmax; ``partners``: B x n x T, the token that arrangement j has at
    the place where the chosen one has token i. The gradient of soft_j is that of every place times the token that A_j
    has there; the n arrangements are never made.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, soft: Tensor, partners: Tensor) -> Tensor:
        ctx.save_for_backward(x, partners)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, partners = ctx.saved_tensors
        products = gradient.transpose(0, 1) @ x.type_as(gradient).permute(1, 2, 0)  # B x T x T
        return gradient, products.transpose(1, 2).gather(1, partners).sum(2), None


def moves(first: Tensor, rows: int, real: Tensor, length: int) -> Tensor:
    """Return by how many places each of T tokens moves in every arrangement j = 0..t: B x (t + 1) x T.

    ``first``: B, the place of the first row; ``real``: B, tokens without pads. Arrangement j puts the first j rows
    directly in front of the last real token, and what stood between them moves forward.
    """
    places, j = torch.arange(length, device=first.device), torch.arange(rows + 1, device=first.device)[:, None]
    first, last = first[:, None, None], real[:, None, None] - 1
    moving = (places >= first) & (places < first + j)
    following = (places >= first + j) & (places < last)
    return torch.where(moving, last - j - first, torch.where(following, -j, 0))


class DynamicPrompt(PromptMethod):
    """P_l = sum_k w_k P_l,k, w = softmax(U s + e), or P_l,1 alone; j of its rows move in front of the last token.

    s: B x d, the mean of the frozen backbone's last states of the text. j = argmax(ReLU(W s + c) + g), with g from
    Gumbel(0, 1) in training and 0 otherwise; its gradient is that of softmax((ReLU(W s + c) + g) / temperature).
    ``table``: places x (n rows) x d, prompt after prompt, a pool from (-0.5, 0.5); ``position``: W, c; ``pool``: U, e.
    Trainable parameters: places n rows d, n (d + 1) with a pool (n > 1), (t + 1) (d + 1) with places that are chosen.
    """

    config = DynamicPromptConfig
    representation = "mean-pooled"
    shared, shows_no_example = "the prompts that inputs mix or move", "mixes or moves prompts for each input"

    def __init__(self, cfg: DynamicPromptConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.prompts, self.temperature, width = cfg.dynamic_pool, cfg.dynamic_temperature, geometry.width
        self.table = nn.Parameter(torch.empty(len(self.places), self.prompts * self.rows, width))
        nn.init.normal_(self.table, std=TABLE_STD)
        self.pool = nn.Linear(width, self.prompts) if self.prompts > 1 else None
        self.position = None
        if self.in_input and str(cfg.dynamic_position) == "true":
            self.position = nn.Linear(width, cfg.prompt_length + 1)
            self.slots = (*self.slots, "arrange")

    def draw(self, logits: Tensor) -> Tensor:
        """Draw B x (t + 1) numbers from Gumbel(0, 1)."""
        return -torch.empty_like(logits).exponential_().log()

    def begin_pass(self, representation: Tensor | None) -> PromptAt:
        tables = self.table.unbind()
        weights = None if self.pool is None else self.pool(representation).softmax(1)

        def prompt_at(place: int, states: Any) -> Tensor:
            table = tables[self.places.index(place)]
            if weights is None:
                return table[None]
            return torch.einsum("bk,ktd->btd", weights, table.view(self.prompts, self.rows, -1))

        return prompt_at

    def injection(self, representation: Tensor | None) -> Injection:
        injection = super().injection(representation)
        return injection if self.position is None else replace(injection, arrange=self.arranged(representation))

    def arranged(self, representation: Any) -> Any:
        assert self.position is not None
        logits = self.position(representation).relu()
        if self.training:
            logits = logits + self.draw(logits)

        def arrange(x: Tensor, real: Tensor, room: Room) -> tuple[Tensor, Tensor]:
            every = moves(room.offset, room.length, real, x.size(0))
            chosen = logits.argmax(1)[:, None, None].expand(-1, 1, x.size(0))
            moved = every.gather(1, chosen)
            if torch.is_grad_enabled():
                # the places of all tokens in each arrangement, turned round: the tokens of all places
                here = torch.arange(x.size(0), device=x.device)
                tokens = torch.empty_like(every).scatter_(2, every + here, here.expand_as(every))
                partners = tokens.gather(2, (moved + here).expand_as(every))
                x = Choice.apply(x, (logits / self.temperature).softmax(1), partners)
            return x, moved[:, 0]

        return arrange

    def without_effect(self, cfg: DynamicPromptConfig) -> dict[str, str]:
        reasons = super().without_effect(cfg)
        if self.position is None:
            reasons["dynamic_temperature"] = "no row moves, so no place is chosen: leave it out"
        if self.pool is None and self.position is None:
            same = "one prompt that does not move is the same for every input: give --dynamic-pool 2"
            reasons.update(dict.fromkeys(("prompt_insertion", "dynamic_position"), same))
        return reasons

    def describe(self) -> str:
        where = [] if self.position is None else ["at places chosen for each input"]
        mixed = [] if self.pool is None else [f"mixed of {self.prompts} prompts"]
        return ", ".join([super().describe(), *where, *mixed])


register_preset("dynamic-prompt", DynamicPrompt, prompt_length=20)
register_preset("dynamic-prompt-pool", DynamicPrompt, prompt_length=20, dynamic_pool=4, prompt_init="uniform")
