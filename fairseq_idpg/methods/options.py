"""Options of methods: declared beside each method, filled from the chosen preset; those that a user gives win."""

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import Field, field, fields, make_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from omegaconf import OmegaConf

from preprocess.flags import flag_name

from ..errors import InputError
from ..names import as_typed

# The type of an option: None until it is filled. A type checker sees it as methods read it, filled.
if TYPE_CHECKING:
    from typing import Union as Filled
else:
    Filled = Optional

# The type of an option that some preset turns on: a flag could not turn it off again.
TrueFalse: Any = ChoiceEnum(["true", "false"])


def option(
    default: Any,
    help: str,
    only_with: tuple[str, tuple[str, ...]] | None = None,
    changeable: bool = False,
    starting: bool = False,
    formerly: Any = None,
    least: float = -math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> Any:
    """Return a dataclass field that is None until ``fill_options`` puts the preset's value, or ``default``, in it.

    None tells an option left open from one that was typed with the default's value. The range of a number is
    least <= value, above < value < below.

    Args:
        only_with: another option, and its values with which this one has an effect.
        changeable: a training may go on with another value, such as that of a dropout.
        starting: the option says where weights start, which makes it changeable.
        formerly: the value of checkpoints that are older than the option.
    """
    metadata = {"help": help, "preset_default": default, "only_with": only_with, "range": (least, above, below)}
    metadata |= {"changeable": changeable or starting, "starting": starting, "formerly": formerly}
    if default in ("true", "false"):
        metadata["argparse_const"] = "true"  # what the option means without a value
    return field(default=None, metadata=metadata)


# the rate of a dropout: 0 <= rate < 1
dropout_option = partial(option, changeable=True, least=0, below=1)


def options_of(config: type[FairseqDataclass]) -> dict[str, Field]:
    """Return the fields of ``config`` that were declared with ``option``."""
    return {f.name: f for f in fields(config) if "preset_default" in f.metadata}


def joined_options(name: str, configs: Iterable[type], beside: Iterable[Any]) -> type[FairseqDataclass]:
    """Return a dataclass called ``name`` with the options of all ``configs``, in their order.

    Raise ValueError if two of ``configs`` and ``beside`` declare an option differently: on the command line, fairseq
    would silently take the first.
    """
    known: dict[str, tuple[type, Field]] = {}
    for config in (*beside, *configs):
        for f in fields(config):
            owner, first = known.setdefault(f.name, (config, f))
            if "preset_default" in f.metadata and (first.type, first.metadata) != (f.type, f.metadata):
                raise ValueError(
                    f"{flag_name(f.name)} is declared by {owner.__module__}.{owner.__name__} and differently by "
                    f"{config.__module__}.{config.__name__}: rename one"
                )
    options = [f for _, f in known.values() if "preset_default" in f.metadata]
    declarations = [(f.name, f.type, field(default=None, metadata=f.metadata)) for f in options]
    return make_dataclass(name, declarations, bases=(FairseqDataclass,))


def fill_options(cfg: Any, preset: Any, every_option: Iterable[str]) -> None:
    """Fill, in place, the options of ``preset`` that ``cfg`` leaves open; a second call changes nothing.

    Raise InputError where ``cfg`` sets an option that has no effect with this method, or a number out of its range.
    """
    options, defaults = preset.options, preset.defaults
    for name in every_option:
        if name not in options and getattr(cfg, name, None) is not None:
            raise InputError(f"{as_typed(cfg, name)} has no effect with --method {preset.name}: leave it out")
    # a checkpoint that is older than an option does not record it: the option then has its former value
    recorded = cfg if OmegaConf.is_config(cfg) else vars(cfg)
    for name, declared in options.items():
        former = declared.metadata["formerly"]
        if former is not None and name not in recorded and _acts(cfg, declared):
            setattr(cfg, name, former)
        elif getattr(cfg, name, None) is None:
            setattr(cfg, name, defaults[name])
    for name, declared in options.items():
        if not _acts(cfg, declared) and getattr(cfg, name) != defaults[name]:
            other, values = declared.metadata["only_with"]
            flag, current = flag_name(other), str(getattr(cfg, other))
            present = f"without {flag}" if current == "False" else f"with {flag} {current}"
            wanted = flag if values == ("True",) else f"{flag} {' or '.join(values)}"
            raise InputError(f"{as_typed(cfg, name)} has no effect {present}: leave it out or give {wanted}")
        value, (least, above, below) = getattr(cfg, name), declared.metadata["range"]
        if isinstance(value, (int, float)) and not (least <= value < below and value > above):  # NaN is out of any
            wanted = f"more than {above:g}" if above > least else f"{least:g} or more"
            raise InputError(f"{as_typed(cfg, name)}: give {wanted}{f', below {below:g}' if below < math.inf else ''}")


def _acts(cfg: Any, declared: Field) -> bool:
    """Return whether an option has an effect beside the others, as far as its ``only_with`` says."""
    other, values = declared.metadata["only_with"] or (None, ())
    return other is None or str(getattr(cfg, other, None)) in values


def parse_number(cfg: Any, name: str, word: str) -> float | None:
    """Return option ``name`` of ``cfg`` as a number, or None if it is ``word``; InputError unless it is above 0."""
    text = str(getattr(cfg, name))
    if text == word:
        return None
    with suppress(ValueError):
        number = float(text)
        if 0 < number < math.inf:
            return number
    raise InputError(f"{as_typed(cfg, name)}: give {word} or a number above 0")


def parse_layers(flag: str, text: str, layers: int, words: str = "all") -> tuple[int, ...]:
    """Turn ``all`` or ``0,4,8`` into layer numbers in rising order; InputError for another text or number.

    ``words``: what ``flag`` takes besides a list.
    """
    if text == "all":
        return tuple(range(layers))
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) < layers for part in parts):
        raise InputError(f"{flag} {text}: give {words} or a list of layers from 0 to {layers - 1}, such as 0,2")
    return tuple(sorted(set(map(int, parts))))
