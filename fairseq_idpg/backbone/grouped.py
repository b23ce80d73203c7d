"""One pass for several methods: each row of a batch gets what its own method injects.

The rows of a method are neighbours, a ``Group``. Whatever a slot asks for is asked of each group for its own rows, and
the answers are joined: prompts of the input become word embeddings before the pass begins; changes, additions and
states are put side by side; late rows and prefixes of different lengths are filled up with pads, which no token sees.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .encoder import project
from .injection import (
    INSERTIONS,
    NO_ROOM,
    Addition,
    Additions,
    Change,
    Changes,
    Injection,
    Origin,
    Prefix,
    Room,
    States,
)


class Group(NamedTuple):
    """Neighbouring rows of a batch, ``begin`` to ``end`` (not counted), and what a pass of these alone would get."""

    begin: int
    end: int
    injection: Injection
    room: Room = NO_ROOM

    def of(self, x: Tensor) -> Tensor:
        """T x B x ... -> T x n x ..., its own rows."""
        return x[:, self.begin : self.end].contiguous()

    def states(self, states: States) -> States:
        """Its own rows, without what the pass began with."""
        padding = None if states.padding is None else states.padding[self.begin : self.end]
        return States(states.x[:, self.begin : self.end], padding)


class GroupedPass:
    """What a pass of ``stack`` over B x T ``tokens``, with their prompts' placeholders, is given for its ``groups``.

    They follow one another from row 0 to row B.
    """

    def __init__(self, stack: Any, tokens: Tensor, groups: Sequence[Group]):
        self.stack = stack
        self.groups = groups
        self.tokens = [tokens[group.begin : group.end] for group in groups]
        # of each group the word embeddings of its texts, see ``Origin``
        self.words = [
            partial(stack.word_states, own, None, group.injection.words, group.room)
            for group, own in zip(groups, self.tokens)
        ]

    def token_embeddings(self) -> Tensor | None:
        """B x T x d word embeddings with the rows of ``words`` and ``input`` in them; None where no group has such."""
        made = [
            self.stack.word_embeddings(own, None, group.injection, group.room, words)
            for group, own, words in zip(self.groups, self.tokens, self.words)
        ]
        if all(rows is None for rows in made):
            return None
        embed = self.stack.embed_tokens
        return torch.cat([embed(own) if rows is None else rows for own, rows in zip(self.tokens, made)])

    def injection(self) -> Injection:
        """All that enters above the word embeddings."""
        return Injection(
            hidden=self._hidden,
            insertion="whole",
            late=self._late,
            key_value=self._key_value,
            sublayer=self._sublayer,
            projection=self._projection,
            by_example=True,
        )

    def _each(self, states: States) -> list[States]:
        """The states of each group, with what its own pass would have begun with."""
        origin: Any = states.origin

        def embedded(group: Group) -> States:
            return group.states(origin.embedded())

        origins = (Origin(words, partial(embedded, group)) for group, words in zip(self.groups, self.words))
        return [group.states(states)._replace(origin=own) for group, own in zip(self.groups, origins)]

    def _hidden(self, layer: int, states: States) -> Tensor | None:
        each = self._each(states)
        made = [group.injection.hidden(layer, own) for group, own in zip(self.groups, each)]
        if all(rows is None for rows in made):
            return None
        parts = [
            own.x if rows is None else INSERTIONS[group.injection.insertion](own.x, rows, group.room)
            for group, own, rows in zip(self.groups, each, made)
        ]
        return torch.cat(parts, 1)

    def _late(self, layer: int, states: States) -> States | None:
        made = [group.injection.late(layer, own) for group, own in zip(self.groups, self._each(states))]
        if all(rows is None for rows in made):
            return None
        rows, padding = self._side_by_side(made, states.x)
        return States(rows.transpose(0, 1), padding)

    def _key_value(self, layer: int, states: States) -> Prefix | None:
        made = [group.injection.key_value(layer, own) for group, own in zip(self.groups, self._each(states))]
        if all(prefix is None for prefix in made):
            return None
        attention, x = self.stack.layers[layer].self_attn, states.x
        keys: list[Tensor | None] = []
        values: list[Tensor | None] = []
        for group, prefix in zip(self.groups, made):
            if prefix is not None and prefix.before_projection:
                additions = group.injection.projection(layer)
                one, other = prefix.keys.type_as(x), prefix.values.type_as(x)
                prefix = Prefix(
                    project(attention, "k_proj", one, additions), project(attention, "v_proj", other, additions)
                )
            keys.append(prefix and prefix.keys)
            values.append(prefix and prefix.values)
        (joined_keys, padding), (joined_values, _) = self._side_by_side(keys, x), self._side_by_side(values, x)
        return Prefix(joined_keys, joined_values, padding=padding)

    def _side_by_side(self, made: Sequence[Any], like: Tensor) -> tuple[Tensor, Tensor | None]:
        """Each group's rows (n or 1, t, d; None: none) -> B x t x d for the largest t, and B x t, true at pads."""
        sizes = [group.end - group.begin for group in self.groups]
        lengths = [0 if rows is None else rows.size(1) for rows in made]
        longest = max(lengths)
        parts = [
            like.new_zeros(size, longest, like.size(2))
            if rows is None
            else F.pad(rows.type_as(like).expand(size, -1, -1), (0, 0, 0, longest - rows.size(1)))
            for size, rows in zip(sizes, made)
        ]
        if min(lengths) == longest:
            return torch.cat(parts), None
        numbers = torch.arange(longest, device=like.device)
        return torch.cat(parts), torch.cat([numbers.expand(size, -1) >= n for size, n in zip(sizes, lengths)])

    def _sublayer(self, layer: int) -> Changes:
        after_attention, after_ffn = zip(*(group.injection.sublayer(layer) for group in self.groups))
        return self._changed(after_attention), self._changed(after_ffn)

    def _changed(self, changes: Sequence[Change | None]) -> Change | None:
        if all(change is None for change in changes):
            return None

        def joined(f: Tensor, x: Tensor, layer_norm: nn.Module) -> Tensor:
            parts = [
                group.of(f) if change is None else change(group.of(f), group.of(x), layer_norm)
                for group, change in zip(self.groups, changes)
            ]
            return torch.cat(parts, 1)

        return joined

    def _projection(self, layer: int) -> Additions:
        each = [group.injection.projection(layer) for group in self.groups]
        return Additions(*map(self._added, zip(*each)))

    def _added(self, additions: Sequence[Addition]) -> Addition:
        if all(addition is None for addition in additions):
            return None

        def joined(x: Tensor) -> Tensor:
            pairs = list(zip(self.groups, additions))
            made = [None if addition is None else addition(group.of(x)).type_as(x) for group, addition in pairs]
            width = next(out.size(2) for out in made if out is not None)
            sizes = [group.end - group.begin for group in self.groups]
            parts = [x.new_zeros(len(x), n, width) if out is None else out for n, out in zip(sizes, made)]
            return torch.cat(parts, 1)

        return joined
