"""EPT: DePT's short prompt and word rows, the prompt fused with these and projected by a few small networks.

Paper: "Efficient Prompt Tuning by Multi-Space Projection and Prompt Fusion" (Lan et al., AAAI 2025),
https://arxiv.org/abs/2405.11464; no code was published.

Where the paper leaves a choice or contradicts itself:
- fusion: its einsum bpl,bpd->bpd sums the softmax over l, so that P_f = 2 P_s ('printed'). The words around it have
  P_f = P_s + softmax(P_s (A B)^T / sqrt d) (A B) ('lowrank', the default), of all M rows, however short a text is.
  P_f is said to have M rows, and has s, as what it is added to;
- A B has no factor, unlike DePT's. A and B come from an SVD of a long prompt of 100 frequent words, "aligned" with M
  rows: by zeros, or repeated (--ept-init-align). Its values go to A, to both, or to neither (--ept-init-split);
- the experts' inner width is written with the letter of the longest input: --ept-hidden-size, 256. Its 76.8K parameters
  are counted without them: P is folded after training, and --no-save-optimizer-state keeps P, A and B alone;
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
    """Options of EPT."""

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
        self.down, self.down_bias = self._linear(count, width, hidden)
        self.up, self.up_bias = self._linear(count, hidden, width)
        self.gate = nn.Linear(width, count)

    @staticmethod
    def _linear(count: int, inner: int, outer: int) -> tuple[nn.Parameter, nn.Parameter]:
        bound = inner**-0.5
        weight, bias = (torch.empty(count, size, outer).uniform_(-bound, bound) for size in (inner, 1))
        return nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, rows: Tensor) -> Tensor:
        """... x t x d -> ... x t x d."""
        of_experts = F.relu(rows.unsqueeze(-3) @ self.down + self.down_bias) @ self.up + self.up_bias  # ... x n x t x d
        gates = self.gate(rows).softmax(-1).transpose(-1, -2)  # ... x n x t
        return (gates.unsqueeze(-1) * of_experts).sum(-3)


class FusedPrompt(nn.Module):
    """P_new = P_f + P_amend from P_s = ``rows`` (places x t x d) and A B."""

    def __init__(self, rows: Tensor, fusion: str, experts: Experts | None):
        super().__init__()
        self.rows = nn.Parameter(rows)
        self.fusion = fusion
        self.experts = experts

    def forward(self, added: Any) -> Tensor:
        """places x t x d, from A B (M x d), which lowrank alone needs."""
        rows: Tensor = self.rows
        # P_f; the experts read P_s, not this
        fused = rows
        if self.fusion == "lowrank":
            fused = rows + (rows @ added.t() / math.sqrt(rows.size(-1))).softmax(-1) @ added
        elif self.fusion == "printed":
            fused = 2 * rows
        return fused if self.experts is None else fused + self.experts(rows)


class EPT(PromptWithWords):
    """P = P_f + P_amend, see ``FusedPrompt``, and E_j + (A B)_j for the word embedding of token j < M.

    While it is trained: s d + r (M + d) parameters and those of the experts; folded: s d + r (M + d). At several places
    each has its own P_s, and all share A B and the experts.
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
            raise InputError(
                "--ept-decomposition false: --ept-fusion lowrank attends to A B: give --ept-fusion printed or none"
            )

    def make_network(self, cfg: Any, out: int) -> nn.Module:
        experts = Experts(cfg.ept_experts, self.width, cfg.ept_hidden_size) if cfg.ept_experts else None
        rows = torch.empty(len(self.places), self.rows, self.width).normal_(std=TABLE_STD)
        return FusedPrompt(rows, str(cfg.ept_fusion), experts)

    def made_rows(self, network: nn.Module) -> Tensor:
        return network(None if self.words is None else self.words())

    def start_rows(self, cfg: Any, words: WordEmbeddings) -> None:
        length = max(cfg.ept_init_length, self.rows)  # the prompt starts from the first of them
        split = str(cfg.ept_init_split)
        if self.words is not None and split == "both" and length < cfg.words_rank:
            raise InputError(
                f"--ept-init-length {length} with --words-rank {cfg.words_rank}: --ept-init-split both starts A and B "
                f"at 0 in what is more, where neither ever gets a gradient: give {cfg.words_rank} or more rows, or "
                "--ept-init-split first"
            )
        network: Any = self.reparameterization
        # at each place the long prompt's first rows start P_s; that of the first place gives A and B
        long = torch.empty(len(self.places), length, self.width).normal_(std=TABLE_STD)
        set_initial_rows(self, cfg, words, long)
        network.rows.copy_(long[:, : self.rows])
        if self.words is not None:
            aligned = ALIGN[str(cfg.ept_init_align)](long[0], len(self.words.a))
            a, b = low_rank(aligned, self.words.a.size(1), split)
            self.words.a.copy_(a)
            self.words.b.copy_(b)
        self.fold()

    def without_effect(self, cfg: Any) -> dict[str, str]:
        found = super().without_effect(cfg)
        if not cfg.ept_experts:
            found["ept_hidden_size"] = "without experts: leave it out or give --ept-experts 4"
        if self.words is None:
            nothing = "nothing is added to the words: leave it out"
            found.update(words_rank=nothing, words_length=nothing, ept_init_length=nothing)
        elif cfg.ept_init_length >= cfg.words_length:
            found["ept_init_align"] = f"the long prompt has {cfg.words_length} rows and more: leave it out"
        if str(cfg.prompt_init) == "saved":
            taken = "--prompt-init saved takes prompt and pair over: leave it out"
            found.update(dict.fromkeys(("ept_init_length", "ept_init_align", "ept_init_split"), taken))
        return found

    def prompt_parameters(self) -> list[nn.Parameter]:
        network: Any = self.reparameterization
        return [network.rows]


register_preset("ept", EPT, prompt_length=60, prompt_init="vocabulary", words_rank=30)
