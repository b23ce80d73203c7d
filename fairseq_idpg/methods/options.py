"""Options of methods: declared beside each method, filled from the chosen preset, explicit ones win."""

from dataclasses import field, fields
from typing import Any, Iterable, List, Optional, Tuple

from fairseq.dataclass import FairseqDataclass

from ..arguments import flag_name, given
from ..errors import InputError


def option(default: Any, help: str, only_with: Optional[Tuple[str, Tuple[str, ...]]] = None) -> Any:
    """A dataclass field that is None until ``fill_options`` puts the preset's value, or ``default``, in it.

    None is how an option left open is told from one that was typed with the default's value. ``only_with``: another
    option and the values of it with which this one has an effect.
    """
    return field(default=None, metadata={"help": help, "preset_default": default, "only_with": only_with})


def method_options(config: FairseqDataclass) -> List[str]:
    """Names of the fields of ``config`` that were declared with ``option``."""
    return [f.name for f in fields(config) if "preset_default" in f.metadata]


def fill_options(cfg: Any, preset: Any, every_option: Iterable[str]) -> None:
    """Fills, in place, the options of ``preset`` that ``cfg`` leaves open; a second call changes nothing.

    Raises:
        InputError: ``cfg`` sets an option that has no effect with this method.
    """
    own = preset.defaults
    for name in every_option:
        value = getattr(cfg, name, None)
        if name not in own:
            if value is not None:
                raise InputError(
                    f"{flag_name(name)} {value} has no effect with --method {preset.name}: leave it out or choose "
                    "another --method"
                )
        elif value is None:
            setattr(cfg, name, own[name])
    for name, (other, values) in preset.conditions.items():
        chosen = str(getattr(cfg, other))
        if chosen not in values and getattr(cfg, name) != own[name]:
            flag = flag_name(other)
            present = f"without {flag}" if chosen == "False" else f"with {flag} {chosen}"
            wanted = flag if values == ("True",) else f"{flag} {' or '.join(values)}"
            raise InputError(f"{given(cfg, name)} has no effect {present}: leave it out or give {wanted}")


def check_divisible(what: str, value: int, divisor: int, flag: str = "--phm-n") -> None:
    """The factor n of Kronecker products, option ``flag``, must divide every side of the matrices they build."""
    if value % divisor:
        raise InputError(f"{flag} {divisor} does not divide {what} = {value}: choose an n that divides it")


def parse_layers(flag: str, text: str, layers: int, words: str) -> Tuple[int, ...]:
    """``0,4,8`` -> layer numbers in rising order; ``words`` are what else option ``flag`` takes, for the error."""
    try:
        chosen = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise InputError(f"{flag} {text}: give {words} or a list of layer numbers such as 0,4,8") from None
    if chosen[0] < 0 or chosen[-1] >= layers:
        raise InputError(f"{flag} {text}: layers count from 0 to {layers - 1}, give some of these")
    return chosen
