"""Reading the logs that fairseq-train and fairseq-validate write with --log-format json."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any, Callable

from preprocess.errors import InputError


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

    def __init__(
        self,
        method: str,
        epochs: int,
        updates: int,  # of an epoch
        rows: Path,
        clock: Callable[[], float] = time.monotonic,
    ):
        from tqdm import tqdm

        self.method, self.epochs, self.updates, self.rows = method, epochs, updates, rows
        self.clock = clock
        self.started: float | None = None
        self.seconds = 0.0
        self.valid: dict[str, Any] = {}
        total = updates * epochs
        self.bar = tqdm(total=total, desc=method, unit=" updates", disable=None, leave=False)

    def __call__(self, line: str) -> None:
        name, message, stats = parse_line(line)
        if message.startswith("Start iterating over samples"):
            self.started = self.clock()
        elif message.startswith("begin validation on") and self.started is not None:
            self.seconds = self.clock() - self.started
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
        row = {
            "epoch": int(train["epoch"]),
            "train_seconds": round(self.seconds, 3),
            "train_loss": float(train["train_loss"]),
            "valid_loss": float(self.valid["valid_loss"]),
            "valid_accuracy": float(self.valid["valid_accuracy"]),
        }
        with open(self.rows, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self._advance(row["epoch"] * self.updates)
        self.bar.write(
            f"{self.method:<16} epoch {row['epoch']}/{self.epochs}"
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
    found = pattern.findall(log_path.read_text(encoding="utf-8"))
    if not found:
        raise InputError(f"{log_path}: no line `method NAME: ... backbone N`; remove the file")
    method, backbone = (int(number.replace(",", "")) for number in found[-1])
    return method, backbone
