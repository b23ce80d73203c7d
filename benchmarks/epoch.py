"""Seconds of a training epoch on real data, and bytes of checkpoints, through the command line.

    python benchmarks/epoch.py quickstart/reviews-bin --backbone quickstart/backbone/model.pt --updates 8 --cpu

Measured are each method; m-idpg-phm with a representation cache, filled in the run (cold) or before it by
fairseq_idpg.encode (warm), and with other files of checkpoints; --group-by-length. Every case is a process; cases take
turns, and figures are medians over the rounds. Only --updates of an epoch are run, and the rest is extrapolated.

Seconds are those at which lines of fairseq's log arrive, since its train_wall is in whole seconds. FILE holds {case:
{...}}.
"""

import argparse
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from common import ROOT, Finished, make_parser, parse, run_process, take_turns, write_json

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError, command_line
from preprocess.flags import aligned

METHODS = ("m-idpg-phm", "prompt-tuning", "p-tuning-v2", "adapter", "compacter", "fine-tuning")
REFERENCE = "prompt-tuning"  # what ratios are taken to
POSITIONS = ("--max-positions", "512", "--shorten-method", "truncate")
HEADER = f"case|s/update|s/epoch|/ {REFERENCE}|examples/s|padding|bytes|s to write"
ROW = "{update_s:.3f}|{epoch_s:.1f}|{ratio}|{examples_per_s:.1f}|{padding:.1%}|{bytes:,.0f}|{write_s:.3f}"
Figures = dict[str, float]  # of one run, or medians of several


class Case(NamedTuple):
    """A training of a method, with further options."""

    method: str
    options: tuple[str, ...] = ()
    cache: str = ""  # of representations: cold is filled in the run, warm was filled before by encode


VARIANTS = {
    "m-idpg-phm-cache-cold": Case("m-idpg-phm", cache="cold"),
    "m-idpg-phm-cache-warm": Case("m-idpg-phm", cache="warm"),
    "m-idpg-phm-grouped": Case("m-idpg-phm", ("--group-by-length",)),
    "prompt-tuning-grouped": Case("prompt-tuning", ("--group-by-length",)),
    "m-idpg-phm-no-optimizer-state": Case("m-idpg-phm", ("--no-save-optimizer-state",)),
    "m-idpg-phm-full-model": Case("m-idpg-phm", ("--save-full-model",)),
}


def training_figures(done: Finished, checkpoint: Path) -> Figures:
    """Return seconds of the epoch, from its beginning (where a cache is filled) to its last update, and sizes.

    The first update, which loads and allocates more than the others, counts once in an epoch however few are run.
    """
    begin, _ = done.first("begin training epoch 1")
    ends = [seconds for seconds, _ in done.all(r"\| train_inner \| \{")]
    if len(ends) < 2:
        raise InputError(f"{len(ends)} updates are too few to be timed: give more data or a smaller --batch-size")
    _, planned = done.first(r"([\d,]+) batches, ([\d.]+)% of their tokens are padding")
    _, examples = done.first(r"Loaded train with #samples: (\d+)")
    _, written = done.first(r"writing took ([\d.e-]+) seconds")
    per_epoch, update = int(planned[1].replace(",", "")), (ends[-1] - ends[0]) / (len(ends) - 1)
    epoch = ends[0] - begin + (per_epoch - 1) * update
    return {
        "updates": len(ends),
        "updates_per_epoch": per_epoch,
        "examples": int(examples[1]),
        "examples_per_s": int(examples[1]) / epoch,
        "padding": float(planned[2]) / 100,
        "update_s": update,
        "epoch_s": epoch,
        "bytes": checkpoint.stat().st_size,
        "write_s": float(written[1]),
    }


