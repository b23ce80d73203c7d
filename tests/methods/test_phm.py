"""PHM matrices: W = sum_i A_i (x) B_i, written with numpy's Kronecker product."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_idpg.errors import InputError
from fairseq_idpg.methods.phm import check_divisible, kronecker_sum

SIDE = st.integers(1, 4)


@settings(max_examples=60)
@given(n=SIDE, p=SIDE, q=SIDE, r=SIDE, s=SIDE, seed=st.integers(0, 2**31))
def test_kronecker_sum(n, p, q, r, s, seed):
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(n, p, q, generator=generator, dtype=torch.float64)
    b = torch.randn(n, r, s, generator=generator, dtype=torch.float64)
    expected = sum(np.kron(a[i].numpy(), b[i].numpy()) for i in range(n))
    np.testing.assert_allclose(kronecker_sum(a, b).numpy(), expected, atol=1e-12)


@settings(max_examples=20)
@given(n=st.integers(1, 6), value=st.integers(1, 60))
def test_divisibility(n, value):
    if value % n == 0:
        check_divisible("m", value, n)
    else:
        with pytest.raises(InputError, match=f"--phm-n {n} does not divide m = {value}"):
            check_divisible("m", value, n)
