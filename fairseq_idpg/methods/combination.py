"""Methods that enter at different places of one backbone, trained together."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..backbone.injection import NOTHING, Injection, filled_fields
from ..errors import InputError
from ..representations.kinds import canonical_kind
from .base import Method, WordEmbeddings


def representation_of(part: Method) -> str:
    """Return M(x) as ``part`` reads it, in words that are equal for the same; empty if it reads none."""
    if part.representation is None:
        return ""
    return canonical_kind(part.representation) + (" with dropout" if part.representation_dropout else "")


def clash(first: Method, second: Method) -> str:
    """Return why two methods cannot be joined, as the end of "A and B …"; empty if they can."""
    if (first.hides_pass and second.slots) or (second.hides_pass and first.slots):
        return "cannot act together, since the head would see nothing of what one of them injects"
    both = sorted(set(first.slots) & set(second.slots))
    if both:
        return f"enter at the same place ({', '.join(both)})"
    one, other = representation_of(first), representation_of(second)
    if one and other and one != other:
        return f"read M(x) as {one} and as {other}, but a pass computes one"
    return ""


class Combination(Method):
    """Injects what all of ``parts`` inject.

    Args:
        name: of them together, as --method has it.
        owners: for each of ``parts`` the preset that it belongs to; without them, ``name`` is theirs, joined by +.

    Raises:
        InputError: two of them fill the same slot, or read another M(x); one hides what another injects.
    """

    def __init__(self, name: str, parts: list[Method], owners: Sequence[str] = ()):
        super().__init__()
        for (one, first), (other, second) in itertools.combinations(zip(owners or name.split("+"), parts), 2):
            reason = clash(first, second)
            if reason:
                raise InputError(f"--method {name}: {one} and {other} {reason}: choose one")
        self.slots = tuple(slot for part in parts for slot in part.slots)
        self.hides_pass = any(part.hides_pass for part in parts)
        self.parts: Any = nn.ModuleList(parts)
        self.training_only = tuple(f"parts.{i}.{name}" for i, part in enumerate(parts) for name in part.training_only)
        self.prompt_length = sum(part.prompt_length for part in parts)
        self.representation = next((part.representation for part in parts if part.representation), None)
        self.representation_dropout = any(part.representation_dropout for part in parts)
        self.second_pass = any(part.second_pass for part in parts)
        self.redrawn = any(part.redrawn for part in parts)
        self.adds_loss = next((part.adds_loss for part in parts if part.adds_loss), None)

    def first_layer(self, layers: int) -> int:
        return min(part.first_layer(layers) for part in self.parts)

    def trains(self, name: str) -> bool:
        return any(part.trains(name) for part in self.parts)

    def compare(self, one: Tensor, other: Tensor) -> None:
        for part in self.parts:
            if part.second_pass:
                part.compare(one, other)

    def extra_loss(self) -> Tensor:
        return torch.stack([part.extra_loss() for part in self.parts if part.adds_loss]).sum()

    def fold(self) -> None:
        for part in self.parts:
            part.fold()

    def mark_folded(self) -> None:
        for part in self.parts:
            part.mark_folded()

    def merge(self, stack: nn.Module) -> None:
        for part in self.parts:
            part.merge(stack)
        self.merged = any(part.merged for part in self.parts)

    def injection(self, representation: Tensor | None) -> Injection:
        joined = NOTHING
        for part in self.parts:
            injection = part.injection(representation if part.representation else None)
            joined = replace(joined, **filled_fields(injection))
        return joined

    def without_effect(self, cfg: Any) -> dict[str, str]:
        return {name: reason for part in self.parts for name, reason in part.without_effect(cfg).items()}

    def prompt_parameters(self) -> list[nn.Parameter]:
        return [parameter for part in self.parts for parameter in part.prompt_parameters()]

    def word_parameters(self) -> list[nn.Parameter]:
        return [parameter for part in self.parts for parameter in part.word_parameters()]

    def set_initial_values(self, cfg: Any, words: WordEmbeddings) -> None:
        for part in self.parts:
            part.set_initial_values(cfg, words)

    def describe(self) -> str:
        return "; ".join(part.describe() for part in self.parts)
