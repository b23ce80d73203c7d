"""The two-layer bottleneck that turns a sentence representation into a prompt (IDPG Sections 3.1 and 3.2.1)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..phm import check_divisible, kronecker_sum

PHM_STD = 0.05  # bare parameters keep the initialisation written in the released code
DENSE_STD = 0.02  # Linear weights are drawn again by RobertaModel


class Generator(nn.Module, ABC):
    """G(c) = W2 drop(GELU(W1 c + b1)), without the output bias, which may belong to a layer.

    ``c``: B x d -> B x (t d). b1 (``hidden_bias``) has m entries. Subclasses say how W1 and W2 are made.
    """

    def __init__(self, hidden: int, dropout: float):
        super().__init__()
        self.hidden_bias = nn.Parameter(torch.zeros(hidden))
        self.dropout = nn.Dropout(dropout)

    @abstractmethod
    def matrices(self) -> tuple[Tensor, Tensor]:
        """W1 (d x m) and W2 (m x t d), to be multiplied from the right: y = x W."""

    def ready(self) -> Callable[[Tensor], Tensor]:
        """G for all layers of one pass: W1 and W2 are built once, and GELU(W1 c + b1) once for layers with one c."""
        down, up = self.matrices()

        @lru_cache(maxsize=1)
        def hidden(c: Tensor) -> Tensor:
            return F.gelu(c @ down + self.hidden_bias)

        return lambda c: self.dropout(hidden(c)) @ up


class DenseGenerator(Generator):
    """DNN: W1 and W2 dense. Parameters: d m + m + m t d."""

    def __init__(self, width: int, hidden: int, out: int, dropout: float):
        super().__init__(hidden, dropout)
        self.down = nn.Parameter(torch.empty(width, hidden))
        self.up = nn.Parameter(torch.empty(hidden, out))
        for weight in (self.down, self.up):
            nn.init.normal_(weight, std=DENSE_STD)

    def matrices(self) -> tuple[Tensor, Tensor]:
        return self.down, self.up


class PHMGenerator(Generator):
    """PHM: W1 = sum_i A_i (x) B_i and W2 = sum_i A'_i (x) B'_i.

    With ``shared_a`` A' = A, as the paper counts S-IDPG; otherwise each has its own.
    Parameters: n^3 (shared) or 2 n^3, + d m / n + m + m t d / n.
    """

    def __init__(self, width: int, hidden: int, out: int, dropout: float, n: int, shared_a: bool):
        super().__init__(hidden, dropout)
        for what, value in (("the width d", width), ("--generator-hidden-size m", hidden), ("t x d", out)):
            check_divisible(what, value, n)
        self.down_a = nn.Parameter(torch.empty(n, n, n))
        self.down_b = nn.Parameter(torch.empty(n, width // n, hidden // n))
        if not shared_a:
            self.up_a = nn.Parameter(torch.empty(n, n, n))
        self.up_b = nn.Parameter(torch.empty(n, hidden // n, out // n))
        for parameter in self.parameters():  # hidden_bias too
            nn.init.normal_(parameter, std=PHM_STD)
        self.shared_a = shared_a

    def matrices(self) -> tuple[Tensor, Tensor]:
        up_a = self.down_a if self.shared_a else self.up_a
        return kronecker_sum(self.down_a, self.down_b), kronecker_sum(up_a, self.up_b)
