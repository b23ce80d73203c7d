"""Seconds of whole runs on real data: epochs, predictions, checkpoints of the methods, through the command line.

    python benchmarks/epoch.py quickstart/reviews-bin --backbone quickstart/backbone/model.pt \\
        [--methods m-idpg-phm prompt-tuning ...] [--updates N | --whole-epochs] [--rounds 2] [--cpu] [--json FILE]

Four parts: time of a training epoch (each method; m-idpg-phm with a representation cache filled in the run, cold, or
before by fairseq_idpg.encode, warm; with --group-by-length), padding with and without --group-by-length, predictions
beside fairseq-validate, and checkpoints. Every figure is of a process of its own, started as a user does; cases take
turns and figures are medians over the rounds. Of a long epoch only --updates are run and the rest is extrapolated.

Seconds are those at which lines of fairseq's log arrive, since its own train_wall is in whole seconds. An epoch is
measured without the validation that follows. FILE: {part: {case: {...}}}, a case FOLDER/CASE where there are two
folders.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, installed or not

from epoch_cases import METHODS, REFERENCE
from epoch_folder import Folder, measure, merged
from epoch_report import tables
from epoch_runs import Setting, check_methods
from step_measure import check_folder, write_json

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError, command_line
from preprocess.flags import flag_name


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("data", nargs="+", type=Path, metavar="DATA-bin", help="binarized folders")
    add("--backbone", type=Path, required=True, metavar="FILE", help="model.pt")
    add("--arch", default="roberta_idpg_minilm", help="default: roberta_idpg_minilm")
    add("--methods", nargs="+", action="extend", metavar="METHOD", help=f"default: {' '.join(METHODS)}")
    add("--updates", type=int, default=16, metavar="N", help="of each training, if the epoch has more (default 16)")
    add("--whole-epochs", action="store_true", help="all updates of an epoch")
    add("--batch-size", type=int, default=16, metavar="N", help="of training (default 16); prediction has 64")
    add("--split", metavar="NAME", help="to predict (default: test, where it has labels, or else valid)")
    add("--rounds", type=int, default=2, metavar="N", help="default 2")
    add("--threads", type=int, default=2, metavar="N", help="of each process (default 2)")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--json", type=Path, metavar="FILE", help="save the figures")
    add("--options", nargs=argparse.REMAINDER, default=[], help="further options of every fairseq-train")
    return parser.parse_args(arguments)


def check(args: argparse.Namespace) -> list[tuple[DataFolder, str]]:
    """The folders, each with its split to predict.

    Raises:
        InputError: numbers, files or folders that cannot be measured.
    """
    for name, least in (("updates", 2), ("batch_size", 1), ("rounds", 1), ("threads", 1)):
        if getattr(args, name) < least:
            raise InputError(f"{flag_name(name)} {getattr(args, name)} is too small: give {least} or more")
    if not args.backbone.is_file():
        raise InputError(f"--backbone {args.backbone} is not a file: give a fairseq RoBERTa model.pt")
    check_folder("--json", args.json)
    if args.json and args.json.is_dir():
        raise InputError(f"--json {args.json} is a folder: name a file")
    names = [path.resolve().name for path in args.data]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{name} is the name of two folders: give folders whose names differ")
    return [folder_and_split(path.resolve(), args.split) for path in args.data]


def folder_and_split(path: Path, wanted: str | None) -> tuple[DataFolder, str]:
    data = DataFolder(path)
    labelled = [split for split in data.splits if data.has_labels(split)]
    split = wanted or next((name for name in ("test", "valid") if name in labelled), "valid")
    for name in ("train", split):
        if name not in labelled:
            known = ", ".join(labelled) or "none"
            raise InputError(f"{path} has no split {name} with labels (it has {known}): preprocess it, or give --split")
    return data, split


@command_line("error", "nothing is kept")
def main(arguments: list[str] | None = None) -> None:
    args = parse(sys.argv[1:] if arguments is None else arguments)
    updates, options = None if args.whole_epochs else args.updates, tuple(args.options)
    setting = Setting(args.backbone.resolve(), args.arch, args.batch_size, updates, args.threads, args.cpu, options)
    methods = list(dict.fromkeys(args.methods or METHODS))
    chosen = check(args)
    check_methods(methods, args.threads)
    with tempfile.TemporaryDirectory(prefix="epoch-") as work:
        folders = [Folder(data, split, methods, setting, Path(work, data.path.name)) for data, split in chosen]
        measure(folders, args.rounds)
    print(f"{args.arch}, batch {args.batch_size}, {args.threads} threads, rounds: {args.rounds} (medians); ", end="")
    print(f"ratios are of seconds or bytes to {REFERENCE}'s")
    for folder in folders:
        print("\n".join([f"\n{folder.data.path.name}", *tables(folder.parts())]))
    if args.json:
        write_json(args.json, merged(folders))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that temporary folders are removed
    main()
