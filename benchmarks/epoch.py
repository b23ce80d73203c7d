"""Seconds of whole runs on real data: epochs, predictions, checkpoints of the methods, through the command line.

    python benchmarks/epoch.py quickstart/reviews-bin --backbone quickstart/backbone/model.pt \\
        [--methods m-idpg-phm prompt-tuning ...] [--updates N | --whole-epochs] [--rounds 2] [--cpu] [--json FILE]

Four parts: time of a training epoch (each method; m-idpg-phm with a representation cache filled in the run, cold, or
before by fairseq_idpg.encode, warm; with --group-by-length), padding with and without --group-by-length, predictions
beside fairseq-validate, and checkpoints. Every case is a process of its own; cases take turns, and figures are medians
over the rounds. Of a long epoch only --updates are run and the rest is extrapolated.

Seconds are those at which lines of fairseq's log arrive, since its own train_wall is in whole seconds. Validation does
not count. FILE: {part: {case: {...}}}, a case FOLDER/CASE where there are two folders.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from settings import ROOT, failure, new_parser, parsed, write_json
from tqdm import tqdm

from preprocess.data_folder import DataFolder
from preprocess.errors import InputError, command_line
from preprocess.flags import aligned

METHODS = ("m-idpg-phm", "prompt-tuning", "p-tuning-v2", "adapter", "compacter", "fine-tuning")
REFERENCE = "prompt-tuning"  # what ratios are taken to
GROUPED = "-grouped"
POSITIONS = ("--max-positions", "512", "--shorten-method", "truncate")
ADAM = ("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6", "--weight-decay", "0.1")
PREDICTION_BATCH = "64"
BRIEF = 2  # updates
FILLED = r"split \S+: M\(x\) of"
TABLES = {  # of each part: the header, and what stands behind the name of a case
    "epoch": (
        f"case|s/update|s/epoch|/ {REFERENCE}|examples/s|whole process|train_wall",
        "{update_s:.3f}|{epoch_s:.1f}|{share}|{examples_per_s:.1f}|{process_epoch_s:.1f}|{train_wall_s:.0f}",
    ),
    "padding": (
        "--group-by-length|padding without|with|s/update without|with|ratio",
        "{padding:.1%}|{padding_grouped:.1%}|{update_s:.3f}|{update_s_grouped:.3f}|{ratio:.2f}",
    ),
    "prediction": (
        f"case|s|/ {REFERENCE}|examples/s|whole process|its examples/s",
        "{seconds:.2f}|{share}|{examples_per_s:.1f}|{process_s:.1f}|{process_examples_per_s:.1f}",
    ),
    "checkpoint": (f"checkpoint|bytes|/ {REFERENCE}|s to write", "{bytes:,}|{share}|{write_s:.3f}"),
}
COMPARED = {"epoch": "epoch_s", "prediction": "seconds", "checkpoint": "bytes"}  # with the reference's
Cases = dict[str, dict[str, Any]]
Parts = dict[str, Cases]


@dataclass(frozen=True)
class Case:
    """A run of ``tool``: fairseq's ``train`` or ``validate``, or ``predict`` of fairseq_idpg."""

    name: str
    method: str  # what is trained, or whose checkpoint of the same round is read
    tool: str = "train"
    options: tuple[str, ...] = ()  # besides those that all runs have
    cache: str = ""  # of representations: cold is filled in the run, warm was filled before by encode
    brief: bool = False  # two updates are enough, for only the checkpoint counts


VARIANTS = (
    Case("m-idpg-phm-cache-cold", "m-idpg-phm", cache="cold"),
    Case("m-idpg-phm-cache-warm", "m-idpg-phm", cache="warm"),
    Case(f"m-idpg-phm{GROUPED}", "m-idpg-phm", options=("--group-by-length",)),
    Case(f"prompt-tuning{GROUPED}", "prompt-tuning", options=("--group-by-length",)),
    Case("m-idpg-phm-no-optimizer-state", "m-idpg-phm", options=("--no-save-optimizer-state",), brief=True),
    Case("m-idpg-phm-full-model", "m-idpg-phm", options=("--save-full-model",), brief=True),
    Case("m-idpg-phm-predict", "m-idpg-phm", "predict"),
    Case("m-idpg-phm-predict-cached", "m-idpg-phm", "predict", cache="warm"),
    Case("m-idpg-phm-validate", "m-idpg-phm", "validate"),
    Case("prompt-tuning-predict", "prompt-tuning", "predict"),
    Case("prompt-tuning-validate", "prompt-tuning", "validate"),
)


