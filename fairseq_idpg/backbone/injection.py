"""What one forward pass adds to the frozen encoder, and the tensor operations that add it.

A generator (WHAT) and a position (WHERE) meet here as plain tensors; the encoder (HOW) only reads them.
"""

from dataclasses import dataclass
from typing import Callable, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn


def _no_rows(layer: int, sentence: Tensor) -> Optional[Tensor]:
    return None


class Prefix(NamedTuple):
    """Keys and values that every token of a layer attends to besides those of the sequence.

    ``keys``, ``values``: B x p x d (or 1 x p x d); ``before_projection``: they still pass through the layer's key and
    value projections (the released code's insert mode 2) instead of standing beside projected ones (prefix tuning).
    """

    keys: Tensor
    values: Tensor
    before_projection: bool = False


def _no_prefix(layer: int, sentence: Tensor) -> Optional[Prefix]:
    return None


# (f, x, layer norm) -> f', T x B x d each: f' takes the place of f, the output of attention or feed-forward after its
# dropout, in layer norm(x + f), where x is the residual.
Adapter = Callable[[Tensor, Tensor, nn.Module], Tensor]
AdapterPair = Tuple[Optional[Adapter], Optional[Adapter]]  # after attention, after the feed-forward
NO_ADAPTERS: AdapterPair = (None, None)


def _no_adapters(layer: int) -> AdapterPair:
    return NO_ADAPTERS


@dataclass
class Injection:
    """The values that one forward pass injects; every field may be left empty.

    Attributes:
        embedded: B x t x d (or 1 x t x d) prompt rows at the word-embedding level. They take part in everything
            a word embedding does: consecutive position embeddings, embedding LayerNorm, dropout.
        offset: B, index of each example's first prompt row in the lengthened sequence.
        after_layer: (layer index, B x d ``<s>`` state after that layer) -> B x t x d rows for the hidden states
            at the prompt's places, or None. A function, because rows may depend on this pass's own states.
        insertion: ``add`` the rows of ``after_layer`` to the hidden states (the paper's code) or ``replace`` them.
        key_value: (layer index, B x d ``<s>`` state below that layer) -> the layer's ``Prefix``, or None.
        adapters: layer index -> what changes the outputs of the layer's attention and feed-forward. Modules behind it
            are registered, trained and saved by whoever owns them.
    """

    embedded: Optional[Tensor] = None
    offset: Optional[Tensor] = None
    after_layer: Callable[[int, Tensor], Optional[Tensor]] = _no_rows
    insertion: str = "add"
    key_value: Callable[[int, Tensor], Optional[Prefix]] = _no_prefix
    adapters: Callable[[int], AdapterPair] = _no_adapters


NOTHING = Injection()


def _places(x: Tensor, offset: Tensor, rows: Tensor) -> Tuple[Tensor, Tensor]:
    """(B*t numbers of the prompt's rows among the T*B rows of T x B x d ``x``, the B*t x d rows for them)."""
    length, batch = rows.size(1), x.size(1)
    tokens = offset[:, None] + torch.arange(length, device=offset.device)  # B x t
    numbers = tokens * batch + torch.arange(batch, device=offset.device)[:, None]
    return numbers.flatten(), rows.type_as(x).expand(batch, -1, -1).flatten(0, 1)


def replace_rows(x: Tensor, rows: Tensor, offset: Tensor) -> Tensor:
    """T x B x d ``x`` with the t rows from each example's offset on overwritten by ``rows`` (B or 1, t, d)."""
    return x.flatten(0, 1).index_copy(0, *_places(x, offset, rows)).view_as(x)


def add_rows(x: Tensor, rows: Tensor, offset: Tensor) -> Tensor:
    """T x B x d ``x`` with ``rows`` (B or 1, t, d) added to the t rows from each example's offset on."""
    return x.flatten(0, 1).index_add(0, *_places(x, offset, rows)).view_as(x)


INSERTIONS = {"add": add_rows, "replace": replace_rows}
