"""Further options of fairseq-train: from a command line, or from a file that somebody else may have written."""

from __future__ import annotations

from typing import Iterable, Sequence

from fairseq_idpg.models.architectures import SIZES
from fairseq_idpg.optim.choices import parse_pair
from preprocess.errors import InputError
from preprocess.flags import flag_name

from .keys import one_of

# Options of fairseq-train that are set here -> what sets them, as an option of train.py and a key of a sweep.
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
    **dict.fromkeys(("--checkpoint-suffix", "--train-subset", "--log-format"), "the scripts, which read what is left"),
}
RESERVED |= {"--max-sentences": RESERVED["--batch-size"], "-a": RESERVED["--arch"]}  # fairseq's other names of them
# Options whose text fairseq runs as Python (``eval``), but for --adam-betas. Other architectures have more of them.
PIPELINE = [f"--pipeline-{part}{what}" for part in ("", "encoder-", "decoder-") for what in ("balance", "devices")]
EVALUATED = ("--adamax-betas", "--adafactor-eps", "--lamb-betas", "--model-overrides", "--wer-args", *PIPELINE)
BETAS = "--adam-betas"
architecture = one_of(("roberta_idpg", *SIZES))


def checked(words: Iterable[str]) -> tuple[str, ...]:
    """The options as they are passed on: fairseq runs none of them as Python, whoever wrote them.

    Raises:
        InputError: naming an option that this package sets itself, or that fairseq would run, and what to give instead.
    """
    words = tuple(words)
    for word in words:
        name = word.partition("=")[0] if word.startswith("--") else word[:2]  # -aARCH is -a ARCH
        if "\0" in word:
            raise InputError(f"option {word!r} holds a NUL character: leave it out")
        if name in RESERVED:
            raise InputError(f"{name} is set by {RESERVED[name]}: leave it out of the options of fairseq-train")
        if name in EVALUATED:
            raise InputError(f"{name}: fairseq would run its value as Python: leave it out")
    return tuple(_plain_betas(words))


def _plain_betas(words: Sequence[str]) -> Iterable[str]:
    """--adam-betas, which fairseq runs as well, are two numbers and nothing else."""
    value_comes = False
    for word in words:
        name, equals, value = word.partition("=")
        if value_comes:
            yield betas(word)
        elif name == BETAS and equals:
            yield f"{BETAS}={betas(value)}"
        else:
            yield word
        value_comes = not value_comes and word == BETAS


def betas(value: str) -> str:
    """The two numbers of a text, such as ``[0.9, 0.98]``, as fairseq reads them: ``(0.9, 0.98)``."""
    return repr(parse_pair("adam_betas", value.strip()))
