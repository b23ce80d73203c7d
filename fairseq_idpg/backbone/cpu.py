"""Reduce a CPU's work: quick dropout, layers that skip pads, packed weights. Other devices use torch as it is.

Dropout: torch draws a float for each element, in one thread, and keeps it. Here 16 random bits are drawn, and one byte
is kept for the gradient. That saves 8 to 11 % of a training step (MiniLM's size, 16 texts of 10 to 60 tokens, one
thread). Trainings depend on these draws.

Pads: 37 to 50 % of the tokens of such batches are pads. Nothing reads their projections, activations, LayerNorms and
draws of dropout; leaving them out saves 33 to 37 % of a step.

Packed weights: oneDNN multiplies with weights in its own layout in half the time. That saves 38 % of a training step
and of a prediction at MiniLM's size, and takes the memory of the frozen layers twice more, in predictions once.
"""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

LEVELS = 2**16


def keep_mask(like: Tensor, threshold: int) -> Tensor:
    """Return a boolean mask of ``like``'s shape, each element false with probability ``threshold`` / 2^16."""
    count = like.numel()
    # four 16-bit numbers from each draw; they are compared in place, which is several times as fast
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    keep = draws.view(torch.int16)[:count].ge_(threshold - LEVELS // 2)
    return keep.to(torch.bool).view(like.shape)


def masked(x: Tensor, mask: Tensor) -> Tensor:
    """Return x * mask, in half the time that torch takes for a float times a boolean."""
    return torch.empty_like(x).copy_(mask.view(torch.uint8)).mul_(x)


def threshold_and_scale(p: float) -> tuple[int, float]:
    """Return p < 1 in steps of 2^-16, and the factor 1 / (1 - p) of what is left."""
    threshold = min(round(p * LEVELS), LEVELS - 1)
    return threshold, LEVELS / (LEVELS - threshold)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        threshold, ctx.scale = threshold_and_scale(p)
        mask = keep_mask(x, threshold)
        ctx.save_for_backward(mask)
        return masked(x, mask).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return masked(gradient, mask).mul_(ctx.scale), None


class QuickDropout(FairseqDropout):
    """x * keep / (1 - p), keep_i ~ Bernoulli(1 - p); any shape. A CPU rounds p to 2^-16, a GPU uses torch's draws."""

    def draws_quickly(self, x: Tensor) -> bool:
        active = 0 < self.p < 1 and (self.training or self.apply_during_inference)
        return active and x.device.type == "cpu"

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        return _Dropout.apply(x, self.p) if self.draws_quickly(x) else super().forward(x, inplace)


def drop_quickly(module: nn.Module) -> None:
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if type(child) is FairseqDropout:
                setattr(parent, name, QuickDropout(child.p, child.module_name))


class _DroppedAttention(torch.autograd.Function):
    """drop(softmax(q k^T / sqrt(w) + bias)) v on a CPU, B x H x T x w; 0 < p < 1.

    ``q``: B x H x T x w; ``k``, ``v``: B x H x S x w; ``bias``: B x 1 x 1 x S without a gradient, or None. Kept are
    these, the probabilities and the mask; the backward pass applies the mask again.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, p: float) -> Tensor:
        ctx.inner = q.size(-1) ** -0.5
        q, k, v = (rows.contiguous() for rows in (q, k, v))
        scores = (q @ k.transpose(-1, -2)).mul_(ctx.inner)
        if bias is not None:
            scores += bias
        probabilities = scores.softmax(-1)
        threshold, ctx.scale = threshold_and_scale(p)
        mask = keep_mask(probabilities, threshold)
        ctx.save_for_backward(q, k, v, probabilities, mask)
        return (masked(probabilities, mask) @ v).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        q, k, v, probabilities, mask = ctx.saved_tensors
        gradient = gradient * ctx.scale
        dropped = masked(probabilities, mask)
        grad_v = dropped.transpose(-1, -2) @ gradient
        # the softmax's gradient: p dL/dp - p sum(p dL/dp), with dL/dp = 0 where p was dropped
        weighted = (gradient @ v.transpose(-1, -2)).mul_(dropped)
        grad_scores = weighted.sub_(probabilities * weighted.sum(-1, keepdim=True)).mul_(ctx.inner)
        return grad_scores @ k, grad_scores.transpose(-1, -2) @ q, grad_v, None, None


dropped_attention = _DroppedAttention.apply


class _Spread(torch.autograd.Function):
    """N x d -> M x d, row i to place ``numbers[i]``; torch's own functions are slower or keep the rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, numbers: Tensor, count: int) -> Tensor:
        ctx.save_for_backward(numbers)
        return x.new_zeros(count, x.size(1)).index_add_(0, numbers, x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (numbers,) = ctx.saved_tensors
        return gradient.index_select(0, numbers), None, None


class Tokens(NamedTuple):
    """Some of the T*B tokens of T x B x d states."""

    numbers: Tensor | None = None  # N, the places of these tokens among the T*B; None: all tokens
    length: int = 0  # T
    batch: int = 0  # B

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
    """Return the tokens that are not pads (B x T ``padding``: true at pads); all tokens unless on a CPU."""
    # on another device, counting the pads would wait for it
    if padding is None or padding.device.type != "cpu":
        return ALL
    real = ~padding.t()
    return Tokens(real.flatten().nonzero()[:, 0], *real.shape)


class Packed(NamedTuple):
    """A weight in oneDNN's layout, and the weight that it was packed from."""

    weight: Tensor
    transposed: Tensor | None  # for the backward pass
    address: int
    version: int  # torch counts the changes of a tensor


PACKED: WeakKeyDictionary[nn.Module, Packed] = WeakKeyDictionary()  # copies and files of a module do without
ROWS = 512  # oneDNN chooses a layout for about so many


def packed_weight(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)


def packed_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _PackedLinear(torch.autograd.Function):
    """x W^T + b and its gradient g W; W and b have none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        ctx.transposed = packed.transposed
        return packed_product(x, packed.weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return packed_product(gradient.contiguous(), ctx.transposed, None), None, None


class PackedLinear(nn.Linear):
    """x W^T + b with W in oneDNN's layout; the result differs by rounding.

    torch multiplies instead if W has changed or moved since it was packed, if W is trained, under --amp and in exports.
    """

    def forward(self, x: Tensor) -> Tensor:
        # a program that is recorded runs where there are no packed weights
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return super().forward(x)
        # some optimizers, such as fairseq's, write where torch does not count it
        if self.weight.requires_grad and torch.is_grad_enabled():
            PACKED.pop(self, None)
        packed = PACKED.get(self)
        if packed is None or x.dtype != torch.float32 or packed[2:] != (self.weight.data_ptr(), self.weight._version):
            return super().forward(x)
        if torch.is_autocast_enabled("cpu"):
            return super().forward(x)
        if not torch.is_grad_enabled():
            return packed_product(x, packed.weight, self.bias)
        if packed.transposed is None or any(parameter.requires_grad for parameter in self.parameters()):
            return super().forward(x)
        return _PackedLinear.apply(x, packed, self.bias)


def pack_linears(module: nn.Module, trains: bool = False) -> None:
    """Make each Linear in float32 within a module a ``PackedLinear``; ``trains``: each frozen one, with its gradient.

    It takes the memory of the weights once more, or twice. Without oneDNN nothing happens.
    """
    if not torch.backends.mkldnn.is_available():
        return
    for linear in module.modules():
        if type(linear) is not nn.Linear or linear.weight.dtype != torch.float32:
            continue
        # torch does not count the changes of a tensor of its inference mode
        if trains and linear.weight.requires_grad or linear.weight.is_inference():
            continue
        linear.__class__, weight = PackedLinear, linear.weight.detach()
        transposed = packed_weight(weight.t().contiguous()) if trains else None
        PACKED[linear] = Packed(packed_weight(weight), transposed, weight.data_ptr(), weight._version)
