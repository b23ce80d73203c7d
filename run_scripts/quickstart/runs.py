"""Steps of the quick start, and training and testing one method, as the commands of the README would.

A step makes one product (a file or folder) from settings. `PRODUCT.settings.json` beside it is written last: a product
is done when its record equals the settings asked for now, so changed settings, or an interruption, make the step run
again.

Files of a run, in OUT/runs/METHOD: settings.json (written first), train.log, epochs.jsonl, the checkpoints, test.log,
result.json (written last: the run is done).
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from preprocess.errors import InputError
from preprocess.writing import write_text

from .. import ROOT
from ..run.fairseq_train import follow, stop
from ..run.records import BEST_CHECKPOINT, LAST_CHECKPOINT, LOG, run_folder

BATCH_SIZE = 16
ERROR_LINE = re.compile(r"^[\w.]*(Error|Exception)\b|\berror:")
Settings = dict[str, Any]


def say(message: str) -> None:
    print(message, flush=True)


# --- files ---------------------------------------------------------------------------------------


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_json(path: Path) -> Any:
    """The value in a JSON file; None when it is missing or cut short."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


# --- steps ---------------------------------------------------------------------------------------


def record_of(product: Path) -> Path:
    return product.with_name(product.name + ".settings.json")


def is_done(product: Path, settings: Settings) -> bool:
    return product.exists() and read_json(record_of(product)) == settings


def run_step(title: str, product: Path, settings: Settings, build: Callable[[], None]) -> None:
    """Builds `product` unless it was built from these very settings."""
    if is_done(product, settings):
        say(f"== {title}: done before")
        return
    say(f"== {title}")
    record_of(product).unlink(missing_ok=True)
    build()
    write_json(record_of(product), settings)


# --- children ------------------------------------------------------------------------------------


def tool(name: str) -> str:
    """The path of a command installed beside this interpreter, e.g. fairseq-train."""
    return str(Path(sys.executable).with_name(name))


def run_visible(command: Sequence[str], what: str) -> None:
    """Runs a child that writes to our terminal itself."""
    child = subprocess.Popen(command, cwd=ROOT, close_fds=False)
    try:
        code = child.wait()
    finally:
        stop(child)
    if code != 0:
        raise InputError(f"{what} failed (exit status {code}), see the lines above")


def run_logged(command: Sequence[str], log: Path, on_line: Callable[[str], None]) -> None:
    """Runs a child whose lines go to the end of `log` and to `on_line` as they come."""
    log.parent.mkdir(parents=True, exist_ok=True)
    last: deque[str] = deque(maxlen=200)
    with open(log, "a", encoding="utf-8") as file:

        def keep(line: str) -> None:
            file.write(line)
            file.flush()
            last.append(line.strip())
            on_line(line.rstrip("\n"))

        code = follow(command, keep, ROOT)
    if code != 0:
        how = f"was killed by signal {-code}" if code < 0 else f"failed (exit status {code})"
        lines = [line for line in last if ERROR_LINE.search(line)] or [line for line in last if line] or ["no output"]
        raise InputError(f"{Path(command[0]).name} {how}: {lines[-1]} (all of it: {log})")


# --- methods ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hyper:
    """Hyper-parameters of a method; `flags` are further options of fairseq-train."""

    lr: float
    max_epoch: int
    flags: tuple[str, ...] = ()


# A few hundred updates are too few to learn around the frozen backbone's dropout, so it is off here.
DEFAULT = Hyper(lr=3e-3, max_epoch=3, flags=("--dropout", "0"))
HYPERS: dict[str, Hyper] = {
    "head-only": Hyper(lr=5e-4, max_epoch=3, flags=("--dropout", "0")),
    "prompt-tuning": Hyper(lr=5e-3, max_epoch=3, flags=("--dropout", "0")),
    "m-idpg-phm": Hyper(lr=3e-3, max_epoch=3, flags=("--dropout", "0")),
}


