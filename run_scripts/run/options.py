"""Further options of fairseq-train, from a command line or from a file, which may be a stranger's."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any, get_args

from fairseq.registry import REGISTRIES

from fairseq_idpg.models.config import RobertaIDPGConfig
from fairseq_idpg.names import SECTIONS
from fairseq_idpg.tasks.config import SentencePredictionIDPGConfig
from fairseq_idpg.training.arguments import literal, parse_pair
from preprocess.errors import InputError, did_you_mean
from preprocess.flags import flag_name

from .experiment import READ

# Options of fairseq-train that this package sets -> the option of train.py, or key of a sweep, that decides.
RESERVED = {
    **{flag_name(name): name for name in ("backbone", "arch", "batch_size", "max_epoch", "max_update")},
    "--method": "rows",
    "--lr": "lrs",
    "--seed": "seeds",
    "--prompt-position": "positions",
    "--total-batch-size": "batch_size",
    "--valid-subset": "selection",
    "--save-dir": "--results",
    "--prompt-init-from": "init_prompts_from",
    "--head-init-from": "init_head_from",
    "--restore-file": "backbone",
    "--swap-pairs": "supplementary",
    **dict.fromkeys(("--user-dir", "--task", "--criterion", "--num-classes", "--regression-target"), "the task"),
    **dict.fromkeys(("--checkpoint-suffix", "--train-subset", "--log-format"), "the scripts, which read its output"),
}
RESERVED |= {"--max-sentences": RESERVED["--batch-size"], "-a": RESERVED["--arch"]}  # fairseq's other names of them
# Options whose text fairseq runs as Python (``eval``), except for --adam-betas. Other architectures have more.
PIPELINE = [f"--pipeline-{part}{what}" for part in ("", "encoder-", "decoder-") for what in ("balance", "devices")]
EVALUATED = ("--adamax-betas", "--adafactor-eps", "--lamb-betas", "--model-overrides", "--wer-args", *PIPELINE)
BETAS = "--adam-betas"
# Options with texts that the plugin reads. Any other text may name a place to write, or code.
READ_HERE = {*READ, *(flag_name(item.name) for item in fields(RobertaIDPGConfig))}


@cache
def declared_types() -> dict[str, set[Any]]:
    """Return option -> types in the dataclasses of fairseq and the plugin, with the parts of Optional[int]."""
    parts = [*SECTIONS, RobertaIDPGConfig, SentencePredictionIDPGConfig]
    parts += [part for registry in REGISTRIES.values() for part in registry["dataclass_registry"].values()]
    found: dict[str, set[Any]] = {}
    for item in (item for part in parts for item in fields(part)):
        for name in filter(None, (flag_name(item.name), item.metadata.get("argparse_alias"))):
            found.setdefault(name, set()).update(_parts(item.type))
    return found | {flag_name(name): {Enum} for name in REGISTRIES}  # one of the names in it


def _parts(kind: Any) -> set[Any]:
    return {kind}.union(*map(_parts, get_args(kind)))


def flags(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a command line: {"fp16": True, "amp": False, "dropout": 0} -> --fp16 --dropout 0.

    Raise InputError where an option is false and not a flag: if it were left out, its default would count.
    """
    words = []
    for name, value in options.items():
        option, types = f"--{name}", declared_types().get(f"--{name}", set())
        choices = [kind for kind in types if isinstance(kind, type) and issubclass(kind, Enum)]
        takes_the_word = any({"true", "false"} <= {each.value for each in kind} for kind in choices)
        if takes_the_word or not isinstance(value, bool):
            words += [option, str(value).lower() if isinstance(value, bool) else str(value)]
        elif value:
            words.append(option)
        elif bool not in types:
            raise InputError(f"options: {name} false: only a flag can be false: write its value")
    return tuple(words)


def check_from_file(name: str, value: Any, where: str) -> None:
    """Raise InputError for an option of a sweep's file that a stranger could misuse.

    Numbers, choices and the texts that the plugin reads pass, but no text that looks like an option to fairseq-train.
    """
    option = flag_name(name)
    types = declared_types().get(option, {Any})
    numbers = is_numbers(value)
    text = bool(types & {str, Any}) and not (numbers and Any in types)
    # argparse does not take a dash and a space for the beginning of an option.
    option_like = isinstance(value, str) and value.startswith("-") and value[1:2].strip() and not numbers
    if option not in RESERVED and (text and option not in READ_HERE or option_like):
        near = "" if option in declared_types() else did_you_mean(option, declared_types())
        allowed = "a file gives numbers, choices, and what the plugin reads"
        remedy = f"leave it out, or give --set options.{name}=VALUE"
        raise InputError(f"{where}: {option} {value!r}: {near}{allowed}: {remedy}")


def is_numbers(value: Any) -> bool:
    """Return whether a value is a number or a list of numbers, perhaps as a text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = literal(value)
    values = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(each, (int, float)) for each in values)


def checked(words: Iterable[str]) -> tuple[str, ...]:
    """Return the options; raise InputError for one that this package sets, or whose value fairseq runs as Python."""
    found: list[str] = []
    before = ""
    for word in words:
        name, equals, value = word.partition("=") if word.startswith("--") else (word[:2], "", "")  # -aARCH is -a ARCH
        if name in RESERVED:
            raise InputError(f"{name} is set by {RESERVED[name]}: leave it out of the options of fairseq-train")
        if name in EVALUATED:
            raise InputError(f"{name}: fairseq would run its value as Python: leave it out")
        if before == BETAS:
            found.append(betas(word))
        else:
            found.append(f"{BETAS}={betas(value)}" if name == BETAS and equals else word)
        before = word
    return tuple(found)


def betas(value: str) -> str:
    """Return the value of --adam-betas, such as ``[0.9, 0.98]``, as a tuple of two numbers: fairseq runs the text."""
    return repr(parse_pair("adam_betas", value.strip()))
