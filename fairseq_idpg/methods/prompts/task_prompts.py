"""Prompts of a task: the same rows for every input, of a table or of a network that is folded into one.

prompt-tuning: "The Power of Scale for Parameter-Efficient Prompt Tuning" (Lester et al., EMNLP 2021),
https://arxiv.org/abs/2104.08691
p-tuning-v2, as the IDPG paper compares with it, and p-tuning-v2-kv: https://arxiv.org/abs/2110.07602
p-tuning (lstm, mlp): "GPT Understands, Too" (Liu et al., 2021), https://arxiv.org/abs/2103.10385;
their code (https://github.com/THUDM/P-tuning) has this LSTM for LAMA, and one of d each way, or mlp, for SuperGLUE
deep-mlp: P-tuning's MLP as in peft (``PromptEncoder``, d wide). ID-SPAM's baseline names this option of peft, cites
P-tuning v2 and states no hidden size
prefix-mlp: "Prefix-Tuning" (Li and Liang, 2021), Section 4.3, https://arxiv.org/abs/2101.00190
low-rank: see ``dpt``

Differs from the papers in:
- p-tuning: prompts stand at --prompt-position, not within a written template, and the language model stays frozen.
- prompt-tuning: rows take position embeddings, LayerNorm and dropout like words, as in the IDPG paper's code, and start
  from N(0, 0.02^2); --prompt-init has the paper's three starts.
- p-tuning-v2: rows are ADDED to the hidden states, t per layer, half the parameters of the original's t keys and t
  values. The IDPG paper's code keeps t more rows that nothing reads; without them the count is the paper's.
- p-tuning-v2-kv: rows start from N(0, 0.02^2) and are not dropped, and the text keeps its positions. The released code
  has N(0, 1), dropout of 0.1 (--prompt-init standard-normal --prefix-dropout 0.1) and positions that begin t later.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from ...errors import InputError
from ..base import Geometry, WordEmbeddings
from ..options import Filled, option
from ..registry import register_preset
from .base import TABLE_STD, PromptAt, PromptConfig, PromptMethod

# --- networks
#
# Each gives P, t x out; out is the number of places times d, or times 2 d with keys and values. E is t x d and starts
# from N(0, 1), as in all papers that have it. --reparameterization-hidden-size is m, of low-rank r.


class LSTMNetwork(nn.Module):
    """P = W2 ReLU(W1 BiLSTM(E) + b1) + b2; the LSTM has two layers, d/2 wide each way.

    t d + 12 d^2 + 16 d + d^2 + d + d out + out parameters.
    """

    def __init__(self, length: int, width: int, out: int):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(length, width))
        self.lstm = nn.LSTM(width, width // 2, num_layers=2, bidirectional=True, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))

    def forward(self) -> Tensor:
        return self.mlp(self.lstm(self.embedding[None])[0][0])


class MLPNetwork(nn.Module):
    """P = W_n f(... f(W1 E + b1) ...) + b_n, with an activation f between two Linears; ``widths`` are d, ..., out.

    t d + sum_i (widths_i + 1) widths_i+1 parameters.
    """

    def __init__(self, length: int, activation: type[nn.Module], *widths: int):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(length, widths[0]))
        layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), activation())]
        self.mlp = nn.Sequential(*layers[:-1])  # no activation follows the last Linear

    def forward(self) -> Tensor:
        return self.mlp(self.embedding)


class LowRankNetwork(nn.Module):
    """P = A B, both random. r (t + out) parameters.

    A: t x r from N(0, 1 / r); B: r x out from N(0, 0.02^2), so that P starts with the size that a table has; with
    --prompt-init uniform both from (-0.5, 0.5), as in DPT's released code.
    """

    def __init__(self, length: int, out: int, rank: int):
        super().__init__()
        self.a = nn.Parameter(torch.randn(length, rank) * rank**-0.5)
        self.b = nn.Parameter(torch.randn(rank, out) * 0.02)

    def forward(self) -> Tensor:
        return self.a @ self.b


# (t, d, out, m) -> network
NETWORKS: dict[str, Callable[[int, int, int, int], nn.Module]] = {
    "lstm": lambda t, d, out, m: LSTMNetwork(t, d, out),
    "mlp": lambda t, d, out, m: MLPNetwork(t, nn.ReLU, d, d, out),
    "deep-mlp": lambda t, d, out, m: MLPNetwork(t, nn.ReLU, d, m, m, out),
    "prefix-mlp": lambda t, d, out, m: MLPNetwork(t, nn.Tanh, d, m, out),
    "low-rank": lambda t, d, out, m: LowRankNetwork(t, out, m),
}

Network: Any = ChoiceEnum(["none", *NETWORKS])


@dataclass
class TaskPromptConfig(PromptConfig):
    prompt_reparameterization: Filled[Network] = option(
        "none", "network that makes the prompt while it is trained (checkpoints hold the folded prompt too)"
    )
    reparameterization_hidden_size: Filled[int] = option(
        512,
        "hidden size of prefix-mlp and deep-mlp, rank of low-rank",
        only_with=("prompt_reparameterization", ("prefix-mlp", "deep-mlp", "low-rank")),
        least=1,
    )


class TaskPrompts(PromptMethod):
    """P_l = table[l], for each place l.

    ``table``: places x rows x d, drawn from N(0, 0.02^2); rows is t, or 2 t (t keys, then t values). With a network,
    ``reparameterization``, it is what that gave at the last switch to evaluation, or when it was last saved.
    Trainable parameters: places * rows * d, or the network's.
    """

    config = TaskPromptConfig
    folded_remedy = "train on with --finetune-from-model and --prompt-reparameterization none in another --save-dir"

    def __init__(self, cfg: TaskPromptConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.width, self.length = geometry.width, cfg.prompt_length
        table = torch.empty(len(self.places), self.rows, self.width).normal_(std=TABLE_STD)
        self.reparameterization = self.make_network(cfg, table.numel() // self.length)
        if self.reparameterization is None:
            self.table = nn.Parameter(table)
            return
        self.register_buffer("table", table)
        self.training_only = ("reparameterization.",)

    def make_network(self, cfg: Any, out: int) -> nn.Module | None:
        """Return what makes ``out`` numbers for each of the t rows in training; None: the table is a parameter."""
        # a method such as ``spot`` does not have the option
        make = NETWORKS.get(str(getattr(cfg, "prompt_reparameterization", None)))
        return None if make is None else make(self.length, self.width, out, cfg.reparameterization_hidden_size)

    def made_rows(self, network: nn.Module) -> Tensor:
        """Return the network's t x out as a table: places x rows x d."""
        # out holds, place after place, d numbers, or d of the key and d of the value
        made = network().view(self.length, len(self.places), -1, self.width)
        return made.permute(1, 2, 0, 3).reshape(len(self.places), self.rows, self.width)

    @torch.no_grad()
    def fold(self) -> None:
        """Put what the network makes now into the table, unless the checkpoint lacked the network."""
        if self.reparameterization is not None and not self.folded:
            self.table.copy_(self.made_rows(self.reparameterization))

    def prompt_parameters(self) -> list[nn.Parameter]:
        return [] if self.training_only else [self.table]

    def start_rows(self, cfg: Any, words: WordEmbeddings) -> None:
        network, init = self.reparameterization, str(cfg.prompt_init)
        if isinstance(network, LowRankNetwork) and init == "uniform":
            for factor in (network.a, network.b):
                factor.uniform_(-0.5, 0.5)
        elif self.training_only and init != "normal":
            raise InputError(f"--prompt-init {init} needs --prompt-reparameterization none: give that, or normal")
        else:
            super().start_rows(cfg, words)

    def begin_pass(self, representation: Tensor | None) -> PromptAt:
        table: Tensor = self.table
        if self.reparameterization is not None and self.training:
            self.check_whole()  # without its network the table can be evaluated, but not trained
            table = self.made_rows(self.reparameterization)
        rows = dict(zip(self.places, table))
        return lambda place, states: rows[place][None]


register_preset("prompt-tuning", TaskPrompts, paper="5K", prompt_length=5)
register_preset("prompt-tuning-134", TaskPrompts, paper="134K", prompt_length=134)
register_preset("prompt-tuning-100", TaskPrompts, prompt_length=100)
register_preset("p-tuning", TaskPrompts, prompt_length=5, prompt_reparameterization="lstm")
register_preset("p-tuning-v2", TaskPrompts, paper="120K", prompt_length=5, prompt_layers="all")
register_preset("p-tuning-v2-kv", TaskPrompts, prompt_length=5, prompt_layers="all", prompt_insertion="key-value")
