"""What one forward pass adds to the frozen encoder, and the tensor operations that add it.

A method (WHAT) and a slot (WHERE) meet here as plain values; the encoder (HOW) only reads them.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class States(NamedTuple):
    """The states of a sequence at one place of the encoder.

    Prompt rows of the input stand in their places; late rows stand behind the text, in the order in which they joined.
    """

    x: Tensor  # T x B x d
    padding: Tensor | None = None  # B x T, true at pads; None without pads
    origin: Optional["Origin"] = None  # what the pass began with; None in the origin itself

    @property
    def sentence(self) -> Tensor:
        """B x d, the state of ``<s>``."""
        return self.x[0]

    @property
    def weights(self) -> Tensor:
        """B x 1 x T, or 1 x 1 x T without pads: 1 / n for each of an example's n tokens, 0 for pads."""
        if self.padding is None:
            return self.x.new_full((1, 1, self.x.size(0)), 1 / self.x.size(0))
        real = (~self.padding).type_as(self.x)
        return (real / real.sum(1, keepdim=True))[:, None]


class Origin(NamedTuple):
    """The input of a pass, from which higher layers may make rows."""

    words: Callable[[], States]  # the word embeddings of the text, ``words`` added, without prompt and positions
    embedded: Callable[[], States]  # the states that enter layer 0


class Start(NamedTuple):
    """Where a pass begins if the layers below have been run before, on the text with nothing injected."""

    layer: int  # the first layer that is run; L: no layer is run
    x: Tensor  # T x B x d, the states that enter it


@dataclass(frozen=True)
class Room:
    """Where the task has made room for a prompt."""

    offset: Tensor  # B, index of each example's first prompt row in the lengthened sequence
    length: int  # t, rows of the prompt
    text: Tensor  # B x T, the tokens without it

    @cached_property
    def numbers(self) -> Tensor:
        """The prompt's ``row_numbers``, B x t, computed once for all layers of a pass."""
        return row_numbers(self.offset[:, None] + torch.arange(self.length, device=self.offset.device))


def row_numbers(at: Tensor) -> Tensor:
    """Return the numbers of the tokens ``at`` (B x n) among the T*B rows of T x B x d states: B x n."""
    return at * at.size(0) + torch.arange(at.size(0), device=at.device)[:, None]


NO_ROOM = Room(torch.empty(0, dtype=torch.long), 0, torch.empty(0, 0, dtype=torch.long))


class Prefix(NamedTuple):
    """Keys and values, B x p x d (or 1 x p x d), that every token of a layer attends to besides the sequence's."""

    keys: Tensor
    values: Tensor
    # true: the layer projects them (the released code's insert mode 2); false: they join projected ones (prefix tuning)
    before_projection: bool = False


# (f, x, layer norm) -> f', each T x B x d, or N x 1 x d for N tokens. f is the output of attention or feed-forward
# behind its dropout, x the input of that sublayer; f' replaces f in layer norm(x + f).
Change = Callable[[Tensor, Tensor, nn.Module], Tensor]
Changes = tuple[Change | None, Change | None]  # after attention, after the feed-forward
UNCHANGED: Changes = (None, None)

Addition = Callable[[Tensor], Tensor] | None


class Additions(NamedTuple):
    """What is added to the output of each Linear of a layer, as a function of its input, token by token.

    ``heads`` is a function of the queries of all heads, side by side, and is added to what the heads give.
    """

    q_proj: Addition = None
    k_proj: Addition = None
    v_proj: Addition = None
    heads: Addition = None
    out_proj: Addition = None
    fc1: Addition = None
    fc2: Addition = None


NO_ADDITIONS = Additions()


