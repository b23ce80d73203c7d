"""Options of methods: declared beside each method, filled from the chosen preset, explicit ones win."""

from collections.abc import Iterable
from dataclasses import Field, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from omegaconf import OmegaConf

from preprocess.flags import flag_name

from ..errors import InputError
from ..names import as_typed

# The type of an option: None until it is filled; a method reads it filled, and so a type checker sees it.
if TYPE_CHECKING:
    from typing import Union as Filled
else:
    Filled = Optional

# Of an option that some preset turns on: a flag, which can only be given, could not turn it off again.
TrueFalse: Any = ChoiceEnum(["true", "false"])


def option(
    default: Any,
    help: str,
    only_with: tuple[str, tuple[str, ...]] | None = None,
    changeable: bool = False,
    starting: bool = False,
    formerly: Any = None,
) -> Any:
    """A dataclass field that is None until ``fill_options`` puts the preset's value, or ``default``, in it.

    None is how an option left open is told from one that was typed with the default's value.

    Args:
        only_with: another option and those of its values with which this one has an effect.
        changeable: whether a training may go on with another value, such as of dropout.
        starting: whether it says where weights start, and nothing once there are some: changeable.
        formerly: what checkpoints that are older than the option were trained with, where it has an effect.
    """
    metadata = {"help": help, "preset_default": default, "only_with": only_with}
    kept = {"changeable": changeable or starting, "starting": starting, "formerly": formerly}
    return field(default=None, metadata={**metadata, **kept})


def options_of(config: type[FairseqDataclass]) -> dict[str, Field]:
    """The fields of ``config`` that were declared with ``option``."""
    return {f.name: f for f in fields(config) if "preset_default" in f.metadata}


def joined_options(name: str, configs: Iterable[type], beside: Iterable[Any]) -> type[FairseqDataclass]:
    """A dataclass called ``name`` of the options of all ``configs``, in their order.

    Args:
        beside: dataclasses of other options on the same command line.

    Raises:
        ValueError: two of them declare an option differently; fairseq would take the first without a word.
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
    """Fills, in place, the options of ``preset`` that ``cfg`` leaves open; a second call changes nothing.

    Raises:
        InputError: ``cfg`` sets an option that has no effect with this method.
    """
    options, defaults = preset.options, preset.defaults
    for name in every_option:
        if name not in options and getattr(cfg, name, None) is not None:
            raise InputError(
                f"{as_typed(cfg, name)} has no effect with --method {preset.name}: leave it out or choose another "
                "--method"
            )
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
            flag, chosen = flag_name(other), str(getattr(cfg, other))
            present = f"without {flag}" if chosen == "False" else f"with {flag} {chosen}"
            wanted = flag if values == ("True",) else f"{flag} {' or '.join(values)}"
            raise InputError(f"{as_typed(cfg, name)} has no effect {present}: leave it out or give {wanted}")


def _acts(cfg: Any, declared: Field) -> bool:
    """Whether an option has an effect with the value that ``cfg`` has for the option it depends on."""
    other, values = declared.metadata["only_with"] or (None, ())
    return other is None or str(getattr(cfg, other, None)) in values


def check_sizes(cfg: Any, *names: str) -> None:
    """Raises InputError where one of these options of ``cfg`` is no size: below 1."""
    for name in names:
        if getattr(cfg, name) < 1:
            raise InputError(f"{as_typed(cfg, name)} is no size: give 1 or more")


def check_rate(cfg: Any, name: str) -> None:
    """Raises InputError where this option of ``cfg`` is no rate of dropout."""
    if not 0 <= getattr(cfg, name) < 1:
        raise InputError(f"{as_typed(cfg, name)} is no rate: give 0 or more, below 1")


def parse_layers(flag: str, text: str, layers: int, words: str) -> tuple[int, ...]:
    """``0,4,8`` -> layer numbers in rising order; ``words`` are what else option ``flag`` takes, for the error.

    Raises:
        InputError: it is no such list, or the backbone has no such layer.
    """
    try:
        chosen = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise InputError(f"{flag} {text}: give {words} or a list of layer numbers such as 0,4,8") from None
    if chosen[0] < 0 or chosen[-1] >= layers:
        raise InputError(f"{flag} {text}: layers count from 0 to {layers - 1}, give some of these")
    return chosen


def some_layers(flag: str, text: str, layers: int) -> tuple[int, ...]:
    """``all`` | ``0,4,8`` -> layer numbers in rising order; errors as of ``parse_layers``."""
    return tuple(range(layers)) if text == "all" else parse_layers(flag, text, layers, "all")
