"""Names of the task and of options, as they are typed."""

from dataclasses import field, fields, is_dataclass
from typing import Any

from fairseq.dataclass.configs import FairseqConfig

from preprocess.flags import flag_name

TASK = "sentence_prediction_idpg"
TRAIN = "train"  # splits whose names begin so have exchanged pairs, and questions that need not stay together
SECTIONS: list[Any] = [f.type for f in fields(FairseqConfig) if is_dataclass(f.type)]  # of fairseq's options


def documented(help: str, default: Any) -> Any:
    """Return a field of options with its help text."""
    return field(default=default, metadata={"help": help})


def as_typed(cfg: Any, name: str) -> str:
    """Return an option as it is typed: ``--prompt-length 5``, or ``--generator-residual``."""
    value = getattr(cfg, name)
    return flag_name(name) if value is True else f"{flag_name(name)} {value}"
