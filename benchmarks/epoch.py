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
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, installed or not

from epoch_runs import (
    GROUPED,
    METHODS,
    PREDICTIONS,
    REFERENCE,
    VARIANTS,
    Prediction,
    Setting,
    Training,
    encode,
    predict,
    train,
    training_figures,
)
from settings import check_folder, positive, write_json
from tqdm import tqdm

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError, command_line
from preprocess.flags import aligned

Rounds = dict[str, list[dict[str, Any]]]  # of each case
Cases = dict[str, dict[str, Any]]
Parts = dict[str, Cases]
CHECKPOINT = ("bytes", "write_s")
REFERENCES = {tool: Prediction(REFERENCE, tool).name for tool in ("predict", "validate")}


def medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each figure; one that is the same in all rounds, a count or a name, stays as it is."""
    columns = {name: [figures[name] for figures in rounds] for name in rounds[0]}
    return {name: found[0] if len(set(found)) == 1 else median(found) for name, found in columns.items()}


def parts(trained: list[Training], predicted: list[Prediction], rounds: Rounds, filled_s: float | None) -> Parts:
    """{part: {case: figures}}; ``filled_s``: the process that filled the warm cache beforehand."""
    figures = {case.name: medians(rounds[case.name]) for case in trained}
    epoch: Cases = {}
    for case in (case for case in trained if not case.brief):
        found = {name: value for name, value in figures[case.name].items() if name not in CHECKPOINT}
        found["examples_per_s"] = found["examples"] / found["epoch_s"]
        found["rounds_epoch_s"] = [one["epoch_s"] for one in rounds[case.name]]
        if case.cache == "warm":
            found["filled_beforehand_s"] = filled_s
        epoch[case.name] = found
    return {
        "epoch": epoch,
        "padding": {name: grouping(epoch, name) for name in epoch if name + GROUPED in epoch},
        "prediction": {case.name: prediction(case, rounds[case.name]) for case in predicted},
        "checkpoint": {
            case.name: {name: figures[case.name][name] for name in CHECKPOINT}
            for case in trained
            if case.brief or case.name == case.method
        },
    }


def grouping(epoch: Cases, name: str) -> dict[str, float]:
    drawn, grouped = epoch[name], epoch[name + GROUPED]
    return {
        "padding": drawn["padding"],
        "padding_grouped": grouped["padding"],
        "update_s": drawn["update_s"],
        "update_s_grouped": grouped["update_s"],
        "ratio": grouped["update_s"] / drawn["update_s"],
    }


def prediction(case: Prediction, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    found = medians(rounds)
    rates = {"examples_per_s": found["examples"] / found["seconds"]}
    rates["process_examples_per_s"] = found["examples"] / found["process_s"]
    return {"method": case.method, "tool": case.tool, **found, **rates, "rounds_s": [one["seconds"] for one in rounds]}


def ratio(cases: Cases, name: str, to: str, figure: str) -> str:
    return f"{cases[name][figure] / cases[to][figure]:.2f}" if to in cases else "-"


def epoch_table(cases: Cases) -> list[str]:
    one = next(iter(cases.values()))
    whole = one["updates"] == one["updates_per_epoch"]
    updates = "all" if whole else f"{one['updates']} of the"
    heading = f"training: {updates} {one['updates_per_epoch']} updates of an epoch of {one['examples']:,} examples"
    note = [] if whole else ["s/epoch and whole process are extrapolated to all, train_wall is of those that were run"]
    header = ["case", "s/update", "s/epoch", f"/ {REFERENCE}", "examples/s", "whole process", "train_wall"]
    rows = [
        [
            *(name, f"{found['update_s']:.3f}", f"{found['epoch_s']:.1f}", ratio(cases, name, REFERENCE, "epoch_s")),
            *(f"{found['examples_per_s']:.1f}", f"{found['process_epoch_s']:.1f}", f"{found['train_wall_s']:.0f}"),
        ]
        for name, found in cases.items()
    ]
    filled = [found["filled_beforehand_s"] for found in cases.values() if "filled_beforehand_s" in found]
    after = [f"fairseq_idpg.encode, which filled the warm cache beforehand: {seconds:.1f} s" for seconds in filled]
    return [heading, *note, *aligned([header, *rows]), *after]


def padding_table(cases: Cases) -> list[str]:
    header = ["--group-by-length", "padding without", "with", "s/update without", "with", "ratio"]
    rows = [
        [
            *(name, f"{found['padding']:.1%}", f"{found['padding_grouped']:.1%}"),
            *(f"{found['update_s']:.3f}", f"{found['update_s_grouped']:.3f}", f"{found['ratio']:.2f}"),
        ]
        for name, found in cases.items()
    ]
    return ["padding of all batches of the epoch, and seconds of the updates that were run", *aligned([header, *rows])]


def prediction_table(cases: Cases) -> list[str]:
    one = next(iter(cases.values()))
    heading = f"prediction of {one['split']}, {one['examples']:,} examples: seconds from loading the data to the result"
    header = ["case", "s", f"/ {REFERENCE}", "examples/s", "whole process", "its examples/s"]
    rows = [
        [
            *(name, f"{found['seconds']:.2f}", ratio(cases, name, REFERENCES[found["tool"]], "seconds")),
            *(f"{found['examples_per_s']:.1f}", f"{found['process_s']:.1f}", f"{found['process_examples_per_s']:.1f}"),
        ]
        for name, found in cases.items()
    ]
    return [heading, *aligned([header, *rows])]


def checkpoint_table(cases: Cases) -> list[str]:
    header = ["checkpoint", "bytes", f"/ {REFERENCE}", "s to write"]
    rows = [
        [name, f"{found['bytes']:,}", ratio(cases, name, REFERENCE, "bytes"), f"{found['write_s']:.3f}"]
        for name, found in cases.items()
    ]
    return aligned([header, *rows])


TABLES: dict[str, Callable[[Cases], list[str]]] = {
    "epoch": epoch_table,
    "padding": padding_table,
    "prediction": prediction_table,
    "checkpoint": checkpoint_table,
}


def tables(found: Parts) -> list[str]:
    """One for each part that has cases."""
    return [line for part, make in TABLES.items() if found[part] for line in ("", *make(found[part]))]


class Folder:
    """The runs on one data folder: their figures in ``rounds``, their files below ``work``, a new folder."""

    def __init__(self, data: DataFolder, split: str, methods: list[str], setting: Setting, work: Path):
        self.data, self.split, self.setting, self.work = data, split, setting, work
        # a training of each method, then the variants of those chosen
        self.trainings = [*(Training(name, name) for name in methods), *(c for c in VARIANTS if c.method in methods)]
        self.predictions = [case for case in PREDICTIONS if case.method in methods]
        self.warm, self.cold = work / "warm", work / "cold"
        cases: list[Training | Prediction] = [*self.trainings, *self.predictions]
        self.rounds: Rounds = {case.name: [] for case in cases}
        self.filled_s: float | None = None
        work.mkdir()

    def prepare(self) -> None:
        """Fill the warm cache, if a case reads it."""
        if any(case.cache == "warm" for case in self.trainings):
            splits = list(dict.fromkeys(["train", self.split]))
            self.filled_s = encode(self.data, splits, self.warm, self.setting).seconds

    def run(self, case: Training | Prediction) -> None:
        """Run a case once more and keep its figures; an InputError names it."""
        try:
            figures = self._train(case) if isinstance(case, Training) else self._predict(case)
        except InputError as error:
            raise InputError(f"{case.name} on {self.data.path} failed: {error}") from None
        self.rounds[case.name].append(figures)

    def parts(self) -> Parts:
        return parts(self.trainings, self.predictions, self.rounds, self.filled_s)

    def _train(self, case: Training) -> dict[str, Any]:
        cache = {"cold": self.cold, "warm": self.warm}.get(case.cache)
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            output = train(case, self.data, Path(folder), cache, self.setting)
            checkpoint = Path(folder, "checkpoint_last.pt")
            figures = {"method": case.method, **training_figures(output, checkpoint)}
            if case.name in {wanted.method for wanted in self.predictions}:
                os.replace(checkpoint, self.work / f"{case.name}.pt")
        shutil.rmtree(self.cold, ignore_errors=True)
        return figures

    def _predict(self, case: Prediction) -> dict[str, Any]:
        checkpoint = self.work / f"{case.method}.pt"
        return predict(case, self.data, self.split, checkpoint, self.warm, self.setting)


def measure(folders: list[Folder], rounds: int) -> None:
    """Run trainings, then predictions with their checkpoints, in each round; every other round in reverse order."""
    training = [(folder, case) for folder in folders for case in folder.trainings]
    prediction = [(folder, case) for folder in folders for case in folder.predictions]
    with tqdm(total=rounds * len(training + prediction), unit=" runs", disable=None, leave=False) as bar:
        for folder in folders:
            folder.prepare()
        for number in range(rounds):
            step = -1 if number % 2 else 1
            runs: list[tuple[Folder, Training | Prediction]] = [*training[::step], *prediction[::step]]
            for folder, case in runs:
                bar.set_description(f"{folder.data.path.name} {case.name}")
                folder.run(case)
                bar.update()


def merged(folders: list[Folder]) -> Parts:
    """Return the parts of all folders; cases are named FOLDER/CASE where there are several."""
    found = {folder.data.path.name: folder.parts() for folder in folders}
    if len(found) == 1:
        return found.popitem()[1]
    return {
        part: {f"{name}/{case}": figures for name, of in found.items() for case, figures in of[part].items()}
        for part in next(iter(found.values()))
    }


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
    positive(args, "updates", "batch_size", "rounds", "threads")
    check_folder("--json", args.json)
    updates, options = None if args.whole_epochs else args.updates, tuple(args.options)
    setting = Setting(args.backbone.resolve(), args.arch, args.batch_size, updates, args.threads, args.cpu, options)
    methods = list(dict.fromkeys(args.methods or METHODS))
    chosen = [folder_and_split(path.resolve(), args.split) for path in args.data]
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