@dataclass(frozen=True)
class Output:
    """A finished process: its lines with the seconds from its start to each, and the seconds to its end."""

    lines: list[tuple[float, str]]
    seconds: float

    def all(self, pattern: str) -> list[tuple[float, re.Match[str]]]:
        matches = ((stamp, re.search(pattern, line)) for stamp, line in self.lines)
        return [(stamp, match) for stamp, match in matches if match]

    def first(self, pattern: str) -> tuple[float, re.Match[str]]:
        """Return the first line that matches. Raises InputError where no line does."""
        found = self.all(pattern)
        if not found:
            raise RuntimeError(f"no line of its output matches {pattern!r}: does this fairseq log otherwise?")
        return found[0]


def training_figures(output: Output, checkpoint: Path) -> dict[str, Any]:
    """Seconds of the epoch, from its beginning (where a cache is filled) to its last update, and the checkpoint's.

    The first update, which loads and allocates more than the others, counts once in an epoch however few are run.
    """
    begin, _ = output.first("begin training epoch 1")
    start, _ = output.first("Start iterating over samples")
    ends = [stamp for stamp, _ in output.all(r"\| train_inner \| \{")]
    if len(ends) < 2:
        raise InputError(f"{len(ends)} updates are too few to be timed: give more data or a smaller --batch-size")
    _, planned = output.first(r"([\d,]+) batches, ([\d.]+)% of their tokens are padding")
    _, examples = output.first(r"Loaded train with #samples: (\d+)")
    _, logged = output.first(r"\| train \| (\{.*\})")
    _, written = output.first(r"writing took ([\d.e-]+) seconds")
    log = json.loads(logged[1])
    per_epoch, update = int(planned[1].replace(",", "")), (ends[-1] - ends[0]) / (len(ends) - 1)
    return {
        "updates": len(ends),
        "updates_per_epoch": per_epoch,
        "examples": int(examples[1]),
        "padding": float(planned[2]) / 100,
        "fill_s": start - begin,
        "first_update_s": ends[0] - start,
        "update_s": update,
        "epoch_s": ends[0] - begin + (per_epoch - 1) * update,
        "train_wall_s": float(log["train_train_wall"]),
        "wall_s": float(log["train_wall"]),
        "process_s": output.seconds,
        "process_epoch_s": output.seconds + (per_epoch - len(ends)) * update,
        "bytes": checkpoint.stat().st_size,
        "write_s": float(written[1]),
    }


