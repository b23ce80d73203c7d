"""fairseq's self-attention with two slots open: its projections and a key/value prefix."""

from functools import lru_cache

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from .dropout import QuickDropout, dropped_attention
from .injection import NO_ADDITIONS, Additions, Prefix
from .real_tokens import ALL, Tokens


def project(module: nn.Module, name: str, x: Tensor, additions: Additions) -> Tensor:
    """W x + b + addition(x), for the Linear of ``module`` with that name; x: ... x in -> ... x out."""
    out, addition = getattr(module, name)(x), getattr(additions, name)
    return out if addition is None else out + addition(x).type_as(out)


@lru_cache(maxsize=2)
def key_bias(padding: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """B x 1 x 1 x (rows + T), to be added to scores: -inf at pads, true in ``padding`` (B x T), 0 elsewhere.

    ``rows``: keys in front of the text. Remembered, as the layers of a pass share their padding: on a GPU each of the
    operations on a mask costs as much time as one on states.
    """
    bias = torch.zeros(padding.shape, dtype=dtype, device=padding.device).masked_fill_(padding, float("-inf"))
    return F.pad(bias, (rows, 0))[:, None, None]


def added_to_scores(padding: Tensor | None, prefix: Prefix | None, length: int, dtype: torch.dtype) -> Tensor | None:
    """B x 1 x 1 x (p + T), ``key_bias`` of a text with ``prefix`` in front; None where all keys take part.

    ``length``: T; ``padding``: B x T, or None without pads.
    """
    if prefix is not None and prefix.padding is not None:
        own = prefix.padding.new_zeros(len(prefix.padding), length) if padding is None else padding
        return key_bias(torch.cat([prefix.padding, own], 1), 0, dtype)
    rows = 0 if prefix is None else prefix.keys.size(1)
    return None if padding is None else key_bias(padding, rows, dtype)


class OpenAttention(MultiheadAttention):
    """softmax(q [K'; k]^T / sqrt(d/H)) [V'; v] for each head, bitwise equal to fairseq's when nothing is injected.

    The parent hands the weights of its projections to one fused torch function. Here they are called one by one, so
    that something can be added to what they give, and keys and values can be put beside theirs.
    """

    def forward(
        self,
        x: Tensor,
        padding: Tensor | None = None,
        prefix: Prefix | None = None,
        additions: Additions = NO_ADDITIONS,
        tokens: Tokens = ALL,
    ) -> Tensor:
        """Of queries, keys and values alike, ``x``: T x B x d, or its ``tokens``, N x 1 x d; returns as many.

        ``padding``: B x T, true at pads.
        """
        queries, keys, values = (project(self, name, x, additions) for name in ("q_proj", "k_proj", "v_proj"))
        q, k, v = (self._heads(tokens.spread(one)) for one in (queries, keys, values))
        if prefix is not None:
            beside = self._prefix_heads(prefix, x, additions)
            k, v = (
                torch.cat([rows.type_as(own).expand(len(own), -1, -1, -1), own], 2) for rows, own in zip(beside, (k, v))
            )
        bias = added_to_scores(padding, prefix, q.size(2), q.dtype)
        dropout = self.dropout_module
        if isinstance(dropout, QuickDropout) and dropout.draws_quickly(q):
            out = dropped_attention(q, k, v, bias, dropout.p)
        else:
            p = dropout.p if self.training or dropout.apply_during_inference else 0.0
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=p)  # B x H x T x d/H
        # a view would do for newer torch, while 2.4 rounds a product of rows that do not lie together in another way
        out = tokens.of(out.permute(2, 0, 1, 3).contiguous().flatten(2))
        if additions.heads is not None:
            out = out + additions.heads(queries).type_as(out)
        return project(self, "out_proj", out, additions)

    def _prefix_heads(self, prefix: Prefix, like: Tensor, additions: Additions) -> tuple[Tensor, Tensor]:
        """The prefix's keys and values, each B (or 1) x H x p x d/H."""
        keys, values = (rows.type_as(like).transpose(0, 1) for rows in prefix[:2])
        if prefix.before_projection:
            keys, values = project(self, "k_proj", keys, additions), project(self, "v_proj", values, additions)
        return self._heads(keys), self._heads(values)

    def _heads(self, x: Tensor) -> Tensor:
        """T x B x d -> B x H x T x d/H, by fairseq's own steps: a gradient laid out in another way rounds otherwise."""
        length, batch, _ = x.shape
        heads = x.reshape(length, batch * self.num_heads, self.head_dim).transpose(0, 1)
        return heads.view(batch, self.num_heads, length, self.head_dim)
