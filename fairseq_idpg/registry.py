"""The rows of the paper's tables by name: ``--method NAME`` fills the options that define the row."""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Optional, Type

from fairseq.dataclass import FairseqDataclass
from torch import nn

from .errors import InputError


@dataclass(frozen=True)
class Geometry:
    """What a method must know of its backbone: L layers and width d."""

    layers: int
    width: int


@dataclass(frozen=True)
class Method:
    """A named setting of a method.

    Attributes:
        build: (filled options, Geometry) -> module, or None for a method without parameters of its own.
        config: dataclass of the options that the method understands.
        settings: the option values that define the row.
    """

    name: str
    build: Callable[[Any, Geometry], Optional[nn.Module]]
    config: Type[FairseqDataclass]
    settings: Dict[str, Any]


METHODS: Dict[str, Method] = {}


def register_method(name: str, build: Callable, config: Type[FairseqDataclass], **settings: Any) -> None:
    """One line per row: ``register_method("prompt-tuning", TaskPrompts, PromptConfig, prompt_length=5)``."""
    if name in METHODS:
        raise ValueError(f"method {name} is registered twice")
    METHODS[name] = Method(name, build, config, settings)


def find_method(name: str) -> Method:
    """The registered method, or a clear error that lists the names there are."""
    if name not in METHODS:
        raise InputError(f"--method {name} is unknown: choose from {', '.join(sorted(METHODS))}")
    return METHODS[name]
