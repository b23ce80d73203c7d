"""The rows of the paper's tables by name: ``--method NAME`` fills the options that define the row.

``--method A+B`` trains two methods that enter at different places together, such as m-idpg-phm+adapter.
"""

from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Callable, Dict, Optional, Tuple, Type

from fairseq.dataclass import FairseqDataclass

from ..errors import InputError
from .base import Method
from .combination import Combination


@dataclass(frozen=True)
class Geometry:
    """What a method must know of its backbone: L layers and width d."""

    layers: int
    width: int


Build = Callable[[Any, Geometry], Optional[Method]]


@dataclass(frozen=True)
class Preset:
    """A named setting of a method.

    Attributes:
        build: (filled options, Geometry) -> module, or None for a method without parameters of its own.
        config: dataclass of the options that the method understands.
        settings: the option values that define the row.
        trains_backbone: whether the backbone is trained too.
        needs_pairs: whether it makes sense for sentence pairs only.
    """

    name: str
    build: Build
    config: Type[FairseqDataclass]
    settings: Dict[str, Any]
    trains_backbone: bool = False
    needs_pairs: bool = False

    @property
    def defaults(self) -> Dict[str, Any]:
        """Every option that the method understands, with the value it has in this row."""
        options = (f for f in fields(self.config) if "preset_default" in f.metadata)
        return {f.name: self.settings.get(f.name, f.metadata["preset_default"]) for f in options}

    @property
    def conditions(self) -> Dict[str, Tuple[str, Tuple[str, ...]]]:
        """Options that have an effect only with certain values of another one."""
        return {f.name: f.metadata["only_with"] for f in fields(self.config) if f.metadata.get("only_with")}


@dataclass(frozen=True)
class CombinedPreset:
    """Several methods trained together; looks like a ``Preset``."""

    name: str
    parts: Tuple[Preset, ...]

    @property
    def defaults(self) -> Dict[str, Any]:
        return {name: value for part in self.parts for name, value in part.defaults.items()}

    @property
    def conditions(self) -> Dict[str, Tuple[str, Tuple[str, ...]]]:
        return {name: value for part in self.parts for name, value in part.conditions.items()}

    @property
    def trains_backbone(self) -> bool:
        return any(part.trains_backbone for part in self.parts)

    @property
    def needs_pairs(self) -> bool:
        return any(part.needs_pairs for part in self.parts)

    def build(self, cfg: Any, geometry: Geometry) -> Combination:
        return Combination([part.build(cfg, geometry) for part in self.parts])


PRESETS: Dict[str, Preset] = {}


def register_preset(
    name: str,
    build: Build,
    config: Type[FairseqDataclass],
    trains_backbone: bool = False,
    needs_pairs: bool = False,
    **settings: Any,
) -> None:
    """One line per row: ``register_preset("prompt-tuning", TaskPrompts, PromptConfig, prompt_length=5)``."""
    if name in PRESETS:
        raise ValueError(f"preset {name} is registered twice")
    PRESETS[name] = Preset(name, build, config, settings, trains_backbone, needs_pairs)


def find_preset(name: str) -> Any:
    """The ``Preset`` of a name, or the ``CombinedPreset`` of several joined by +.

    Raises:
        InputError: an unknown name (the nearest is suggested); methods that would enter at one place.
    """
    parts = tuple(_registered(part) for part in name.split("+"))
    if len(parts) == 1:
        return parts[0]
    for i, part in enumerate(parts):
        if not part.defaults:
            raise InputError(f"--method {name}: {part.name} injects nothing: name the other methods alone")
        for other in parts[:i]:
            if part.defaults.keys() & other.defaults.keys():
                raise InputError(
                    f"--method {name}: {other.name} and {part.name} enter at the same place: join prompts with "
                    "adapters, such as m-idpg-phm+adapter, or choose one"
                )
    return CombinedPreset(name, parts)


def _registered(name: str) -> Preset:
    if name not in PRESETS:
        near = get_close_matches(name, PRESETS, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InputError(f"--method {name} is unknown: {hint}choose from {', '.join(sorted(PRESETS))}")
    return PRESETS[name]
