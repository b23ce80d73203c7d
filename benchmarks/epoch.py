"""Seconds of whole runs on real data: epochs, predictions, checkpoints of the methods, through the command line.

    python benchmarks/epoch.py quickstart/reviews-bin --backbone quickstart/backbone/model.pt --updates 8 --cpu

Three parts: time of a training epoch (each method; m-idpg-phm with a representation cache filled in the run, cold, or
before by fairseq_idpg.encode, warm; with --group-by-length), predictions, and checkpoints. Every case is a process;
cases take turns, and figures are medians over the rounds. Of a long epoch only --updates are run and the rest is
extrapolated: s/epoch and whole process, not train_wall.

Seconds are those at which lines of fairseq's log arrive, since its train_wall is in whole seconds. Validation does not
count, nor does the rest of a process in the seconds of a prediction: they begin when the model is in memory. FILE holds
{part: {case: {...}}}.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from common import ROOT, Finished, make_parser, parse, run_process, take_turns, write_json

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError, command_line
from preprocess.flags import aligned

METHODS = ("m-idpg-phm", "prompt-tuning", "p-tuning-v2", "adapter", "compacter", "fine-tuning")
REFERENCE = "prompt-tuning"  # what ratios are taken to
POSITIONS = ("--max-positions", "512", "--shorten-method", "truncate")
BRIEF = 2  # updates
TABLES = {  # of each part: its title, what its ratios compare, the header, what stands behind the name of a case
    "epoch": (
        "training: {updates} of the {updates_per_epoch} updates of an epoch of {examples:,} examples",
        "epoch_s",
        f"case|s/update|s/epoch|/ {REFERENCE}|examples/s|whole process|train_wall|padding",
        "{update_s:.3f}|{epoch_s:.1f}|{ratio}|{examples_per_s:.1f}|{process_epoch_s:.1f}|{train_wall_s:.0f}"
        "|{padding:.1%}",
    ),
    "prediction": (
        "prediction of {split}, {examples:,} examples",
        "seconds",
        f"case|s|/ {REFERENCE}|examples/s|whole process",
        "{seconds:.2f}|{ratio}|{examples_per_s:.1f}|{process_s:.1f}",
    ),
    "checkpoint": (
        "checkpoints",
        "bytes",
        f"checkpoint|bytes|/ {REFERENCE}|s to write",
        "{bytes:,}|{ratio}|{write_s:.3f}",
    ),
}
Figures = dict[str, Any]  # of one run, or medians of several


@dataclass(frozen=True)
class Case:
    """A training or a prediction."""

    name: str
    method: str  # what is trained, or whose last checkpoint predicts
    predicts: bool = False
    options: tuple[str, ...] = ()  # besides those that all runs have
    cache: str = ""  # of representations: cold is filled in the run, warm was filled before by encode
    brief: bool = False  # two updates are enough, for only the checkpoint counts


VARIANTS = (
    Case("m-idpg-phm-cache-cold", "m-idpg-phm", cache="cold"),
    Case("m-idpg-phm-cache-warm", "m-idpg-phm", cache="warm"),
    Case("m-idpg-phm-grouped", "m-idpg-phm", options=("--group-by-length",)),
    Case("prompt-tuning-grouped", "prompt-tuning", options=("--group-by-length",)),
    Case("m-idpg-phm-no-optimizer-state", "m-idpg-phm", options=("--no-save-optimizer-state",), brief=True),
    Case("m-idpg-phm-full-model", "m-idpg-phm", options=("--save-full-model",), brief=True),
    Case("m-idpg-phm-predict", "m-idpg-phm", predicts=True),
    Case("m-idpg-phm-predict-cached", "m-idpg-phm", predicts=True, cache="warm"),
    Case("prompt-tuning-predict", "prompt-tuning", predicts=True),
)


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
    _, logged = done.first(r"\| train \| (\{.*\})")
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
        "train_wall_s": float(json.loads(logged[1])["train_train_wall"]),
        "process_epoch_s": done.wall + (per_epoch - len(ends)) * update,
        "bytes": checkpoint.stat().st_size,
        "write_s": float(written[1]),
    }


class Runs:
    """The runs on the data; their files lie below ``work``."""

    def __init__(self, args: argparse.Namespace, work: Path):
        self.data, self.args, self.work = DataFolder(args.data.resolve()), args, work
        has_test = "test" in self.data.splits and self.data.has_labels("test")
        self.split = args.split or ("test" if has_test else "valid")
        methods = list(dict.fromkeys(args.methods or METHODS))
        self.cases = [Case(method, method) for method in methods]
        self.cases += [case for case in VARIANTS if case.method in methods]
        self.device = ["--cpu"] if args.cpu else []

    def measure(self) -> dict[Case, list[Figures]]:
        """Fill the warm cache, if a case reads it, then run the trainings, then what reads their checkpoints."""
        if any(case.cache == "warm" for case in self.cases):
            words = [str(self.data.path), "--backbone", str(self.args.backbone), *self.cached("warm"), *POSITIONS]
            words += ["--splits", *dict.fromkeys(["train", self.split]), *self.device]
            filled = self.call([sys.executable, "-m", "fairseq_idpg.encode", *words])
            print(f"fairseq_idpg.encode, which fills the warm cache: {filled.wall:.1f} s", flush=True)
        figures: dict[Case, list[Figures]] = {}
        for title, run in (("trainings", self.train), ("predictions", self.predict)):
            cases = {case.name: case for case in self.cases if case.predicts == (title == "predictions")}
            rounds = take_turns({name: partial(run, case) for name, case in cases.items()}, self.args.rounds, title)
            figures |= {cases[name]: runs for name, runs in rounds.items()}
        return figures

    def train(self, case: Case) -> Figures:
        args, data, updates = self.args, self.data, BRIEF if case.brief else self.args.updates
        classes = ["1", "--regression-target"] if data.regression else [str(len(data.label_names))]
        with TemporaryDirectory(dir=self.work) as folder:
            command = [
                *(str(Path(sys.executable).with_name("fairseq-train")), str(data.path)),
                *("--user-dir", str(ROOT / "fairseq_idpg"), "--task", "sentence_prediction_idpg"),
                *("--criterion", "sentence_prediction", "--num-classes", *classes, "--init-token", "0"),
                *("--separator-token", "2", *POSITIONS, "--required-batch-size-multiple", "1"),
                *("--distributed-world-size", "1", "--num-workers", "0", "--log-format", "json", *self.device),
                *("--arch", args.arch, "--method", case.method),
                *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6", "--weight-decay", "0.1"),
                *("--backbone", str(args.backbone), "--lr", "1e-4", "--lr-scheduler", "fixed", "--seed", "1"),
                *("--batch-size", str(args.batch_size), "--max-epoch", "1", "--max-update", str(updates)),
                *("--log-interval", "1", "--disable-validation", "--no-epoch-checkpoints", "--save-dir", folder),
                *(*self.cached(case.cache), *case.options, *args.options),
            ]
            done = self.call(command, case)
            checkpoint = Path(folder, "checkpoint_last.pt")
            figures = training_figures(done, checkpoint)
            if case.name == case.method:
                os.replace(checkpoint, self.work / f"{case.name}.pt")
        shutil.rmtree(self.work / "cold", ignore_errors=True)
        return figures

    def predict(self, case: Case) -> Figures:
        """Return seconds from loading the data, with the model in memory, to the result; and of the whole process."""
        checkpoint = self.work / f"{case.method}.pt"
        options = ["--path", str(checkpoint), "--batch-size", "64", *self.cached(case.cache), *self.device]
        options += ["--split", self.split, "--out", str(checkpoint.with_suffix(".tsv"))]
        done = self.call([sys.executable, "-m", "fairseq_idpg.predict", str(self.data.path), *options], case)
        begin, loaded = done.first(r"loaded ([\d,]+) examples from")
        end, _ = done.first(rf"predictions of {self.split} in")
        examples, seconds = int(loaded[1].replace(",", "")), end - begin
        return {
            "split": self.split,
            "examples": examples,
            "examples_per_s": examples / seconds,
            "seconds": seconds,
            "process_s": done.wall,
        }

    def cached(self, cache: str) -> list[str]:
        return ["--representation-cache", str(self.work / cache)] if cache else []

    def call(self, command: list[str], case: Case | None = None) -> Finished:
        """Run a process. Raises InputError, which names the case, where it fails or does not use its cache."""
        try:
            done = run_process(command, self.args.threads)
        except InputError as error:
            raise InputError(f"{case.name if case else 'encode'} on {self.data.path} failed: {error}") from None
        filled = bool(done.all(r"split \S+: M\(x\) of"))
        if case and case.cache and filled != (case.cache == "cold"):
            how = "computed" if filled else "did not compute"
            raise InputError(f"{case.name} {how} the rows of the representation cache: do --options change them?")
        return done


def parts_of(measured: dict[Case, list[Figures]]) -> dict[str, dict[str, Figures]]:
    """Return {part: {case: figures}}: medians of the rounds, and what the part compares of each round."""
    parts: dict[str, dict[str, Figures]] = {part: {} for part in TABLES}
    for case, rounds in measured.items():
        columns = {name: [figures[name] for figures in rounds] for name in rounds[0]}
        # what is the same in all rounds, a count or a name, stays as it is
        figures = {name: each[0] if len(set(each)) == 1 else median(each) for name, each in columns.items()}
        belongs = {
            "epoch": not case.predicts and not case.brief,
            "prediction": case.predicts,
            "checkpoint": case.brief or case.name == case.method,
        }
        for part in filter(belongs.get, TABLES):
            parts[part][case.name] = {**figures, "rounds": columns[TABLES[part][1]]}
    return parts


def tables(parts: dict[str, dict[str, Figures]]) -> list[str]:
    """Return the table of each part that has cases; ``-`` where the reference is not among them."""
    lines: list[str] = []
    for part, cases in parts.items():
        title, compared, header, cells = TABLES[part]
        rows = [header]
        for name, figures in cases.items():
            reference = cases.get(f"{REFERENCE}-predict" if part == "prediction" else REFERENCE)
            ratio = f"{figures[compared] / reference[compared]:.2f}" if reference else "-"
            rows.append(f"{name}|{cells.format(**figures, ratio=ratio)}")
        if cases:
            lines += ["", title.format(**figures), *aligned([row.split("|") for row in rows])]
    return lines


def parse_options() -> argparse.Namespace:
    parser = make_parser(
        __doc__,
        updates=(16, "updates of each training, if the epoch has more"),
        batch_size=(16, "examples of a batch of training; prediction has 64"),
        rounds=(2, "rounds"),
        threads=(2, "threads of each process"),
    )
    add = parser.add_argument
    add("data", type=Path, metavar="DATA-bin", help="a binarized folder")
    add("--backbone", type=Path, required=True, metavar="FILE", help="model.pt")
    add("--arch", default="roberta_idpg_minilm", help="default: roberta_idpg_minilm")
    add("--methods", nargs="+", action="extend", metavar="METHOD", help=f"default: {' '.join(METHODS)}")
    add("--split", metavar="NAME", help="to predict (default: test, where it has labels, or else valid)")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--options", nargs=argparse.REMAINDER, default=[], help="further options of every fairseq-train")
    args = parse(parser)
    args.backbone = args.backbone.resolve()
    return args


@command_line("error", "nothing is kept")
def main() -> None:
    args = parse_options()
    with TemporaryDirectory(prefix="epoch-") as work:
        parts = parts_of(Runs(args, Path(work)).measure())
    print(f"{args.arch}, batch {args.batch_size}, {args.threads} threads, medians of {args.rounds} rounds")
    print("\n".join(tables(parts)))
    write_json(args.json, parts)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that temporary folders are removed
    main()
