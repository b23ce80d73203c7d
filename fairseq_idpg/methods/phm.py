"""Parameterized hypercomplex multiplication (PHM), the maths of IDPG Section 3.2.1.

Paper: "Beyond Fully-Connected Layers with Quaternions" (Zhang et al., ICLR 2021), https://arxiv.org/abs/2102.08597
"""

import torch
from torch import Tensor

from ..errors import InputError


def kronecker_sum(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix of a PHM layer, W = sum_i A_i (x) B_i (Equation 4 of the IDPG paper).

    ``a`` is n x p x q and ``b`` n x r x s; the result is (p r) x (q s). Axes in front broadcast, as for a batch of
    matrices. With square A_i (p = q = n) W has n^3 + (p r)(q s)/n parameters instead of (p r)(q s).
    """
    product = torch.einsum("...ipq,...irs->...prqs", a, b)
    return product.flatten(-4, -3).flatten(-2, -1)


def check_divisible(what: str, value: int, divisor: int, flag: str = "--phm-n") -> None:
    """Raise InputError unless the factor n of option ``flag`` divides ``value``, a side of the matrices."""
    if value % divisor:
        raise InputError(f"{flag} {divisor} does not divide {what} = {value}: choose an n that divides it")
