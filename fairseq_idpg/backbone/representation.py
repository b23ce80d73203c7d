"""M(x), the representation of a sentence that a prompt is generated from (IDPG Section 3.1)."""

import contextlib
from typing import Iterator

import torch
from torch import Tensor, nn


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Runs a block with ``module`` in evaluation mode (no dropout) and puts the mode back."""
    training = module.training
    try:
        module.eval()
        yield
    finally:
        module.train(training)


@torch.no_grad()
def sentence_representation(encoder: nn.Module, tokens: Tensor, dropout: bool = False) -> Tensor:
    """Last-layer ``<s>`` state of the backbone on the raw input: B x T tokens -> B x d, without gradient.

    Differs from the paper's code, where the frozen backbone's dropout stays on in training and so the same
    sentence gets another representation at every step; ``dropout=True`` restores that. Without dropout M(x)
    depends on the sentence alone and can be cached, as the paper suggests.
    """
    mode = contextlib.nullcontext() if dropout else evaluating(encoder)
    with mode:
        features, _ = encoder(tokens, features_only=True)
    return features[:, 0]
