"""MPT: a prompt that tasks share, times the task's own rank-one matrix.

Paper: "Multitask Prompt Tuning Enables Parameter-Efficient Transfer Learning" (Wang et al., ICLR 2023),
https://arxiv.org/abs/2303.02861; code of its target stage, by its authors: huggingface/peft 0.17.1,
``multitask_prompt_tuning``.

Differs from the paper in:
- A run trains one task, without the source stage, which distils the shared prompt from the prompts of several tasks.
  The shared prompt starts from one source prompt or the mean of several (--source-prompts), or as --prompt-init says.
  --prompt-init saved takes prompt and matrix of one task over (peft's EXACT_SOURCE_TASK).
- The matrix starts with ones, so that training begins with the shared prompt itself; peft's starts from N(0, 0.02^2)
  (--mpt-init normal), the paper's from those of the source tasks.
"""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ..base import Method, WordEmbeddings
from ..options import Filled, option
from ..registry import register_preset
from .base import TABLE_STD
from .initial import set_initial_rows
from .sources import SourceConfig, read_sources, source_paths
from .task_prompts import TaskPrompts

Start: Any = ChoiceEnum(["ones", "normal"])


@dataclass
class MPTConfig(SourceConfig):
    mpt_init: Filled[Start] = option(
        "ones",
        "the task's vectors u and v start with 'ones', so that the prompt is the shared one, or, as in peft, 'normal' "
        "N(0, 0.02^2), so that it is nearly 0",
        starting=True,
    )


class SharedPrompt(nn.Module):
    """P = P* o (u v^T), at each place: ``shared`` P* places x t x d, ``u`` places x t x 1, ``v`` places x 1 x d."""

    def __init__(self, places: int, rows: int, width: int):
        super().__init__()
        self.shared = nn.Parameter(torch.empty(places, rows, width).normal_(std=TABLE_STD))
        self.u = nn.Parameter(torch.ones(places, rows, 1))
        self.v = nn.Parameter(torch.ones(places, 1, width))

    def forward(self) -> Tensor:
        return self.shared * self.u * self.v


class MPT(TaskPrompts):
    """P = P* o (u v^T), see ``SharedPrompt``; after training it is folded into a table.

    Trainable parameters: places (rows d + rows + d).
    """

    config = MPTConfig
    folded_remedy = Method.folded_remedy

    def make_network(self, cfg: Any, out: int) -> nn.Module | None:
        return SharedPrompt(len(self.places), self.rows, self.width)

    def made_rows(self, network: nn.Module) -> Tensor:
        return network()

    def start_rows(self, cfg: Any, words: WordEmbeddings) -> None:
        network: Any = self.reparameterization
        paths = source_paths(cfg.source_prompts)
        if paths:
            network.shared.copy_(read_sources(self, cfg, words, paths).mean(0))
        else:
            set_initial_rows(self, cfg, words, network.shared)
        if str(cfg.mpt_init) == "normal":
            for vector in (network.u, network.v):
                vector.normal_(std=TABLE_STD)
        self.fold()

    def prompt_parameters(self) -> list[nn.Parameter]:
        network: Any = self.reparameterization
        return [network.shared]

    def without_effect(self, cfg: Any) -> dict[str, str]:
        reasons = super().without_effect(cfg)
        if str(cfg.prompt_init) == "saved":
            reasons["source_prompts"] = "--prompt-init saved takes the whole method over: leave it out"
        elif source_paths(cfg.source_prompts):
            reasons["prompt_init"] = "the source prompts are the start: leave one of the two out"
        return reasons


register_preset("mpt", MPT, prompt_length=100)
