"""Multi-head parallel adapter: a small one beside each head of attention, from the head's own queries.

Paper: "Towards a Unified View of Parameter-Efficient Transfer Learning" (He et al., ICLR 2022),
https://arxiv.org/abs/2110.04366, Table 1, which says only that it changes what prefix tuning changes, the outputs of
the heads, at the same size. Code: ``MHAdapter_Layer`` of https://github.com/jxhe/unify-parameter-efficient-tuning

Differs from the released code in: no LayerNorm of its own in front; W_down starts uniform in ±1/sqrt(w) and W_up at 0,
not both from N(0, 0.02^2). There ``cross_attn_relu`` is called multi-head adapter too: ReLU(q K^T / sqrt(w)) V, K and V
made by a prefix's network.
"""

import torch
from torch import Tensor, nn

from ...backbone.injection import NO_ADDITIONS, Additions, Injection
from ..base import Geometry
from ..registry import register_preset
from .base import Branch
from .parallel import ScaledAdapters, ScaledConfig


class MultiHeadAdapters(ScaledAdapters):
    """head_h' = head_h + s (W_up,h ReLU(W_down,h q_h + b_down,h) + b_up,h), in front of the output projection.

    q_h = W_q,h x + b_q,h are the frozen queries of head h, w = d/H wide. ``down``: L x H x w x m, uniform in
    ±1/sqrt(w); ``up``: L x H x m x w, 0; ``down_bias``: L x H x m. Trainable parameters: L (2 d m + H m + d), and L of
    a learned s.
    """

    slots = ("projection",)
    stands = "beside the heads of"

    def __init__(self, cfg: ScaledConfig, geometry: Geometry):
        super().__init__(cfg, geometry)
        self.heads = geometry.heads
        within = self.width // self.heads
        down = torch.empty(self.count, self.heads, within, self.hidden)
        self.down = nn.Parameter(down.uniform_(-(within**-0.5), within**-0.5))
        self.up = nn.Parameter(torch.zeros(self.count, self.heads, self.hidden, within))
        self.down_bias = nn.Parameter(torch.zeros(self.count, self.heads, self.hidden))

    def sublayers_of(self, cfg: ScaledConfig) -> tuple[str, ...]:
        return ("attention",)

    def matrices(self) -> tuple[Tensor, Tensor]:
        """W_down (L x H x w x m) and s W_up (L x H x m x w)."""
        return self.down, self.scaled(self.up)

    def injection(self, representation: Tensor | None) -> Injection:
        down, up = self.matrices()
        stacked = (down, self.down_bias, up, self.scaled(self.up_bias))
        additions = {
            layer: Additions(heads=self._branch(*parts))
            for layer, *parts in zip(self.layers, *(tensor.unbind() for tensor in stacked))
        }
        return Injection(projection=lambda layer: additions.get(layer, NO_ADDITIONS))

    def _branch(self, down: Tensor, down_bias: Tensor, up: Tensor, up_bias: Tensor) -> Branch:
        def adapter(queries: Tensor) -> Tensor:
            by_head = queries.view(-1, self.heads, down.size(1)).transpose(0, 1)  # H x T*B x w
            hidden = self.dropout(self.activation(torch.baddbmm(down_bias[:, None], by_head, down)))
            return torch.bmm(hidden, up).transpose(0, 1).reshape(queries.shape) + up_bias

        return adapter


register_preset("adapter-multihead-parallel", MultiHeadAdapters, adapter_activation="relu", adapter_dropout=0.1)
