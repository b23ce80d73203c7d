"""The states of an example's tokens made into one vector, or into t of them; pads take no part."""

import math

import torch
from torch import Tensor

from ...backbone.injection import States


def token_weights(states: States) -> Tensor:
    """B x T (or 1 x T, without pads): 1 / n for each of an example's n tokens, 0 for pads."""
    if states.padding is None:
        length = len(states.x)
        return states.x.new_full((1, length), 1 / length)
    real = (~states.padding).type_as(states.x)
    return real / real.sum(1, keepdim=True)


def mean_of_tokens(states: States) -> Tensor:
    """B x d: the mean of an example's tokens."""
    return (token_weights(states)[:, None] @ states.x.transpose(0, 1))[:, 0]


def largest_of_tokens(states: States) -> Tensor:
    """B x d: the largest value of each width among an example's tokens."""
    if states.padding is None:
        return states.x.amax(0)
    return states.x.masked_fill(states.padding.t()[..., None], -math.inf).amax(0)


def real_count(states: States) -> Tensor:
    """B (or 1, without pads): how many tokens are no pads."""
    if states.padding is None:
        return torch.full((1,), len(states.x), device=states.x.device)
    return (~states.padding).sum(1)


def adaptive_bins(states: States, x: Tensor, bins: int) -> tuple[Tensor, Tensor]:
    """The n real tokens of each example in ``bins`` bins that may overlap: j covers [floor(j n/t), ceil((j+1) n/t)).

    Args:
        x: T x B x m, of each token.

    Returns:
        B x bins x w x m, and B (or 1) x bins x w, which of these are in the bin; w is as wide as any bin can be.
    """
    length, batch, _ = x.shape
    count = real_count(states)[:, None]
    j = torch.arange(bins, device=x.device)
    begin = j * count // bins
    end = ((j + 1) * count + bins - 1) // bins
    index = begin[..., None] + torch.arange(min(length, -(-length // bins) + 1), device=x.device)
    inside = index < end[..., None]
    index = index.clamp(max=length - 1).flatten(1).expand(batch, -1)
    if states.padding is not None:  # the real tokens, in their order
        index = states.padding.byte().argsort(dim=1, stable=True).gather(1, index)
    taken = x.transpose(0, 1).gather(1, index[..., None].expand(-1, -1, x.size(2)))
    return taken.unflatten(1, inside.shape[1:]), inside


def adaptive_max(taken: Tensor, inside: Tensor) -> Tensor:
    """B x bins x m, the largest entries of each bin."""
    return taken.masked_fill(~inside[..., None], float("-inf")).max(2).values


def adaptive_mean(taken: Tensor, inside: Tensor) -> Tensor:
    """B x bins x m, the mean of each bin."""
    weights = inside.type_as(taken) / inside.sum(2, keepdim=True)
    return (weights[..., None] * taken).sum(2)
