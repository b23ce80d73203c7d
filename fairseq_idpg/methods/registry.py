"""Presets, the rows of the papers' tables by name.

``--method NAME`` fills the options that define the row; ``--method A+B`` trains methods that enter at different places
together, such as m-idpg-phm+adapter.
"""

import sys
from dataclasses import Field, dataclass
from typing import Any, get_args

from preprocess.errors import did_you_mean
from preprocess.flags import flag_name

from ..errors import InputError
from .base import Geometry, Method
from .combination import Combination
from .options import options_of


@dataclass(frozen=True)
class Preset:
    """A named setting of a method.

    Attributes:
        methods: the classes of its modules; none for a baseline, several that enter at different places, as for
            presets joined by +.
        settings: the option values that define the row.
        paper: its trainable parameters as the IDPG paper prints them (Table 2, RoBERTa-large).
        trains_backbone: whether the whole backbone is trained too.
        needs_pairs: whether it makes sense for sentence pairs only.
        joined: of presets joined by +, for each of ``methods`` the preset that it belongs to.
        module: the name of the module that registers it, whose head names the paper.
    """

    name: str
    methods: tuple[type[Method], ...]
    settings: dict[str, Any]
    paper: str = ""
    trains_backbone: bool = False
    needs_pairs: bool = False
    joined: tuple[str, ...] = ()
    module: str = ""

    @property
    def options(self) -> dict[str, Field]:
        """Return every option that its methods understand."""
        return {name: declared for method in self.methods for name, declared in options_of(method.config).items()}

    @property
    def defaults(self) -> dict[str, Any]:
        """Return the value of every option in this row."""
        return {n: self.settings.get(n, declared.metadata["preset_default"]) for n, declared in self.options.items()}

    def build(self, cfg: Any, geometry: Geometry) -> Method | None:
        """Return the module for filled options ``cfg``; None for a baseline."""
        parts = [method(cfg, geometry) for method in self.methods]
        if len(parts) < 2:
            return next(iter(parts), None)
        return Combination(self.name, parts, self.joined or (self.name,) * len(parts))


PRESETS: dict[str, Preset] = {}


def register_preset(
    name: str,
    method: type[Method] | None = None,
    *,
    beside: tuple[type[Method], ...] = (),
    paper: str = "",
    trains_backbone: bool = False,
    needs_pairs: bool = False,
    **settings: Any,
) -> None:
    """One line per row: ``register_preset("prompt-tuning", TaskPrompts, paper="5K", prompt_length=5)``.

    Args:
        method: none for a baseline.
        beside: others that are trained together with it.

    Raises:
        ValueError: the name is taken, a setting is no option of the method, or a flag is on that no run can turn off.
    """
    methods = beside if method is None else (method, *beside)
    module = sys._getframe(1).f_globals["__name__"]  # of the caller
    preset = Preset(name, methods, settings, paper, trains_backbone, needs_pairs, module=module)
    if name in PRESETS:
        raise ValueError(f"preset {name} is registered twice")
    unknown = settings.keys() - preset.options.keys()
    if unknown:
        raise ValueError(f"preset {name} sets {', '.join(sorted(unknown))}, which its method does not declare")
    # a flag of the command line only turns an option on: a sweep's `false` would be recorded and train with true
    for option, value in preset.defaults.items():
        kind = preset.options[option].type
        if value is True or value and bool in (kind, *get_args(kind)):
            raise ValueError(
                f"preset {name}: {flag_name(option)} is {value!r}, and no run can turn it off: declare it "
                "Filled[TrueFalse], and write 'true'"
            )
    PRESETS[name] = preset


def find_preset(name: str) -> Preset:
    """Return the preset of a name, or of several joined by +.

    Raises:
        InputError: an unknown name (the nearest is suggested); methods that share an option.
    """
    parts = [_registered(part) for part in name.split("+")]
    if len(parts) == 1:
        return parts[0]
    for i, part in enumerate(parts):
        if not part.methods:
            raise InputError(f"--method {name}: {part.name} injects nothing: name the other methods alone")
        for other in parts[:i]:
            shared = [option for option in other.options if option in part.options]
            if shared:
                raise InputError(
                    f"--method {name}: {other.name} and {part.name} share {flag_name(shared[0])}, which cannot have "
                    "two values: join prompts with adapters, such as m-idpg-phm+adapter, or choose one"
                )
    return Preset(
        name,
        methods=tuple(method for part in parts for method in part.methods),
        settings={option: value for part in parts for option, value in part.settings.items()},
        trains_backbone=any(part.trains_backbone for part in parts),
        needs_pairs=any(part.needs_pairs for part in parts),
        joined=tuple(part.name for part in parts for _ in part.methods),
    )


def _registered(name: str) -> Preset:
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise InputError(f"--method {name} is unknown: {hint}choose from {', '.join(sorted(PRESETS))}")
    return PRESETS[name]
