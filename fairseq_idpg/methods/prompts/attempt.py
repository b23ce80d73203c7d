"""ATTEMPT: a mixture of other tasks' frozen prompts and the task's own, weighted for each input.

Paper: "ATTEMPT: Parameter-Efficient Multi-task Tuning via Attentional Mixtures of Soft Prompts" (Asai et al., EMNLP
2022), https://arxiv.org/abs/2205.11961; code: https://github.com/AkariAsai/ATTEMPT (613f700, ``modeling_t5.py`` with
``attn_method`` sub), which has t, m, the missing biases and all starting values.

Differs from the paper in:
- A run trains one task: its attention network is its own, or starts from another task's (--prompt-init saved).
- T is e d, where the code's learned temperature begins: 2087 for d = 768, as in its script for one task; its default is
  2000. RoBERTa's word embeddings are smaller than T5's, so the weights are nearly even; at --attempt-temperature 10
  they are not.
- The largest value of each width is taken over an input's tokens alone; the released code pads to 256 and counts pads.
- Prompts above the input, late ones, keys and values are mixed with the same weights. A prompt's key is then the
  largest values of its rows at all places.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ...backbone.injection import States
from ...errors import InputError
from ..base import Geometry, WordEmbeddings
from ..options import Filled, option, parse_number
from ..registry import register_preset
from .base import TABLE_STD, PromptAt, PromptMethod, words_of
from .sources import SourceConfig, named_sources, read_sources, source_paths

ATTENTION_STD = 0.01  # of the released code's Linears

Start: Any = ChoiceEnum(["source", "own"])


@dataclass
class ATTEMPTConfig(SourceConfig):
    attempt_sources: Filled[int] = option(6, "source prompts n; with --source-prompts as many as these names", least=1)
    attempt_hidden_size: Filled[int] = option(100, "hidden size m of the attention network", least=1)
    attempt_temperature: Filled[str] = option(
        "auto", "what scores are divided by in the softmax, such as 50; 'auto': e d, the published 2087 for d = 768"
    )
    attempt_init: Filled[Start] = option(
        "source",
        "the task's own prompt starts from the first 'source', as in the released code, or, with a start of its 'own', "
        "as --prompt-init says",
        starting=True,
    )


class ATTEMPT(PromptMethod):
    """P_l = table_l + sum_j a_j P_j,l;  a = softmax(K LN(W_up SiLU(W_down x)) / T), over n sources and the table.

    x: B x d, the largest values of an input's word embeddings; K: (n + 1) x d, those of each prompt's rows.
    ``table``: places x rows x d, the task's own prompt; ``sources``: n x places x rows x d, frozen, and saved too.
    Trainable parameters: places rows d + 2 d m + 2 d.
    """

    config = ATTEMPTConfig
    reads_words = True
    shared = "the task's own prompt, one of those that are mixed for each input"
    shows_no_example = "mixes prompts for each input, of which the task's own is shown without"
    sources: Tensor

    def __init__(self, cfg: ATTEMPTConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        width, hidden, count = geometry.width, cfg.attempt_hidden_size, cfg.attempt_sources
        self.temperature = parse_number(cfg, "attempt_temperature", "auto") or math.e * width
        self.table = nn.Parameter(torch.empty(len(self.places), self.rows, width).normal_(std=TABLE_STD))
        self.register_buffer("sources", torch.empty(count, *self.table.shape).normal_(std=TABLE_STD))
        self.down, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)
        for linear in (self.down, self.up):
            nn.init.normal_(linear.weight, std=ATTENTION_STD)
        self.layer_norm = nn.LayerNorm(width)

    @classmethod
    def derive_options(cls, cfg: Any) -> None:
        count = len(source_paths(getattr(cfg, "source_prompts", None)))
        if not count:
            return
        number = getattr(cfg, "attempt_sources", None)
        if number not in (None, count):
            raise InputError(f"--attempt-sources {number}: --source-prompts names {count}: leave the number out")
        cfg.attempt_sources = count

    @torch.no_grad()
    def set_initial_values(self, cfg: Any, words: WordEmbeddings) -> None:
        super().set_initial_values(cfg, words)
        paths = source_paths(cfg.source_prompts)
        if paths:
            self.sources.copy_(read_sources(self, cfg, words, paths))
            if str(cfg.attempt_init) == "source" and str(cfg.prompt_init) != "saved":
                self.table.copy_(self.sources[0])

    def start_rows(self, cfg: Any, words: WordEmbeddings) -> None:
        named_sources(cfg)
        super().start_rows(cfg, words)

    def weights(self, words: States, prompts: Tensor) -> Tensor:
        """Return a, B x (n + 1), from (n + 1) x places x rows x d ``prompts``."""
        # pads do not take part in the largest values
        x = words.x if words.padding is None else words.x.masked_fill(words.padding.t()[..., None], -math.inf)
        query = self.layer_norm(self.up(F.silu(self.down(x.amax(0)))))
        return (query @ prompts.flatten(1, 2).amax(1).t() / self.temperature).softmax(1)

    def begin_pass(self, representation: Tensor | None) -> PromptAt:
        once: list[Tensor] = []  # the weights, of the whole pass
        prompts = torch.cat([self.sources, self.table[None]])
        rows_at = dict(zip(self.places, prompts.unbind(1)))

        def prompt_at(place: int, states: Any) -> Tensor:
            # the first place that is reached makes the weights of all places
            if not once:
                once.append(self.weights(words_of(states), prompts))
            (weights,), rows = once, rows_at[place]
            # the task's own prompt is added whole, and is also one of those that are mixed
            return rows[-1] + (weights @ rows.flatten(1)).unflatten(1, rows.shape[1:])

        return prompt_at

    def without_effect(self, cfg: Any) -> dict[str, str]:
        reasons = super().without_effect(cfg)
        if str(cfg.prompt_init) != "saved" and str(cfg.attempt_init) == "source":
            reasons["prompt_init"] = "the first source is the start: leave it out, or give --attempt-init own"
        return reasons

    def describe(self) -> str:
        return f"{super().describe()}, mixed with {len(self.sources)} source prompts for each input"


register_preset("attempt", ATTEMPT, prompt_length=100)
