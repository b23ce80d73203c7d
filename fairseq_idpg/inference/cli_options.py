"""The options with which a command names what was trained, and the model that they name."""

import argparse
from typing import Any

from ..errors import InputError
from .load import open_checkpoint, open_many
from .many import ManyTasks
from .predictor import Predictor
from .sharing import name_and_path

READING = ("backbone", "vocab", "vectors", "fp16", "truncate", "int8")  # arguments of ``open_checkpoint``


def add_model_options(parser: Any) -> None:
    """Which checkpoints, and on what they are run."""
    add = parser.add_argument
    what = "checkpoint of fairseq-train, or a folder to share; of several on one backbone NAME=FILE names the task"
    add("--path", required=True, nargs="+", action="extend", metavar="FILE", help=what)
    add("--backbone", metavar="FILE", help="where the backbone is now, if it has moved")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--int8", action="store_true", help="compute in int8, on a CPU: faster, with other rounding")


def add_reading_options(parser: Any) -> None:
    """How sentences are read."""
    add = parser.add_argument
    add("--vocab", metavar="DIR", help="where the encoder's files are now, if they have moved")
    add("--vectors", metavar="FILE", help="word vectors, for methods that read them")
    add("--truncate", action="store_true", help="cut texts that are too long at their ends")
    add("--fp16", action="store_true", help="half precision, on a GPU")


def open_model(args: argparse.Namespace) -> Predictor | ManyTasks:
    """The model of --path, or the tasks of several.

    Raises:
        InputError: see ``load``.
    """
    options = {name: getattr(args, name) for name in READING}
    options["device"] = "cpu" if args.cpu else None
    if len(args.path) == 1:
        name, path = name_and_path(args.path[0])
        if name is not None:
            raise InputError(f"--path {args.path[0]}: a single checkpoint has no name: give {path}")
        return open_checkpoint(path, "--path", **options)
    return open_many(map(name_and_path, args.path), "--path", **options)