@dataclass(frozen=True)
class Injection:
    """The values that one forward pass injects, a field for each slot; every field may be left empty.

    Layers count from 0. Functions are called when their layer is reached, because what they give may depend on the
    states of this pass. ``rows`` are B x t x d, or 1 x t x d for the same in every example.

    Attributes:
        words: M x d, added to the word embeddings of the text's first M tokens (``<s>`` and separators count); not to
            prompt rows, the separators around a prompt at position 4, and pads. Or a function that makes, of T x B x d
            word embeddings, what is added to them.
        input: rows among the word embeddings, where the task has made room; they have consecutive positions, the
            embedding LayerNorm and dropout as words have. Or a function that makes them from the states of the text's
            word embeddings (``words`` added, without prompt and positions).
        arrange: where every token of the lengthened sequence stands, by its position embedding: (T' x B x d word
            embeddings with the rows of ``input``, B real tokens of each example, room) -> (the same embeddings, B x T'
            places by which tokens move). Rows keep their places in all fields here.
        hidden: (layer, states after it; -1: after the embedding) -> rows for the hidden states at the places of
            ``input``, or None.
        insertion: ``add`` the rows of ``hidden`` (the paper's code) or ``replace`` the states by them; ``whole``:
            ``hidden`` gives all states, T x B x d.
        late: (layer, states before it) -> rows that join the sequence before that layer, without position or LayerNorm,
            or None. They stand behind the text and its pads, so ``<s>`` stays first; layers above see T + t states.
        key_value: (layer, states before it) -> the layer's ``Prefix``, or None.
        sublayer: layer -> what changes the outputs of its attention and feed-forward.
        projection: layer -> what is added to the outputs of its Linears and heads, also for a prefix before projection.

    What ``sublayer`` and ``projection`` give works token by token, since pads may be left out. A module behind a field
    belongs to the method that made it. The pass that computes M(x) injects nothing.
    """

    words: Tensor | Callable[[Tensor], Tensor] | None = None
    input: Tensor | Callable[[States], Tensor] | None = None
    arrange: Callable[[Tensor, Tensor, Room], tuple[Tensor, Tensor]] | None = None
    hidden: Callable[[int, States], Tensor | None] = lambda layer, states: None
    insertion: str = "add"
    late: Callable[[int, States], Tensor | None] = lambda layer, states: None
    key_value: Callable[[int, States], Prefix | None] = lambda layer, states: None
    sublayer: Callable[[int], Changes] = lambda layer: UNCHANGED
    projection: Callable[[int], Additions] = lambda layer: NO_ADDITIONS


NOTHING = Injection()


def filled_fields(injection: Injection) -> dict[str, Any]:
    values = {field.name: getattr(injection, field.name) for field in fields(Injection)}
    return {name: value for name, value in values.items() if value is not getattr(NOTHING, name)}


def _of_each(x: Tensor, rows: Tensor) -> Tensor:
    """Return ``rows`` (B or 1, n, d) for the examples of T x B x d ``x``: B*n x d."""
    return rows.type_as(x).expand(x.size(1), -1, -1).flatten(0, 1)


def replace_rows(x: Tensor, rows: Tensor, numbers: Tensor) -> Tensor:
    """Return T x B x d ``x``, its tokens of B x n ``numbers`` overwritten by ``rows`` (B or 1, n, d)."""
    return x.flatten(0, 1).index_copy(0, numbers.flatten(), _of_each(x, rows)).view_as(x)


def add_rows(x: Tensor, rows: Tensor, numbers: Tensor) -> Tensor:
    """Return T x B x d ``x`` with ``rows`` (B or 1, n, d) added to its tokens of B x n ``numbers``."""
    return x.flatten(0, 1).index_add(0, numbers.flatten(), _of_each(x, rows)).view_as(x)


# (T x B x d states, what ``hidden`` gives, its place) -> the states as they go on
INSERTIONS: dict[str, Callable[[Tensor, Tensor, Room], Tensor]] = {
    "add": lambda x, rows, room: add_rows(x, rows, room.numbers),
    "replace": lambda x, rows, room: replace_rows(x, rows, room.numbers),
    "whole": lambda x, states, room: states,
}


def append_rows(states: States, rows: Tensor | None) -> States:
    """Return states of T + t tokens: those of ``states``, then ``rows`` (B or 1, t, d), which are no pads."""
    if rows is None:
        return states
    added = rows.type_as(states.x).expand(states.x.size(1), -1, -1).transpose(0, 1)  # t x B x d
    padding = None if states.padding is None else F.pad(states.padding, (0, added.size(0)), value=False)
    return states._replace(x=torch.cat([states.x, added]), padding=padding)


def add_to_words(x: Tensor, rows: Tensor | Callable[[Tensor], Tensor]) -> Tensor:
    """Return T x B x d word embeddings plus ``rows``: M x d for the first min(T, M) tokens, or a function of ``x``."""
    if callable(rows):
        return x + rows(x).type_as(x)
    count = min(x.size(0), rows.size(0))
    return torch.cat([x[:count] + rows[:count, None].type_as(x), x[count:]])


def add_to_prompted_words(x: Tensor, rows: Tensor, room: Room, pad: int) -> Tensor:
    """Return T' x B x d embeddings, which contain a prompt, with ``rows`` (M x d) added only to the text's tokens."""
    in_text = room.text.ne(pad).sum(1, keepdim=True)  # B x 1
    count = min(room.text.size(1), rows.size(0))
    index = torch.arange(count, device=x.device)[None]
    # text from the prompt's offset on stands ``room.length`` tokens later; a prompt between extra separators, as
    # ``</s> prompt </s>``, stands behind all text
    at = (index + room.length * (index >= room.offset[:, None])).clamp(max=x.size(0) - 1)
    return add_rows(x, rows[:count] * (index < in_text)[..., None], row_numbers(at))
