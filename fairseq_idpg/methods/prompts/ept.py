"""EPT: DePT's short prompt and word rows, the prompt fused with these and projected by a few small networks.

Paper: "Efficient Prompt Tuning by Multi-Space Projection and Prompt Fusion" (Lan et al., AAAI 2025),
https://arxiv.org/abs/2405.11464; no code was published.

Where the paper leaves a choice or contradicts itself:
- fusion: its einsum bpl,bpd->bpd sums the softmax over l, so that P_f = 2 P_s ('printed'). The words around it have
  P_f = P_s + softmax(P_s (A B)^T / sqrt d) (A B) ('lowrank', the default), over all M rows, however short a text is.
  P_f is said to have M rows; here it has s, as P_amend, to which it is added;
- A B has no factor, unlike DePT's. A and B come from an SVD of a long prompt of 100 frequent words, "aligned" with M
  rows: by zeros, or repeated (--ept-init-align). Its values go to A, to both, or to neither (--ept-init-split);
- the experts' inner width has the letter of the longest input: here --ept-hidden-size, 256. The paper's 76.8K
  parameters leave the experts out: P is folded after training, and --no-save-optimizer-state keeps only P, A and B;
- ablations: P_f = P_s without fusion, P_amend = 0 without experts, and no A B without decomposition.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ...errors import InputError
from ..base import Geometry, Method, WordEmbeddings
from ..options import Filled, TrueFalse, option
from ..registry import register_preset
from .base import TABLE_STD, PromptConfig
from .dept import LowRankRows, PromptWithWords, WordRowsConfig
from .initial import set_initial_rows

ALIGN: dict[str, Callable[[Tensor, int], Tensor]] = {  # l x d -> count x d
    "zeros": lambda rows, count: F.pad(rows[:count], (0, 0, 0, max(count - len(rows), 0))),
    "repeat": lambda rows, count: rows[torch.arange(count) % len(rows)],
}
SPLIT: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {  # singular values -> factors of A's and of B's
    "first": lambda values: (values, torch.ones_like(values)),
    "both": lambda values: (values.sqrt(), values.sqrt()),
    "none": lambda values: (torch.ones_like(values), torch.ones_like(values)),
}
Fusion: Any = ChoiceEnum(["printed", "lowrank", "none"])
Align: Any = ChoiceEnum(list(ALIGN))
Split: Any = ChoiceEnum(list(SPLIT))


@dataclass
class EPTConfig(WordRowsConfig, PromptConfig):
    ept_decomposition: Filled[TrueFalse] = option("true", "add A B to the word embeddings ('false': an ablation)")
    ept_fusion: Filled[Fusion] = option(
        "lowrank",
        "P_f: 'printed' 2 P_s, 'lowrank' P_s and the rows of A B that it attends to, or 'none' P_s (an ablation)",
    )
    ept_experts: Filled[int] = option(4, "networks of the multi-space projection; 0: none (an ablation)", least=0)
    ept_hidden_size: Filled[int] = option(256, "inner width of each of these", least=1)
    ept_init_length: Filled[int] = option(
        100,
        "rows of the long prompt that --prompt-init starts: its first ones start the prompt, its SVD A and B",
        starting=True,
    )
    ept_init_align: Filled[Align] = option(
        "zeros",
        "the long prompt gets M rows by 'zeros' behind it or by 'repeat'",
        only_with=("ept_decomposition", ("true",)),
        starting=True,
    )
    ept_init_split: Filled[Split] = option(
        "first",
        "its singular values go to the 'first' factor A, their roots to 'both', or 'none' are used",
        only_with=("ept_decomposition", ("true",)),
        starting=True,
    )


def low_rank(rows: Tensor, rank: int, split: str) -> tuple[Tensor, Tensor]:
    """Return A (M x r) and B (r x d) of the r largest singular values of M x d ``rows``."""
    u, values, v = torch.linalg.svd(rows.float(), full_matrices=False)
    left, right = SPLIT[split](values[:rank])
    return u[:, :rank] * left, right[:, None] * v[:rank]


class Experts(nn.Module):
    """sum_i g_i(p) (W_i2 ReLU(W_i1 p + b_i1) + b_i2), g = softmax(W p + b), for each row p of a prompt.

    n (2 d h + h + d) + n (d + 1) parameters for n experts h wide. They start as PyTorch's Linears do.
    """

    def __init__(self, count: int, width: int, hidden: int):
        super().__init__()

        def drawn(rows: int, columns: int, inputs: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(count, rows, columns).uniform_(-(inputs**-0.5), inputs**-0.5))

        self.down, self.down_bias = drawn(width, hidden, width), drawn(1, hidden, width)
        self.up, self.up_bias = drawn(hidden, width, hidden), drawn(1, width, hidden)
        self.gate = nn.Linear(width, count)

    def forward(self, rows: Tensor) -> Tensor:
        """... x t x d -> ... x t x d."""
        hidden = F.relu(rows.unsqueeze(-3) @ self.down + self.down_bias)  # ... x n x t x h
        gates = self.gate(rows).softmax(-1).transpose(-1, -2)  # ... x n x t
        return (gates.unsqueeze(-1) * (hidden @ self.up + self.up_bias)).sum(-3)


class FusedPrompt(nn.Module):
    """P_new = P_f + P_amend from P_s = ``rows`` (places x t x d) and A B."""

    def __init__(self, rows: Tensor, fusion: str, experts: Experts | None):
        super().__init__()
        self.rows = nn.Parameter(rows)
        self.fusion = fusion
        self.experts = experts

    def forward(self, added: Any) -> Tensor:
        """Return places x t x d, from A B (M x d), which only lowrank needs."""
        rows: Tensor = self.rows
        # P_f; the experts read P_s
        fused = rows
        if self.fusion == "lowrank":
            fused = rows + (rows @ added.t() / math.sqrt(rows.size(-1))).softmax(-1) @ added
        elif self.fusion == "printed":
            fused = 2 * rows
        return fused if self.experts is None else fused + self.experts(rows)


class EPT(PromptWithWords):
    """P = P_f + P_amend, see ``FusedPrompt``, and E_j + (A B)_j for the word embedding of token j < M.

    In training s d + r (M + d) parameters and those of the experts; folded s d + r (M + d). Each place has its own P_s;
    all places share A B and the experts.
    """

    config = EPTConfig
    folded_remedy = Method.folded_remedy

    def __init__(self, cfg: EPTConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.words = None
        if str(cfg.ept_decomposition) == "true":
            most = min(cfg.words_length, geometry.width)
            if cfg.words_rank > most:
                raise InputError(f"--words-rank {cfg.words_rank}: an SVD of M x d rows has {most} values: give fewer")
            self.add_to_words(LowRankRows(cfg, geometry.width))
        elif str(cfg.ept_fusion) == "lowrank":
            raise InputError("--ept-decomposition false: --ept-fusion lowrank attends to A B: give printed or none")

    def make_network(self, cfg: Any, out: int) -> nn.Module:
        experts = Experts(cfg.ept_experts, self.width, cfg.ept_hidden_size) if cfg.ept_experts else None
        rows = torch.empty(len(self.places), self.rows, self.width).normal_(std=TABLE_STD)
        return FusedPrompt(rows, str(cfg.ept_fusion), experts)

    def made_rows(self, network: nn.Module) -> Tensor:
        return network(None if self.words is None else self.words())

    def start_rows(self, cfg: Any, words: WordEmbeddings) -> None:
        length = max(cfg.ept_init_length, self.rows)  # the prompt starts from the first rows of the long one
        split = str(cfg.ept_init_split)
        if self.words is not None and split == "both" and length < cfg.words_rank:
            raise InputError(
                f"--ept-init-length {length} with --words-rank {cfg.words_rank}: --ept-init-split both starts A and B "
                f"at 0 in all ranks above {length}, which then never get a gradient: give {cfg.words_rank} or more, or "
                "--ept-init-split first"
            )
        network: Any = self.reparameterization
        # P_s starts from the first rows of a long prompt at each place, A and B from the long prompt of the first place
        long_prompts = torch.empty(len(self.places), length, self.width).normal_(std=TABLE_STD)
        set_initial_rows(self, cfg, words, long_prompts)
        network.rows.copy_(long_prompts[:, : self.rows])
        if self.words is not None:
            aligned = ALIGN[str(cfg.ept_init_align)](long_prompts[0], len(self.words.a))
            a, b = low_rank(aligned, self.words.a.size(1), split)
            self.words.a.copy_(a)
            self.words.b.copy_(b)
        self.fold()

    def without_effect(self, cfg: Any) -> dict[str, str]:
        reasons = super().without_effect(cfg)
        if not cfg.ept_experts:
            reasons["ept_hidden_size"] = "there are no experts: leave it out or give --ept-experts 4"
        if self.words is None:
            reason = "nothing is added to the words: leave it out"
            reasons.update(words_rank=reason, words_length=reason, ept_init_length=reason)
        elif max(cfg.ept_init_length, self.rows) >= cfg.words_length:
            reasons["ept_init_align"] = f"the long prompt has {cfg.words_length} rows or more: leave it out"
        return reasons

    def prompt_parameters(self) -> list[nn.Parameter]:
        network: Any = self.reparameterization
        return [network.rows]


register_preset("ept", EPT, prompt_length=60, prompt_init="vocabulary", words_rank=30)
