"""Networks that make a task prompt while it is trained, and are folded into a plain table afterwards.

lstm, mlp: "GPT Understands, Too" (P-tuning, Liu et al., 2021), https://arxiv.org/abs/2103.10385;
their code (https://github.com/THUDM/P-tuning) has this LSTM for LAMA, and one of d each way, or mlp, for SuperGLUE
deep-mlp: P-tuning's MLP as peft has it (``PromptEncoder``): ID-SPAM's baseline, which names this option of peft, though
it cites P-tuning v2; its hidden size is not stated, and peft takes the model's width
prefix-mlp: "Prefix-Tuning" (Li and Liang, 2021), Section 4.3, https://arxiv.org/abs/2101.00190
low-rank: see ``dpt``

Differs from the papers in: P-tuning's prompts stand where --prompt-position says instead of within a written template,
and its language model stays frozen.

Each gives P, t x out: out is the number of the prompt's places times d, or times 2 d with keys and values. E is t x d
and starts from N(0, 1), as in all papers that have it. --reparameterization-hidden-size is m, of low-rank r.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class LSTMNetwork(nn.Module):
    """P = W2 ReLU(W1 BiLSTM(E) + b1) + b2; the LSTM has two layers, d/2 wide each way.

    t d + 12 d^2 + 16 d + d^2 + d + d out + out parameters.
    """

    def __init__(self, length: int, width: int, out: int, hidden: int):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(length, width))
        self.lstm = nn.LSTM(width, width // 2, num_layers=2, bidirectional=True, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))

    def forward(self) -> Tensor:
        """t x out."""
        return self.mlp(self.lstm(self.embedding[None])[0][0])


class MLPNetwork(nn.Module):
    """P = W2 ReLU(W1 E + b1) + b2. t d + d^2 + d + d out + out parameters."""

    def __init__(self, length: int, width: int, out: int, hidden: int):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(length, width))
        self.mlp = self.layers(width, out, hidden)

    def layers(self, width: int, out: int, hidden: int) -> nn.Sequential:
        """... x d -> ... x out."""
        return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))

    def forward(self) -> Tensor:
        """t x out."""
        return self.mlp(self.embedding)


class DeepMLPNetwork(MLPNetwork):
    """P = W3 ReLU(W2 ReLU(W1 E + b1) + b2) + b3. t d + d m + m + m^2 + m + m out + out parameters."""

    def layers(self, width: int, out: int, hidden: int) -> nn.Sequential:
        first, second, last = nn.Linear(width, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, out)
        return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)


class PrefixMLPNetwork(MLPNetwork):
    """P = W2 tanh(W1 E + b1) + b2. t d + d m + m + m out + out parameters."""

    def layers(self, width: int, out: int, hidden: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, out))


class LowRankNetwork(nn.Module):
    """P = A B, both random. r (t + out) parameters.

    A: t x r from N(0, 1 / r); B: r x out from N(0, 0.02^2), so that P starts with the size that a table has; with
    --prompt-init uniform both from (-0.5, 0.5).
    """

    def __init__(self, length: int, width: int, out: int, hidden: int):
        super().__init__()
        self.a = nn.Parameter(torch.randn(length, hidden) * hidden**-0.5)
        self.b = nn.Parameter(torch.randn(hidden, out) * 0.02)

    def forward(self) -> Tensor:
        """t x out."""
        return self.a @ self.b

    @torch.no_grad()
    def draw_uniformly(self) -> None:
        """Draw A and B from (-0.5, 0.5), as DPT's released code draws them."""
        for factor in (self.a, self.b):
            factor.uniform_(-0.5, 0.5)


# (t, d, numbers made for each of the t rows, hidden size) -> network
NETWORKS: dict[str, Callable[[int, int, int, int], nn.Module]] = {
    "lstm": LSTMNetwork,
    "mlp": MLPNetwork,
    "deep-mlp": DeepMLPNetwork,
    "prefix-mlp": PrefixMLPNetwork,
    "low-rank": LowRankNetwork,
}
