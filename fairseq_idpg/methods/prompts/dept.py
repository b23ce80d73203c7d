"""DePT: a short prompt, and a low-rank change of the word embeddings at each position of the text.

Paper: "DePT: Decomposed Prompt Tuning for Parameter-Efficient Fine-tuning" (Shi and Lipani, ICLR 2024),
https://arxiv.org/abs/2309.05173; code: https://github.com/ZhengxiangShi/DecomposedPromptTuning

Differs from the paper in:
- A B has the factor alpha / sqrt(r) of the released code (--words-alpha), which the paper does not mention.
- A starts Kaiming-uniform and B at 0, as released; the prompt starts from N(0, 0.02^2). The released code has two other
  starts: N(0, 1), --prompt-init standard-normal, and one text for any data, --prompt-init text --prompt-init-text
  "Classify this text is postive or not:" (its spelling).
- Texts need not be padded to M tokens: pads and tokens after the M-th get nothing.
- A and B are added as in the released language models; the released wrapper for classification leaves them out.
- A and B have another learning rate than the prompt only with --optimizer grouped_adam --words-lr.
"""

import math
from dataclasses import dataclass, replace

import torch
from fairseq.dataclass import FairseqDataclass
from torch import Tensor, nn

from ...backbone.injection import Injection
from ..base import Geometry
from ..options import Filled, option
from ..registry import register_preset
from .task_prompts import TaskPromptConfig, TaskPrompts


@dataclass
class WordRowsConfig(FairseqDataclass):
    words_rank: Filled[int] = option(45, "rank r of what is added to the word embeddings, A (M x r) B (r x d)", least=1)
    words_length: Filled[int] = option(256, "A B is added to the first M tokens of a text, <s> among them", least=1)


@dataclass
class DePTConfig(WordRowsConfig, TaskPromptConfig):
    words_alpha: Filled[float] = option(8.0, "A B is added times alpha / sqrt(r)")


class LowRankRows(nn.Module):
    """scale * A B, M x d. A: M x r, Kaiming-uniform; B: r x d, zeros. r (M + d) parameters."""

    def __init__(self, cfg: WordRowsConfig, width: int, scale: float = 1.0):
        super().__init__()
        self.scale = scale
        self.a = nn.Parameter(torch.empty(cfg.words_length, cfg.words_rank))
        self.b = nn.Parameter(torch.zeros(cfg.words_rank, width))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self) -> Tensor:
        return self.scale * (self.a @ self.b)


class PromptWithWords(TaskPrompts):
    """A task prompt, and ``words``: rows that are added to word embeddings, or None."""

    words: LowRankRows | None

    def add_to_words(self, rows: LowRankRows) -> None:
        self.words = rows
        self.slots = (*self.slots, "words")

    def injection(self, representation: Tensor | None) -> Injection:
        injection = super().injection(representation)
        return injection if self.words is None else replace(injection, words=self.words())

    def word_parameters(self) -> list[nn.Parameter]:
        return [] if self.words is None else list(self.words.parameters())

    def describe(self) -> str:
        if self.words is None:
            return super().describe()
        length, rank = self.words.a.shape
        return f"{super().describe()}; rank {rank} added to the words of the first {length} tokens"


class DePT(PromptWithWords):
    """P = table, and E_j + alpha / sqrt(r) (A B)_j for the word embedding of token j < M.

    Trainable parameters: places rows d + r (M + d).
    """

    config = DePTConfig

    def __init__(self, cfg: DePTConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.add_to_words(LowRankRows(cfg, geometry.width, cfg.words_alpha / math.sqrt(cfg.words_rank)))


register_preset("dept", DePT, prompt_length=40)