class Run(NamedTuple):
    """What a run works on; `data` are the settings its data and backbone were made from."""

    method: str
    hyper: Hyper
    seed: int
    out: Path
    data: Settings
    cpu: bool

    @property
    def folder(self) -> Path:
        return run_folder(self.out, self.method)

    @property
    def settings(self) -> Settings:
        hyper = {**asdict(self.hyper), "flags": list(self.hyper.flags)}
        return {"method": self.method, "hyper": hyper, "seed": self.seed, "data": self.data}


# --- commands ------------------------------------------------------------------------------------


def _task(run: Run) -> list[str]:
    return [
        *(str(run.out / "reviews-bin"), "--user-dir", str(ROOT / "fairseq_idpg")),
        *("--task", "sentence_prediction_idpg", "--criterion", "sentence_prediction"),
        *("--num-classes", "2", "--init-token", "0", "--separator-token", "2"),
        *("--required-batch-size-multiple", "1", "--num-workers", "0", "--log-format", "json"),
        *("--distributed-world-size", "1"),  # the same batches however many GPUs there are
        *(["--cpu"] if run.cpu else []),
    ]


def train_command(run: Run) -> list[str]:
    hyper = run.hyper
    return [
        *(tool("fairseq-train"), *_task(run)),
        *("--arch", "roberta_idpg_minilm", "--method", run.method),
        *("--backbone", str(run.out / "backbone" / "model.pt"), "--prompt-position", "0"),
        *("--max-positions", "512", "--batch-size", str(BATCH_SIZE), "--seed", str(run.seed)),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6"),
        *("--weight-decay", "0.1", "--lr", str(hyper.lr), "--lr-scheduler", "fixed"),
        *("--max-epoch", str(hyper.max_epoch), *hyper.flags),
        *("--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"),
        *("--no-epoch-checkpoints", "--save-dir", str(run.folder), "--log-interval", "5"),
    ]


def validate_command(run: Run) -> list[str]:
    best = run.folder / BEST_CHECKPOINT
    options = ("--path", str(best), "--valid-subset", "test", "--batch-size", "64")
    return [tool("fairseq-validate"), *_task(run), *options]


# --- one run -------------------------------------------------------------------------------------


def prepare(run: Run) -> None:
    """A folder to start or resume in: that of other settings is thrown away."""
    settings = run.folder / "settings.json"
    if run.folder.exists() and read_json(settings) != run.settings:
        shutil.rmtree(run.folder)
    write_json(settings, run.settings)


