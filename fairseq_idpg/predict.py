"""Predictions for every example of a split: ``python -m fairseq_idpg.predict DATA-bin --path CHECKPOINT --out FILE``.

One line for each example, in the order of the data: the class and the probabilities of all classes, or the score.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Optional, Sequence

from preprocess.writing import check_output, write_output

from .errors import InputError, logged_command
from .inference.folder import load_on_folder, predict_split


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m fairseq_idpg.predict", description=(__doc__ or "").split("\n")[0])
    add = made.add_argument
    add("data", metavar="DATA-bin", help="binarized folder")
    add("--path", required=True, metavar="FILE", help="checkpoint of fairseq-train")
    add("--out", required=True, metavar="FILE", type=Path, help="tab-separated predictions")
    add("--split", default="test", help="default: test")
    add("--batch-size", type=int, default=64, metavar="N", help="default: 64")
    add("--backbone", metavar="FILE", help="where the backbone is now, if it has moved")
    add("--representation-cache", metavar="DIR", help="folder that keeps M(x) of every example")
    add("--cpu", action="store_true", help="do not use a GPU")
    return made


@logged_command()
def main(argv: Optional[Sequence[str]] = None) -> None:
    args = parser().parse_args(argv)
    if args.batch_size < 1:
        raise InputError(f"--batch-size {args.batch_size} is no size: give 1 or more")
    check_output(args.out, "--out")
    moved = {"backbone": args.backbone} if args.backbone else {}
    model, task = load_on_folder(
        args.path, args.data, args.cpu, representation_cache=args.representation_cache, **moved
    )
    start = time.perf_counter()
    found = predict_split(model, task, args.split, args.batch_size, progress=True)
    seconds = time.perf_counter() - start
    write_output(args.out, "".join(f"{line}\n" for line in found.lines()), "--out")
    count = len(found.outputs)
    print(f"{args.out}: {count:,} predictions of {args.split} in {seconds:.1f} s ({count / seconds:,.0f} a second)")


if __name__ == "__main__":
    sys.exit(main())
