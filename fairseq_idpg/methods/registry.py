"""Presets, the rows of the papers' tables by name.

``--method NAME`` fills the options that define the row; ``--method A+B`` trains methods that enter at different places
of one backbone together, such as m-idpg-phm+adapter.
"""

import itertools
import sys
from collections.abc import Iterable, Sequence
from dataclasses import Field, dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from preprocess.checksums import sha256
from preprocess.errors import did_you_mean
from preprocess.flags import flag_name

from ..backbone.injection import NOTHING, Injection, filled_fields
from ..errors import InputError, check_there
from ..representations.kinds import canonical_kind
from .base import Geometry, Method
from .options import options_of


def clash(first: Method, second: Method) -> str:
    """Return why two methods cannot be joined, as the end of "A and B …"; empty if they can."""
    if (first.hides_pass and second.slots) or (second.hides_pass and first.slots):
        return "cannot act together, since the head would see nothing of what one of them injects"
    shared_slots = sorted(set(first.slots) & set(second.slots))
    if shared_slots:
        return f"enter at the same place ({', '.join(shared_slots)})"
    # a pass computes one M(x): of one kind, with dropout or without
    kinds = [
        canonical_kind(method.representation) + (" with dropout" if method.representation_dropout else "")
        for method in (first, second)
        if method.representation
    ]
    if len(set(kinds)) > 1:
        return f"read M(x) as {kinds[0]} and as {kinds[1]}, but a pass computes one"
    return ""


class Combination(Method):
    """Several methods that are trained together; injects what all of them inject. Raise InputError if two ``clash``.

    ``owners``: the preset of each part; without them, ``name`` is made of the parts' names, joined by +.
    """

    def __init__(self, name: str, parts: list[Method], owners: Sequence[str] = ()):
        super().__init__()
        for (one, first), (other, second) in itertools.combinations(zip(owners or name.split("+"), parts), 2):
            reason = clash(first, second)
            if reason:
                raise InputError(f"--method {name}: {one} and {other} {reason}: choose one")
        self.slots = tuple(slot for part in parts for slot in part.slots)
        self.parts: Any = nn.ModuleList(parts)
        self.training_only = tuple(f"parts.{i}.{name}" for i, part in enumerate(parts) for name in part.training_only)
        self.prompt_length = sum(part.prompt_length for part in parts)
        self.representation = next((part.representation for part in parts if part.representation), None)
        for flag in ("hides_pass", "representation_dropout", "own_encoder", "second_pass", "redrawn"):
            setattr(self, flag, any(getattr(part, flag) for part in parts))
        self.adds_loss = next((part.adds_loss for part in parts if part.adds_loss), None)

    @property
    def members(self) -> Iterable[Method]:
        return self.parts

    def first_layer(self, layers: int) -> int:
        return min(part.first_layer(layers) for part in self.parts)

    def extra_loss(self) -> Tensor:
        return torch.stack([part.extra_loss() for part in self.parts if part.adds_loss]).sum()

    def injection(self, representation: Tensor | None) -> Injection:
        # the parts share no slot, so that no field replaces another part's
        joined = NOTHING
        for part in self.parts:
            injection = part.injection(representation if part.representation else None)
            joined = replace(joined, **filled_fields(injection))
        return joined

    def describe(self) -> str:
        return "; ".join(part.describe() for part in self.parts)