def train(case: Case, args: argparse.Namespace, data: DataFolder, caches: Path) -> Figures:
    """Train a case, and return its figures. Raises InputError where it fails or does not use its cache."""
    classes = ["1", "--regression-target"] if data.regression else [str(len(data.label_names))]
    with TemporaryDirectory() as folder:
        command = [
            *(str(Path(sys.executable).with_name("fairseq-train")), str(data.path)),
            *("--user-dir", str(ROOT / "fairseq_idpg"), "--task", "sentence_prediction_idpg"),
            *("--criterion", "sentence_prediction", "--num-classes", *classes, "--init-token", "0"),
            *("--separator-token", "2", *POSITIONS, "--required-batch-size-multiple", "1"),
            *("--distributed-world-size", "1", "--num-workers", "0", "--log-format", "json"),
            *("--arch", args.arch, "--method", case.method, *["--cpu"] * args.cpu),
            *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6", "--weight-decay", "0.1"),
            *("--backbone", str(args.backbone), "--lr", "1e-4", "--lr-scheduler", "fixed", "--seed", "1"),
            *("--batch-size", str(args.batch_size), "--max-epoch", "1", "--max-update", str(args.updates)),
            *("--log-interval", "1", "--disable-validation", "--no-epoch-checkpoints", "--save-dir", folder),
            *(*(["--representation-cache", str(caches / case.cache)] if case.cache else []), *case.options),
            *args.options,
        ]
        done = run_process(command, args.threads)
        filled = bool(done.all(r"split \S+: M\(x\) of"))
        if case.cache and filled != (case.cache == "cold"):
            raise InputError(f"the {case.cache} representation cache was not used: do --options change its rows?")
        shutil.rmtree(caches / "cold", ignore_errors=True)
        return training_figures(done, Path(folder, "checkpoint_last.pt"))


@command_line("error", "nothing is kept")
def main() -> None:
    parser = make_parser(
        __doc__,
        updates=(16, "updates of each training, if the epoch has more"),
        batch_size=(16, "examples of a batch"),
        rounds=(2, "rounds"),
        threads=(2, "threads of each process"),
    )
    add = parser.add_argument
    add("data", type=Path, metavar="DATA-bin", help="a binarized folder")
    add("--backbone", type=Path, required=True, metavar="FILE", help="model.pt")
    add("--arch", default="roberta_idpg_minilm", help="default: roberta_idpg_minilm")
    add("--methods", nargs="+", action="extend", metavar="METHOD", help=f"default: {' '.join(METHODS)}")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--options", nargs=argparse.REMAINDER, default=[], help="further options of every fairseq-train")
    args = parse(parser)
    args.backbone = args.backbone.resolve()
    data, methods = DataFolder(args.data.resolve()), args.methods or METHODS
    cases = {name: Case(name) for name in methods}
    cases |= {name: case for name, case in VARIANTS.items() if case.method in methods}
    with TemporaryDirectory(prefix="epoch-") as folder:
        caches = Path(folder)
        if "m-idpg-phm-cache-warm" in cases:
            words = [str(data.path), "--backbone", str(args.backbone), "--representation-cache", str(caches / "warm")]
            words += [*POSITIONS, "--splits", "train", *["--cpu"] * args.cpu]
            filled = run_process([sys.executable, "-m", "fairseq_idpg.encode", *words], args.threads)
            print(f"fairseq_idpg.encode, which fills the warm cache: {filled.wall:.1f} s", flush=True)
        trainings = {name: partial(train, case, args, data, caches) for name, case in cases.items()}
        measured = take_turns(trainings, args.rounds, "trainings")
    figures = {
        name: {key: median(each[key] for each in rounds) for key in rounds[0]} for name, rounds in measured.items()
    }
    rows = [HEADER.split("|")]
    for name, found in figures.items():
        ratio = f"{found['epoch_s'] / figures[REFERENCE]['epoch_s']:.2f}" if REFERENCE in figures else "-"
        rows.append([name, *ROW.format(**found, ratio=ratio).split("|")])
    print(f"{args.arch}, batch {args.batch_size}, {args.threads} threads, medians of {args.rounds} rounds")
    print(f"{found['updates']:.0f} of the {found['updates_per_epoch']:.0f} updates of an epoch")
    print("\n".join(["", *aligned(rows)]))
    write_json(args.json, figures)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that temporary folders are removed
    main()