class Folder:
    """The runs on one data folder: the figures of each in ``rounds``, their files below ``work``, a new folder."""

    def __init__(self, path: Path, args: argparse.Namespace, work: Path):
        self.data, self.args, self.work = DataFolder(path), args, work
        labelled = [split for split in self.data.splits if self.data.has_labels(split)]
        self.split = args.split or next((name for name in ("test", "valid") if name in labelled), "valid")
        for name in ("train", self.split):
            if name not in labelled:
                known = ", ".join(labelled) or "none"
                raise InputError(
                    f"{path} has no split {name} with labels (it has {known}): preprocess it, or give --split"
                )
        methods = [Case(method, method) for method in dict.fromkeys(args.methods or METHODS)]
        names = {case.method for case in methods}
        self.cases = [*methods, *(case for case in VARIANTS if case.method in names)]
        self.rounds: dict[str, list[dict[str, Any]]] = {case.name: [] for case in self.cases}
        self.device = ["--cpu"] if args.cpu else []
        self.filled_s: float | None = None
        work.mkdir()

    def fill(self) -> None:
        """Fill the warm cache, if a case reads it, with what training and prediction will look for."""
        if any(case.cache == "warm" for case in self.cases):
            splits = list(dict.fromkeys(["train", self.split]))
            words = [str(self.data.path), "--backbone", str(self.args.backbone), *self.cached("warm")]
            command = [sys.executable, "-m", "fairseq_idpg.encode", *words, "--splits", *splits]
            self.filled_s = self.call([*command, *POSITIONS, *self.device]).seconds

    def run(self, case: Case) -> None:
        """Run a case once more and keep its figures; an InputError names it."""
        try:
            figures = self.train(case) if case.tool == "train" else self.predict(case)
        except InputError as error:
            raise InputError(f"{case.name} on {self.data.path} failed: {error}") from None
        self.rounds[case.name].append({"method": case.method, **figures})

    def train(self, case: Case) -> dict[str, Any]:
        args, updates = self.args, BRIEF if case.brief else self.args.updates
        with TemporaryDirectory(dir=self.work) as folder:
            command = [
                *(tool("fairseq-train"), *self.common(), "--arch", args.arch, "--method", case.method, *ADAM),
                *("--backbone", str(args.backbone), "--lr", "1e-4", "--lr-scheduler", "fixed", "--seed", "1"),
                *("--batch-size", str(args.batch_size), "--max-epoch", "1", "--max-update", str(updates)),
                *("--log-interval", "1", "--disable-validation", "--no-epoch-checkpoints", "--save-dir", folder),
                *(*self.cached(case.cache), *case.options, *args.options),
            ]
            output = self.call(command, case.cache)
            checkpoint = Path(folder, "checkpoint_last.pt")
            figures = training_figures(output, checkpoint)
            if case.name == case.method:
                os.replace(checkpoint, self.work / f"{case.name}.pt")
        shutil.rmtree(self.work / "cold", ignore_errors=True)
        return figures

    def predict(self, case: Case) -> dict[str, Any]:
        """Return seconds from loading the data, with the model in memory, to the result; and of the whole process."""
        checkpoint = self.work / f"{case.method}.pt"
        options = ["--path", str(checkpoint), "--batch-size", PREDICTION_BATCH]
        if case.tool == "validate":
            command = [tool("fairseq-validate"), *self.common(), *options, "--valid-subset", self.split]
            result = rf"\| {self.split} \| \{{"
        else:
            options += ["--split", self.split, "--out", str(checkpoint.with_suffix(".tsv")), *self.cached(case.cache)]
            command = [sys.executable, "-m", "fairseq_idpg.predict", str(self.data.path), *options, *self.device]
            result = rf"predictions of {self.split} in"
        output = self.call(command, case.cache)
        begin, examples = output.first(r"loaded ([\d,]+) examples from")
        return {
            "tool": case.tool,
            "split": self.split,
            "examples": int(examples[1].replace(",", "")),
            "seconds": output.first(result)[0] - begin,
            "process_s": output.seconds,
        }

    def common(self) -> list[str]:
        """Return the data and the task, as fairseq-train and fairseq-validate take them."""
        data = self.data
        classes = ["1", "--regression-target"] if data.regression else [str(len(data.label_names))]
        return [
            *(str(data.path), "--user-dir", str(ROOT / "fairseq_idpg"), "--task", "sentence_prediction_idpg"),
            *("--criterion", "sentence_prediction", "--num-classes", *classes, "--init-token", "0"),
            *("--separator-token", "2", *POSITIONS, "--required-batch-size-multiple", "1"),
            *("--distributed-world-size", "1", "--num-workers", "0", "--log-format", "json", *self.device),
        ]

    def cached(self, cache: str) -> list[str]:
        return ["--representation-cache", str(self.work / cache)] if cache else []

    def call(self, command: list[str], cache: str = "") -> Output:
        """Run a process to its end; InputError where it failed, or computed M(x) though the cache is not cold."""
        steady = {"OMP_WAIT_POLICY": "PASSIVE", "PYTHONUNBUFFERED": "1"}  # lines come when they are written
        environment = {**os.environ, **steady, "OMP_NUM_THREADS": str(self.args.threads)}
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        start = time.perf_counter()
        with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, errors="replace", **streams) as process:
            assert process.stdout is not None
            try:
                lines = [(time.perf_counter() - start, line) for line in process.stdout]
            except BaseException:
                process.kill()
                raise
        output = Output(lines, time.perf_counter() - start)
        if process.returncode:
            raise InputError(failure("".join(line for _, line in lines)))
        filled = bool(output.all(FILLED))
        if cache and filled != (cache == "cold"):
            found = "computed" if filled else "did not compute"
            raise InputError(f"the run {found} the rows of the representation cache: do --options change them?")
        return output

    def parts(self) -> Parts:
        """Return {part: {case: figures}}, medians of the rounds."""
        found: Parts = {part: {} for part in TABLES}
        for case in self.cases:
            rounds = self.rounds[case.name]
            own = medians(rounds)
            if case.tool != "train":
                own["examples_per_s"] = own["examples"] / own["seconds"]
                own["process_examples_per_s"] = own["examples"] / own["process_s"]
                own["rounds_s"] = [one["seconds"] for one in rounds]
                found["prediction"][case.name] = own
                continue
            checkpoint = {name: own.pop(name) for name in ("bytes", "write_s")}
            if case.brief or case.name == case.method:
                found["checkpoint"][case.name] = checkpoint
            if not case.brief:
                own["examples_per_s"] = own["examples"] / own["epoch_s"]
                own["rounds_epoch_s"] = [one["epoch_s"] for one in rounds]
                own |= {"filled_beforehand_s": self.filled_s} if case.cache == "warm" else {}
                found["epoch"][case.name] = own
        for name, drawn in found["epoch"].items():
            if grouped := found["epoch"].get(name + GROUPED):
                both = {key: drawn[key] for key in ("padding", "update_s")}
                both |= {f"{key}_grouped": grouped[key] for key in both}
                found["padding"][name] = {**both, "ratio": grouped["update_s"] / drawn["update_s"]}
        return found


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the median of each figure; one that is the same in all rounds, a count or a name, stays as it is."""
    columns = {name: [figures[name] for figures in rounds] for name in rounds[0]}
    return {name: found[0] if len(set(found)) == 1 else median(found) for name, found in columns.items()}


def tables(parts: Parts) -> list[str]:
    """Return the table of each part that has cases; ``-`` where the reference is not among them."""
    lines = []
    for part, cases in ((part, cases) for part, cases in parts.items() if cases):
        header, cells = TABLES[part]
        rows, compared = [header], COMPARED.get(part)
        for name, own in cases.items():
            reference = cases.get(f"{REFERENCE}-{own['tool']}" if "tool" in own else REFERENCE)
            share = f"{own[compared] / reference[compared]:.2f}" if compared and reference else "-"
            rows.append(f"{name}|{cells.format(**own, share=share)}")
        lines += ["", *headings(part, cases), *aligned([row.split("|") for row in rows])]
        for filled in (own["filled_beforehand_s"] for own in cases.values() if "filled_beforehand_s" in own):
            lines.append(f"fairseq_idpg.encode, which filled the warm cache beforehand: {filled:.1f} s")
    return lines


def headings(part: str, cases: Cases) -> list[str]:
    one = next(iter(cases.values()))
    if part == "epoch":
        whole = one["updates"] == one["updates_per_epoch"]
        updates = f"{'all' if whole else str(one['updates']) + ' of the'} {one['updates_per_epoch']} updates"
        note = "s/epoch and whole process are extrapolated to all, train_wall is of those that were run"
        return [f"training: {updates} of an epoch of {one['examples']:,} examples", *([] if whole else [note])]
    if part == "prediction":
        examples = f"prediction of {one['split']}, {one['examples']:,} examples"
        return [f"{examples}: seconds from loading the data to the result"]
    padding = "padding of all batches of the epoch, and seconds of the updates that were run"
    return [padding] if part == "padding" else []


def measure(folders: list[Folder], rounds: int) -> None:
    """Run trainings, then predictions with their checkpoints, in each round; every other round in reverse order."""
    runs = [(folder, case) for folder in folders for case in folder.cases]
    with tqdm(total=rounds * len(runs), unit=" runs", disable=None, leave=False) as bar:
        for folder in folders:
            folder.fill()
        for number in range(rounds):
            turn = runs[::-1] if number % 2 else runs
            for folder, case in sorted(turn, key=lambda run: run[1].tool != "train"):
                bar.set_description(f"{folder.data.path.name} {case.name}")
                folder.run(case)
                bar.update()


def parse() -> argparse.Namespace:
    parser = new_parser(
        __doc__,
        updates=(16, "of each training, if the epoch has more"),
        batch_size=(16, "of training; prediction has 64"),
        rounds=(2, ""),
        threads=(2, "of each process"),
    )
    add = parser.add_argument
    add("data", nargs="+", type=Path, metavar="DATA-bin", help="binarized folders")
    add("--backbone", type=Path, required=True, metavar="FILE", help="model.pt")
    add("--arch", default="roberta_idpg_minilm", help="default: roberta_idpg_minilm")
    add("--methods", nargs="+", action="extend", metavar="METHOD", help=f"default: {' '.join(METHODS)}")
    add("--whole-epochs", action="store_true", help="all updates of an epoch")
    add("--split", metavar="NAME", help="to predict (default: test, where it has labels, or else valid)")
    add("--cpu", action="store_true", help="do not use a GPU")
    add("--options", nargs=argparse.REMAINDER, default=[], help="further options of every fairseq-train")
    args = parsed(parser)
    args.backbone = args.backbone.resolve()
    args.updates = 0 if args.whole_epochs else args.updates  # fairseq's --max-update 0 is no limit
    return args


@command_line("error", "nothing is kept")
def main() -> None:
    args = parse()
    with TemporaryDirectory(prefix="epoch-") as work:
        folders = [Folder(path.resolve(), args, Path(work, path.resolve().name)) for path in args.data]
        measure(folders, args.rounds)
    print(f"{args.arch}, batch {args.batch_size}, {args.threads} threads, rounds: {args.rounds} (medians); ", end="")
    print(f"ratios are of seconds or bytes to {REFERENCE}'s")
    saved: Parts = {part: {} for part in TABLES}
    for folder in folders:
        name, parts = folder.data.path.name, folder.parts()
        print("\n".join([f"\n{name}", *tables(parts)]))
        for part, cases in parts.items():
            saved[part] |= {f"{name}/{case}" if len(folders) > 1 else case: own for case, own in cases.items()}
    write_json(args.json, saved)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that temporary folders are removed
    main()