@dataclass(frozen=True)
class Preset:
    name: str
    methods: tuple[type[Method], ...]  # empty for a baseline; several enter at different places
    settings: dict[str, Any]  # the option values that define the row
    paper: str = ""  # its trainable parameters as the IDPG paper prints them (Table 2, RoBERTa-large)
    trains_backbone: bool = False  # the whole backbone too
    needs_pairs: bool = False  # for sentence pairs only
    owners: tuple[str, ...] = ()  # where presets are joined by +: the preset of each of ``methods``
    module: str = ""  # registers it; its docstring names the paper

    @property
    def options(self) -> dict[str, Field]:
        return {name: declared for method in self.methods for name, declared in options_of(method.config).items()}

    @property
    def defaults(self) -> dict[str, Any]:
        return {n: self.settings.get(n, declared.metadata["preset_default"]) for n, declared in self.options.items()}

    def build(self, cfg: Any, geometry: Geometry) -> Method | None:
        """Return the module for filled options ``cfg``; None for a baseline."""
        parts = [method(cfg, geometry) for method in self.methods]
        if len(parts) < 2:
            return next(iter(parts), None)
        return Combination(self.name, parts, self.owners or (self.name,) * len(parts))


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
    """Register a row of a table: ``register_preset("prompt-tuning", TaskPrompts, paper="5K", prompt_length=5)``.

    A baseline has no ``method``; methods ``beside`` it are trained together with it. Raise ValueError if the name is
    taken, a setting is no option of the method, or a flag is on that no run can turn off.
    """
    methods = beside if method is None else (method, *beside)
    module = sys._getframe(1).f_globals["__name__"]  # the caller's
    preset = Preset(name, methods, settings, paper, trains_backbone, needs_pairs, module=module)
    if name in PRESETS:
        raise ValueError(f"preset {name} is registered twice")
    options = preset.options
    unknown = settings.keys() - options.keys()
    if unknown:
        raise ValueError(f"preset {name} sets {', '.join(sorted(unknown))}, which its method does not declare")
    # a flag only turns an option on: a sweep's `false` would be recorded, and the run would train with true
    for option, value in preset.defaults.items():
        kind = options[option].type
        if value is True or value and bool in (kind, *get_args(kind)):
            raise ValueError(
                f"preset {name} sets {flag_name(option)}, which no run can turn off: declare it Filled[TrueFalse]"
            )
    PRESETS[name] = preset


def find_preset(name: str) -> Preset:
    """Return the preset of a name, or of several joined by +.

    Raise InputError for an unknown name, with the nearest one, or for methods that share an option.
    """
    names = name.split("+")
    for each in names:
        if each not in PRESETS:
            hint = did_you_mean(each, PRESETS)
            raise InputError(f"--method {each} is unknown: {hint}choose from {', '.join(sorted(PRESETS))}")
    parts = [PRESETS[each] for each in names]
    if len(parts) == 1:
        return parts[0]
    for part in parts:
        if not part.methods:
            raise InputError(f"--method {name}: {part.name} injects nothing: name the other methods alone")
    for one, other in itertools.combinations(parts, 2):
        shared = [option for option in one.options if option in other.options]
        if shared:
            raise InputError(f"--method {name}: {one.name} and {other.name} share {flag_name(shared[0])}: choose one")
    return Preset(
        name,
        methods=tuple(method for part in parts for method in part.methods),
        settings={option: value for part in parts for option, value in part.settings.items()},
        trains_backbone=any(part.trains_backbone for part in parts),
        needs_pairs=any(part.needs_pairs for part in parts),
        owners=tuple(part.name for part in parts for _ in part.methods),
    )


FILES: dict[str, str] = {}  # of files that were run: path, and name with SHA-256 -> the latter, which checkpoints keep


def register_file(path: str) -> str:
    """Run a Python file that registers presets, once; return its name and SHA-256.

    Pass only a path that the user typed: one in a checkpoint may be a stranger's, whose code must not run.
    """
    check_there("--method-file", path)
    note = f"{Path(path).name} {sha256(Path(path))}"
    if note not in FILES:
        # As a file beside the package's prompts, whose relative imports it may have.
        name = f"{__package__}.prompts.outside_{Path(path).stem}"
        spec: Any = spec_from_file_location(name, path)
        sys.modules[name] = module = module_from_spec(spec)
        spec.loader.exec_module(module)
    FILES[path] = FILES[note] = note
    return note


def check_file(named: str | None, what: str) -> str | None:
    """Return what checkpoints keep of a method's file; raise InputError for a file that this process has not run."""
    if named is not None and named not in FILES:
        raise InputError(
            f"{what} needs the method of {named}: give that file with --method-file. "
            "Instead of fairseq-validate use fairseq_idpg.load(CHECKPOINT, method_file=FILE).evaluate(texts, labels)"
        )
    return FILES.get(named or "")
