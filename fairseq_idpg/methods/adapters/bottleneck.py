"""Bottleneck adapters.

adapter: "Parameter-Efficient Transfer Learning for NLP" (Houlsby et al., ICML 2019), https://arxiv.org/abs/1902.00751
adapter-pfeiffer: "AdapterFusion: Non-Destructive Task Composition for Transfer Learning" (Pfeiffer et al., EACL
2021), https://arxiv.org/abs/2005.00247, as AdapterHub's ``PfeifferConfig`` has it.

Differs from the papers in:
- both: m = 16 is the IDPG paper's, and every draw is cut at two standard deviations.
- adapter: the backbone's LayerNorms stay frozen, as in the IDPG paper; --train-layer-norms true trains them, as
  Houlsby et al. do. The standard deviation of 1e-3 is their code's (https://github.com/google-research/adapter-bert);
  their paper has 1e-2. The released IDPG code starts from N(0, 0.02^2), not near the identity, and drops 0.1 of the
  adapter's output: --adapter-init-std 0.02 --adapter-dropout 0.1.
- adapter-pfeiffer: matrices start from N(0, 0.02^2). The released IDPG code puts a new frozen LayerNorm in front of
  this adapter; ours is the layer's own, as in AdapterHub.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..base import Geometry
from ..options import Filled, option
from ..registry import register_preset
from .base import AdapterConfig, AdapterMethod, Branch


@dataclass
class BottleneckConfig(AdapterConfig):
    adapter_init_std: Filled[float] = option(
        1e-3,
        "standard deviation of the draw of an adapter's matrices, cut at two; biases start at 0",
        starting=True,
        above=0,
    )


def drawn_matrices(cfg: BottleneckConfig, count: int, inner: int, outer: int) -> Tensor:
    """Return count x inner x outer numbers from N(0, std^2), cut at two standard deviations."""
    std = cfg.adapter_init_std
    return nn.init.trunc_normal_(torch.empty(count, inner, outer), std=std, a=-2 * std, b=2 * std)


class Houlsby(AdapterMethod):
    """f' = f + W_up act(W_down f + b_down) + b_up, twice per layer.

    f is the output of attention or feed-forward after its dropout; the residual and the LayerNorm follow:
    x <- LN(x + f').
    ``down``: 2L x d x m, ``up``: 2L x m x d, truncated N(0, std^2). Trainable parameters: 2L (2 d m + m + d).
    """

    config = BottleneckConfig

    def __init__(self, cfg: BottleneckConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.down = nn.Parameter(drawn_matrices(cfg, self.count, self.width, self.hidden))
        self.up = nn.Parameter(drawn_matrices(cfg, self.count, self.hidden, self.width))


class Pfeiffer(Houlsby):
    """u = LN(f + x); f' = f + W_up act(W_down u + b_down) + b_up, once per layer, after the feed-forward.

    x is the residual and LN the layer's final LayerNorm, which then closes the layer once more: LN(x + f').
    Trainable parameters: L (2 d m + m + d).
    """

    sublayers = ("FFN",)

    def change(self, branch: Branch, f: Tensor, x: Tensor, layer_norm: nn.Module) -> Tensor:
        return f + branch(layer_norm(f + x))


register_preset("adapter", Houlsby, paper="1.55M", adapter_hidden_size=16)
register_preset("adapter-pfeiffer", Pfeiffer, adapter_hidden_size=16, adapter_activation="relu", adapter_init_std=0.02)
