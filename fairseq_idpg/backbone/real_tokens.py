"""The tokens of a batch that are no pads: all that a layer has to compute, but for attention.

Of 16 sentences that are drawn at random, side by side, a third may be pads. Their projections, activations, LayerNorms
and draws of dropout are work whose result nothing reads.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor


class _Spread(torch.autograd.Function):
    """N x d -> M x d, row i to the place ``numbers[i]``. torch's own functions would keep the rows for the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, numbers: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(numbers)
        return x.new_zeros(count, x.size(1)).index_add_(0, numbers, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (numbers,) = ctx.saved_tensors
        return gradient.index_select(0, numbers), None, None


class Tokens(NamedTuple):
    """Some of the T*B tokens of T x B x d states.

    ``numbers``: N of them, token by token as they lie in memory, or None for all; ``length``, ``batch``: T and B.
    """

    numbers: Tensor | None = None
    length: int = 0
    batch: int = 0

    def of(self, x: Tensor) -> Tensor:
        """T x B x d -> N x 1 x d."""
        return x if self.numbers is None else x.flatten(0, 1).index_select(0, self.numbers)[:, None]

    def spread(self, x: Tensor) -> Tensor:
        """N x 1 x d -> T x B x d, 0 elsewhere."""
        if self.numbers is None:
            return x
        return _Spread.apply(x[:, 0], self.numbers, self.length * self.batch).view(self.length, self.batch, -1)


ALL = Tokens()


def real_tokens(padding: Tensor | None) -> Tokens:
    """Those of a B x T mask, true at pads, on a CPU: another device would have to be waited for to count them."""
    if padding is None or padding.device.type != "cpu":
        return ALL
    real = ~padding.t()
    return Tokens(real.flatten().nonzero()[:, 0], *real.shape)