def train(run: Run, examples: int) -> None:
    epochs, last = run.folder / "epochs.jsonl", run.folder / LAST_CHECKPOINT
    if last.exists() and run.hyper.max_epoch in read_epochs(epochs):
        return
    if last.exists():
        say(f"{run.method}: resuming from {LAST_CHECKPOINT}")
    updates = -(-examples // BATCH_SIZE)
    watch = Watcher(run.method, run.hyper.max_epoch, updates, epochs)
    try:
        run_logged(train_command(run), run.folder / LOG, watch)
    finally:
        watch.bar.close()


def measure(run: Run) -> float:
    """Accuracy of the best checkpoint on the test split, in %."""
    accuracies: list[float] = []

    def read(line: str) -> None:
        stats = parse_line(line)[2]
        if stats and "test_accuracy" in stats:
            accuracies.append(float(stats["test_accuracy"]))

    run_logged(validate_command(run), run.folder / "test.log", read)
    return accuracies[-1]


def finish_run(run: Run, examples: int) -> dict[str, Any]:
    """The row of results of a method, trained and tested unless that was done before."""
    result = run.folder / "result.json"
    if result.exists() and read_json(run.folder / "settings.json") == run.settings:
        row = read_json(result)
        if row is not None:
            say(f"== {run.method}: done before")
            return row
    say(f"== {run.method}: training on {'the CPU' if run.cpu else 'the GPU'}")
    prepare(run)
    train(run, examples)
    say(f"{run.method}: testing the best checkpoint")
    accuracy = measure(run)
    trainable, backbone = read_parameter_counts(run.folder / LOG)
    epochs = read_epochs(run.folder / "epochs.jsonl").values()
    row = {
        "method": run.method,
        "accuracy": accuracy,
        "trainable": trainable,
        "backbone_params": backbone,
        "seconds_per_epoch": round(statistics.median(e["train_seconds"] for e in epochs), 2),
        "checkpoint_bytes": (run.folder / BEST_CHECKPOINT).stat().st_size,
    }
    write_json(result, row)
    return row


# --- logs of fairseq, with --log-format json --------------------------------------------------------


def parse_line(line: str) -> tuple[str, str, dict[str, Any] | None]:
    """`time | level | name | message` -> name, message, and the message as JSON statistics."""
    fields = line.split(" | ", 3)
    if len(fields) < 4:
        return "", line, None
    name, message = fields[2].strip(), fields[3].strip()
    try:
        stats = json.loads(message) if message.startswith("{") else None
    except ValueError:  # the configuration, printed as Python
        stats = None
    return name, message, stats


class Watcher:
    """Follows a training log: a progress bar, a printed line and a kept row for every epoch."""

    def __init__(self, method: str, epochs: int, updates: int, rows: Path):
        self.method, self.epochs, self.updates, self.rows = method, epochs, updates, rows  # updates of an epoch
        self.started: float | None = None
        self.seconds = 0.0
        self.valid: dict[str, Any] = {}
        total = updates * epochs
        self.bar = tqdm(total=total, desc=method, unit=" updates", disable=None, leave=False)

    def __call__(self, line: str) -> None:
        name, message, stats = parse_line(line)
        if message.startswith("Start iterating over samples"):
            self.started = time.monotonic()
        elif message.startswith("begin validation on") and self.started is not None:
            self.seconds = time.monotonic() - self.started
        elif stats and name == "train_inner":
            self._advance(round(float(stats["update"]) * self.updates))
            self.bar.set_postfix(loss=stats.get("loss"), refresh=False)
        elif stats and name == "valid":
            self.valid = stats
        elif stats and name == "train":
            self._end_epoch(stats)

    def _advance(self, updates: int) -> None:
        self.bar.update(max(0, updates - self.bar.n))

    def _end_epoch(self, train: dict[str, Any]) -> None:
        epoch = int(train["epoch"])
        row = {
            "epoch": epoch,
            "train_seconds": round(self.seconds, 3),
            "train_loss": float(train["train_loss"]),
            "valid_loss": float(self.valid["valid_loss"]),
            "valid_accuracy": float(self.valid["valid_accuracy"]),
        }
        # A line that a kill has torn must not run into this one.
        with open(self.rows, "a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(row) + "\n")
        self._advance(epoch * self.updates)
        self.bar.write(
            f"{self.method:<16} epoch {epoch}/{self.epochs}"
            f"  loss {row['train_loss']:.3f}  valid accuracy {row['valid_accuracy']:.1f}%"
            f"  {row['train_seconds']:.1f} s"
        )


def read_epochs(path: Path) -> dict[int, dict[str, Any]]:
    """Finished epochs by number; a line cut short is no epoch, a repeated epoch counts last."""
    epochs = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
            epochs[int(row["epoch"])] = row
        except (ValueError, KeyError, TypeError):
            continue
    return epochs


def read_parameter_counts(log_path: Path) -> tuple[int, int]:
    """(trainable parameters without the head, backbone parameters), as the training log says."""
    pattern = re.compile(r"\bmethod \S+: .*\bmethod ([\d,]+) .*\bbackbone (\d[\d,]*)")
    numbers = pattern.findall(log_path.read_text(encoding="utf-8"))[-1]
    method, backbone = (int(number.replace(",", "")) for number in numbers)
    return method, backbone
