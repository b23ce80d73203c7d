"""Prediction on a CPU with the backbone's Linears in int8, everything else in float32.

torch's own dynamic quantization (torch.ao.quantization) is deprecated, and its one scale for all tokens of a batch, of
7 bits, changes more answers. Here torch's product of int8 matrices is used directly, and each token has its scale.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from preprocess.flags import flag_name

from ..errors import InputError
from ..out_of_memory import ON_CPU

LARGEST = 127
LINEARS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "fc1", "fc2")


def steps(extent: Tensor) -> Tensor:
    """Return the step of which ``LARGEST`` make ``extent``; above 0, also for rows of zeros."""
    return (extent / LARGEST).clamp_(min=torch.finfo(extent.dtype).tiny)


class Int8Linear(nn.Module):
    """out_ti = s_i (z_t sum_j N_ij n_tj + c_t sum_j N_ij) + b_i, for ... x in -> ... x out.

    W_ij = s_i N_ij and x_tj = c_t + z_t n_tj but for rounding, N and n whole numbers from -127 to 127: a row of W has a
    step s_i, a token t a step z_t and the middle c_t of its values. For prediction alone: it has no gradient.
    """

    numbers: Tensor
    step: Tensor
    row_sums: Tensor
    bias: Tensor

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight = linear.weight.detach()
        step = steps(weight.abs().amax(1))
        self.register_buffer("numbers", (weight / step[:, None]).round_().to(torch.int8))
        self.register_buffer("step", step)
        self.register_buffer("row_sums", self.numbers.sum(1) * step)
        self.register_buffer("bias", linear.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() and x.requires_grad:
            raise InputError("a model in int8 is for prediction and has no gradient: load it without int8")
        rows = x.flatten(0, -2)
        least, most = rows.amin(1, keepdim=True), rows.amax(1, keepdim=True)
        # A token's values lie from middle - 127 steps to middle + 127 steps.
        step, middle = steps((most - least) / 2), (most + least) / 2
        numbers = (rows - middle).div_(step).round_().to(torch.int8)
        out = torch._int_mm(numbers, self.numbers.t()).to(x.dtype).mul_(step)
        torch.addcmul(self.bias, out, self.step, out=out).addcmul_(middle, self.row_sums)
        return out.view(*x.shape[:-1], -1)


def put_in_int8(stack: Any) -> None:
    """Replace the Linears of attention and feed-forward in all layers of ``stack``; they are called, never read."""
    for layer in stack.layers:
        for name in LINEARS:
            owner, _, own = name.rpartition(".")
            setattr(layer.get_submodule(owner), own, Int8Linear(layer.get_submodule(name)))


def multiplies_exactly() -> bool:
    """Return whether this CPU's products of int8 matrices are right.

    Without instructions for them (VNNI, AMX) torch's library adds pairs of products in 16 bits, which overflow.
    """
    numbers = torch.randint(-LARGEST, LARGEST + 1, (16, 64), generator=torch.Generator().manual_seed(0))
    extremes = torch.full((1, 64), LARGEST)
    whole = torch.cat([numbers, extremes, -extremes])
    return all(
        torch.equal(torch._int_mm(some.to(torch.int8), whole.to(torch.int8).t()).long(), some @ whole.t())
        for some in (whole, extremes, numbers[:1])  # one row and several rows take different ways in torch
    )


def check_int8(device: torch.device, caches: Sequence[str] = ()) -> None:
    """Raise InputError where a model on ``device`` cannot predict in int8; ``caches``: options of caches on disk."""
    reason = None
    if device.type != "cpu":
        reason = f"is for a CPU, and this model would be on a GPU: leave it out, or do without the GPU {ON_CPU}"
    elif caches:
        reason = f"and {flag_name(caches[0])}, which holds float32's states: leave one of them out"
    elif not multiplies_exactly():
        reason = "needs a CPU with instructions for it (VNNI, AMX), which this one lacks: leave it out"
    if reason:
        raise InputError(f"`int8` {reason}")
