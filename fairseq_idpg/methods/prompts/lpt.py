"""Late prompt tuning (LPT): rows that join the hidden states before a layer in the middle.

Paper: "Late Prompt Tuning: A Late Prompt Could Be Better Than Many Prompts" (Liu et al., Findings of EMNLP 2022),
https://arxiv.org/abs/2210.11292; code: https://github.com/xyltt/LPT

The paper's k counts layers from 1 and joins after layer k: --prompt-layers k, which counts from 0 and joins before. Its
code runs k = 12 of 24; best is 13, --prompt-layers middle.

Differs from the paper in: a classification head is trained; --predict-with mlm has the paper's LM head with
verbalisers. Differs from its code in: at k = 0 rows join too, but not NPG's, for which ``<s>`` is the same in every
input; pooling runs for the whole batch at once; rows stand behind the text, which is the same without positions;
--prompt-init vocabulary, the other start of lpt-naive, draws no special tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from torch import Tensor

from ...backbone.injection import States
from ..base import Geometry
from ..options import Filled, option
from ..registry import register_preset
from .state_prompts import StateGenerator, StatePromptConfig, StatePrompts
from .task_prompts import TaskPrompts


def adaptive_bins(states: States, x: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """Put the n real tokens of each example into t ``bins``, which may overlap: j has [floor(j n/t), ceil((j+1) n/t)).

    ``x``: T x B x m -> B x bins x w x m, and which of these are in the bin, B (or 1) x bins x w; w fits any bin.
    """
    length, batch, _ = x.shape
    if states.padding is None:
        count = torch.full((1, 1), length, device=x.device)
    else:
        count = (~states.padding).sum(1, keepdim=True)
    j = torch.arange(bins, device=x.device)
    # the first token of a bin and the one behind its last, B (or 1) x bins; then B (or 1) x bins x w indices
    begin = j * count // bins
    end = ((j + 1) * count + bins - 1) // bins
    index = begin[..., None] + torch.arange(min(length, -(-length // bins) + 1), device=x.device)
    inside = index < end[..., None]
    index = index.clamp(max=length - 1).flatten(1).expand(batch, -1)
    if states.padding is not None:  # a stable sort moves the pads behind the real tokens
        index = states.padding.byte().argsort(dim=1, stable=True).gather(1, index)
    taken = x.transpose(0, 1).gather(1, index[..., None].expand(-1, -1, x.size(2)))
    return taken.unflatten(1, inside.shape[1:]), inside


# what ``adaptive_bins`` gives -> the maximum or the mean of each bin, B x bins x m
POOLS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mppg": lambda taken, inside: taken.masked_fill(~inside[..., None], float("-inf")).max(2).values,
    "appg": lambda taken, inside: ((inside.type_as(taken) / inside.sum(2, keepdim=True))[..., None] * taken).sum(2),
}
LPTGenerator: Any = ChoiceEnum(["npg", *POOLS])


@dataclass
class LPTConfig(StatePromptConfig):
    lpt_generator: Filled[LPTGenerator] = option(
        "npg",
        "how LPT reads the states: 'npg' that of <s>, 'mppg' the maximum or 'appg' the mean of t bins of all tokens",
    )


class FirstStateGenerator(StateGenerator):
    """NPG: W2 ReLU(W1 h + b1) from the state h of ``<s>``, as rows x d."""

    def read(self, states: States) -> Tensor:
        return states.sentence.clone()  # a view kept for W1's gradient would keep the layer's whole output


class PoolingGenerator(StateGenerator):
    """MPPG, APPG: W2 ReLU(pool_t(W1 H + b1)); each of t bins of tokens makes its row, or its key and its value."""

    def __init__(self, cfg: LPTConfig, width: int, rows: int):
        super().__init__(cfg, width, rows // cfg.prompt_length)
        self.bins, self.pool = cfg.prompt_length, POOLS[str(cfg.lpt_generator)]

    def forward(self, states: States) -> Tensor:
        pooled = self.pool(*adaptive_bins(states, self.down(states.x), self.bins))
        # B x rows x d: first the keys of all bins, then their values
        return self.up(F.relu(pooled)).unflatten(2, (-1, self.width)).transpose(1, 2).flatten(1, 2)


class LatePrompts(StatePrompts):
    """P_l = drop(W2 ReLU(r(W1 H_l + b1)) + b_l); r: ``<s>`` (npg), or the maximum (mppg) or mean (appg) in t bins.

    Parameters at one place: npg d m + m + m t d + t d; mppg, appg 2 d m + m + d, however many rows.
    """

    config = LPTConfig

    def __init__(self, cfg: LPTConfig, geometry: Geometry):
        self.generator = FirstStateGenerator if str(cfg.lpt_generator) == "npg" else PoolingGenerator
        super().__init__(cfg, geometry)

    def without_effect(self, cfg: LPTConfig) -> dict[str, str]:
        reasons = super().without_effect(cfg)
        if str(cfg.lpt_generator) != "npg" or self.representation is not None:
            return reasons
        same = "<s> is the same in every input, and npg would make one prompt for all"
        others = "--lpt-generator mppg or appg, or --generator-input last"
        if str(cfg.generator_input) != "states":
            reasons["generator_input"] = f"their {same}: give states, {others}"
        elif self.places == (0,):
            reasons["prompt_layers"] = f"below layer 0 {same}: give a higher layer, {others}"
        return reasons


late = partial(register_preset, prompt_insertion="late", prompt_layers="middle", prompt_length=5)
generated_late = partial(late, method=LatePrompts, generator_hidden_size=128, generator_sharing="S")
late("lpt-naive", TaskPrompts, prompt_init="standard-normal")
generated_late("lpt-npg", lpt_generator="npg")
generated_late("lpt-mppg", lpt_generator="mppg")
generated_late("lpt-appg", lpt_generator="appg")
