"""Fills a representation cache before training: ``python -m fairseq_idpg.encode DATA-bin --backbone model.pt ...``.

The rows are those that fairseq-train finds with the same --representation-cache, --max-positions, --shorten-method,
--separator-token, --swap-pairs and --fp16 or --bf16 (neither for --amp); a run that finds its rows neither computes nor
waits.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from preprocess.data_folder import DataFolder

from .errors import InputError, logged_command
from .inference.encode import encode, model_options

KINDS = ("backbone", "mean-pooled", "token-mean")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m fairseq_idpg.encode", description=(__doc__ or "").split(":")[0])
    add = made.add_argument
    add("data", metavar="DATA-bin", nargs="+", help="binarized folders")
    add("--backbone", required=True, metavar="FILE", help="the model.pt of the training runs")
    add("--representation-cache", required=True, metavar="DIR", help="folder of the rows")
    add("--representation-cache-dtype", choices=["float32", "float16"], default="float32", help="default: float32")
    add("--representation", choices=KINDS, default="backbone", help="default: backbone, which previous-layer reads too")
    add("--splits", nargs="+", action="extend", metavar="SPLIT", help="default: all that have labels")
    add("--separator-token", type=int, default=2, metavar="N", help="default: 2")
    add("--max-positions", type=int, default=512, metavar="N", help="default: 512")
    add("--shorten-method", choices=["none", "truncate"], default="none", help="default: none")
    room = (
        "rows of the prompt in the input, 2 more at --prompt-position 4, 0 for keys and values, late rows and a head "
        "on M(x): matters where examples are cut (default: 5)"
    )
    add("--prompt-length", type=int, default=5, metavar="N", help=room)
    add("--swap-pairs", choices=["none", "append"], default="none", help="default: none")
    half = made.add_mutually_exclusive_group()
    for option, precision in (("--fp16", torch.float16), ("--bf16", torch.bfloat16)):
        half.add_argument(
            option,
            action="store_const",
            dest="precision",
            const=precision,
            default=torch.float32,
            help=f"rows for runs with {option}",
        )
    add("--cpu", action="store_true", help="do not use a GPU")
    return made


@logged_command()
def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    if not args.representation_cache:
        raise InputError("--representation-cache is empty: name a folder")
    options = model_options(args)
    for path in args.data:
        encode(DataFolder(Path(path)), args, argparse.Namespace(**vars(options)))


if __name__ == "__main__":
    sys.exit(main())
