"""Compacter: adapters whose matrices are sums of Kronecker products of shared small and rank-one matrices.

Paper: "Compacter: Efficient Low-Rank Hypercomplex Adapter Layers" (Karimi Mahabadi et al., NeurIPS 2021),
https://arxiv.org/abs/2106.04647
compacter is the IDPG paper's (Appendix A.1.2), compacter-shared the authors' own.

Differs from the paper in:
- compacter, as the IDPG paper counts and its code does: every adapter has its own A, LayerNorms are frozen, dropout is
  0.1 on hidden layer and output. A, s, t and b_down start from N(0, 0.05^2), b_up from N(0, 0.02^2): not at the
  identity, since W has a standard deviation of 2.5e-4.
- compacter-shared: RoBERTa instead of T5, so each adapter stands in a post-norm layer; m = 16 is the IDPG paper's.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..base import Geometry
from ..options import Filled, option
from ..phm import check_divisible, kronecker_sum
from ..registry import register_preset
from .base import AdapterConfig, AdapterMethod

RELEASED_STD, RELEASED_UP_BIAS_STD = 0.05, 0.02
SHARED_A_STD = 1e-4  # phm_init_range of the authors' compacter.json


@dataclass
class CompacterConfig(AdapterConfig):
    compacter_n: Filled[int] = option(4, "number n of Kronecker products; divides d and m", least=1)


class Compacter(AdapterMethod):
    """f' = f + W_up act(W_down f + b_down) + b_up as ``adapter`` has it, with W = sum_i A_i (x) (s_i t_i^T).

    Down and up projection of an adapter share its A: ``a`` N x n x n x n, N = 2L. ``down_s`` and ``up_t`` are
    N x n x d/n, ``down_t`` and ``up_s`` N x n x m/n. Trainable parameters: 2L (3 d + 3 m + n^3).
    """

    config = CompacterConfig
    drops_hidden = True
    shares_a = False  # one A for all adapters

    def __init__(self, cfg: CompacterConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        n = cfg.compacter_n
        check_divisible("the width d", self.width, n, "--compacter-n")
        check_divisible("--adapter-hidden-size m", self.hidden, n, "--compacter-n")
        self.a = nn.Parameter(torch.empty(1 if self.shares_a else self.count, n, n, n))
        wide, narrow = (self.count, n, self.width // n), (self.count, n, self.hidden // n)
        self.down_s, self.down_t = nn.Parameter(torch.empty(wide)), nn.Parameter(torch.empty(narrow))
        self.up_s, self.up_t = nn.Parameter(torch.empty(narrow)), nn.Parameter(torch.empty(wide))
        self.draw_initial_values()

    def draw_initial_values(self) -> None:
        """Draw as the released IDPG code does."""
        for parameter in (self.a, self.down_s, self.down_t, self.up_s, self.up_t, self.down_bias):
            nn.init.normal_(parameter, std=RELEASED_STD)
        nn.init.normal_(self.up_bias, std=RELEASED_UP_BIAS_STD)

    def projections(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        # B_i = s_i t_i^T of all adapters: N x n x d/n x m/n and N x n x m/n x d/n
        down, up = (s[..., None] * t[..., None, :] for s, t in ((self.down_s, self.down_t), (self.up_s, self.up_t)))
        return kronecker_sum(self.a, down), self.down_bias, kronecker_sum(self.a, up), self.up_bias


class SharedCompacter(Compacter):
    """One A (``a``: 1 x n x n x n) for all adapters of all layers. Trainable parameters: 2L (3 d + 3 m) + n^3."""

    shares_a = True

    def draw_initial_values(self) -> None:
        """Start near the identity: A from N(0, 1e-8), s_i and t_i Glorot-uniform with gain sqrt(2), biases 0."""
        nn.init.normal_(self.a, std=SHARED_A_STD)
        for parameter in (self.down_s, self.down_t, self.up_s, self.up_t):
            bound = math.sqrt(2) * math.sqrt(6 / (parameter.size(-1) + 1))
            nn.init.uniform_(parameter, -bound, bound)


register_preset("compacter", Compacter, paper="149K", adapter_hidden_size=16, compacter_n=4, adapter_dropout=0.1)
register_preset(
    "compacter-shared",
    SharedCompacter,
    adapter_hidden_size=16,
    compacter_n=4,
    adapter_activation="gelu_accurate",
    train_layer_norms="true",
)
