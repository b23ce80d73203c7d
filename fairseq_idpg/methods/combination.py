"""Methods that enter at different places of one backbone, trained together."""

from dataclasses import fields
from typing import Any, Dict, List, Optional, Tuple

from torch import Tensor, nn

from ..backbone.injection import NOTHING, Injection
from .base import Method, WordEmbeddings


class Combination(Method):
    """Injects what all of ``parts`` inject; no two of them fill the same field of an ``Injection``."""

    def __init__(self, parts: List[Method]):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.prompt_length = sum(part.prompt_length for part in parts)
        self.representation = next((part.representation for part in parts if part.representation), None)
        self.representation_dropout = any(part.representation_dropout for part in parts)

    @property
    def training_only(self) -> Tuple[str, ...]:
        return tuple(f"parts.{i}.{name}" for i, part in enumerate(self.parts) for name in part.training_only)

    def trains(self, name: str) -> bool:
        return any(part.trains(name) for part in self.parts)

    def fold(self) -> None:
        for part in self.parts:
            part.fold()

    def mark_folded(self) -> None:
        for part in self.parts:
            part.mark_folded()

    def injection(self, representation: Optional[Tensor], offset: Optional[Tensor]) -> Injection:
        values = {}
        for part in self.parts:
            injected = part.injection(representation if part.representation else None, offset)
            for name in (field.name for field in fields(Injection)):
                if getattr(injected, name) is not getattr(NOTHING, name):
                    values[name] = getattr(injected, name)
        return Injection(**values)

    def without_effect(self, cfg: Any) -> Dict[str, str]:
        return {name: reason for part in self.parts for name, reason in part.without_effect(cfg).items()}

    def prompt_parameters(self) -> List[nn.Parameter]:
        return [parameter for part in self.parts for parameter in part.prompt_parameters()]

    def set_initial_values(self, cfg: Any, words: WordEmbeddings) -> None:
        for part in self.parts:
            part.set_initial_values(cfg, words)

    def describe(self) -> str:
        return "; ".join(part.describe() for part in self.parts)
