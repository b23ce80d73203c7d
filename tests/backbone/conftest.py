"""A model whose passes can be compared to many digits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.helpers import enlarge, pair_batch, tiny_model


@pytest.fixture
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def model(double_precision):
    """In double precision; what is injected must be made after it."""
    built = tiny_model(method="head-only", dropout=0.0, attention_dropout=0.0)
    enlarge(built.encoder)
    for layer in built.encoder.sentence_encoder.layers:
        layer.activation_fn = nn.functional.gelu  # fairseq's own rounds to float32
    return built


@pytest.fixture(params=[True, False], ids=["padded", "whole"])
def tokens(request):
    return pair_batch() if request.param else pair_batch()[:, :6]


@pytest.fixture(params=[True, False], ids=["padded", "whole"])
def text(request):
    """Whole pairs, among which a prompt can stand; without pads three of one length."""
    row = pair_batch()[1:2]
    return pair_batch() if request.param else row + (row >= 10) * torch.arange(3)[:, None]
