"""fairseq's self-attention with two slots open: its projections and a key/value prefix."""

from typing import Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor

from .dropout import QuickDropout, dropped_attention
from .injection import Prefix


class OpenAttention(MultiheadAttention):
    """softmax(q [K'; k]^T / sqrt(d/H)) [V'; v], bitwise equal to fairseq's when nothing is injected.

    Two things differ from the parent, which hands the projections' weights to one fused torch function:
    the projections are called as modules, so whatever wraps or hooks them (LoRA) takes part, and a prefix of
    keys and values can enter after the projection.

    ``prefix`` is set by the layer for one forward pass.
    """

    prefix: Optional[Prefix] = None

    def __init__(self, embed_dim: int, num_heads: int, **options):
        super().__init__(embed_dim, num_heads, **options)
        self.dropout_module = QuickDropout(self.dropout_module.p)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = False,
        attn_mask: Optional[Tensor] = None,
    ) -> Tuple[Tensor, None]:
        """``query``, ``key``, ``value``: T x B x d; ``key_padding_mask``: B x T, true at pads. Returns T x B x d."""
        if need_weights or attn_mask is not None:
            raise ValueError("OpenAttention is the encoder's self-attention: no weights, no attention mask")
        length, batch, width = query.shape
        q = self._heads(self.q_proj(query))
        k = self._heads(self.k_proj(key))
        v = self._heads(self.v_proj(value))
        mask = None
        if key_padding_mask is not None:
            mask = ~key_padding_mask.bool()[:, None, None]  # B x 1 x 1 x T, true where a key takes part
        if self.prefix is not None:
            prefix_k, prefix_v = self._prefix_heads(k)
            k, v = torch.cat([prefix_k, k], dim=2), torch.cat([prefix_v, v], dim=2)
            mask = None if mask is None else F.pad(mask, (prefix_k.size(2), 0), value=True)
        if self.dropout_module.draws_quickly(q):
            out = dropped_attention(q, k, v, mask, self.dropout_module.p)
        else:
            dropout = self.dropout_module.p if self.training else 0.0
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)  # B x H x T x d/H
        return self.out_proj(out.permute(2, 0, 1, 3).reshape(length, batch, width)), None

    def _prefix_heads(self, like: Tensor) -> Tuple[Tensor, Tensor]:
        """The prefix's keys and values: each B x H x p x d/H."""
        keys, values = (rows.type_as(like).transpose(0, 1) for rows in self.prefix[:2])
        if self.prefix.before_projection:
            keys, values = self.k_proj(keys), self.v_proj(values)
        keys, values = (self._heads(rows).expand(like.size(0), -1, -1, -1) for rows in (keys, values))
        return keys, values

    def _heads(self, x: Tensor) -> Tensor:
        """T x B x d -> B x H x T x d/H."""
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_dim).permute(1, 2, 0, 3)
