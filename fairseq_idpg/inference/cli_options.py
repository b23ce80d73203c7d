"""The options with which a command names what was trained, and the model that they name."""

import argparse
import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from preprocess.flags import flag_name

from ..errors import InputError
from .load import open_checkpoint, open_many
from .many import ManyTasks
from .predictor import Predictor

READING = ("backbone", "vocab", "vectors", "fp16", "truncate", "int8")  # arguments of ``open_checkpoint``


def add_model_options(parser: Any) -> None:
    """Add which checkpoints, and on what they are run."""
    add = parser.add_argument
    what = "checkpoint of fairseq-train, or a folder to share; of several on one backbone NAME=FILE names the task"
    add("--path", required=True, nargs="+", action="extend", metavar="FILE", help=what)
    add("--backbone", metavar="FILE", help="where the backbone is now, if it has moved")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--int8", action="store_true", help="compute in int8, on a CPU: faster, with other rounding")


def add_reading_options(parser: Any) -> None:
    """Add how sentences are read."""
    add = parser.add_argument
    add("--vocab", metavar="DIR", help="where the encoder's files are now, if they have moved")
    add("--vectors", metavar="FILE", help="word vectors, for methods that read them")
    add("--truncate", action="store_true", help="cut texts that are too long at their ends")
    add("--fp16", action="store_true", help="half precision, on a GPU")


def name_and_path(text: str) -> tuple[str | None, str]:
    """Return the task's name, if one is given, and the file of ``NAME=FILE`` or ``FILE``."""
    name, given, path = text.partition("=")
    if given and name and os.sep not in name and not os.path.exists(text):
        return name, path
    return None, text


@contextlib.contextmanager
def as_typed(args: argparse.Namespace) -> Iterator[None]:
    """Around calls of the library, whose errors name arguments in Python: `vocab` becomes --vocab, and so on."""
    try:
        yield
    except InputError as error:
        message = re.sub(r"`(\w+)`", lambda name: flag_name(name[1]), str(error))
        for _, path in map(name_and_path, args.path):
            message = message.replace(f"checkpoint {path}", f"--path {path}")
        raise InputError(message) from None


def open_model(args: argparse.Namespace) -> Predictor | ManyTasks:
    """Return the model of --path, or the tasks of several, also of one that is given a name; see ``load``."""
    options = {name: getattr(args, name) for name in READING}
    options["device"] = "cpu" if args.cpu else None
    (name, path), *others = map(name_and_path, args.path)
    with as_typed(args):
        if name is None and not others:
            return open_checkpoint(path, **options)
        return open_many([(name, path), *others], **options)
