"""Results of runs: one JSON object a line in RESULTS/results.jsonl, appended whole or not at all; their folders."""

import base64
import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from preprocess.errors import InputError
from preprocess.writing import named

FILE = "results.jsonl"
EXPERIMENT, LOG, RECORD = "experiment.json", "train.log", "record.json"  # files in the folder of a run
BEST_CHECKPOINT, LAST_CHECKPOINT = "checkpoint_best.pt", "checkpoint_last.pt"  # others there, named by fairseq
Record = dict[str, Any]
DIVERGED, NO_MEMORY = "diverged", "out of memory"
# Reasons for which the same run would fail again -> words of their messages.
REASONS = {DIVERGED: ("the run has diverged", "probably exploding"), NO_MEMORY: ("out of memory", "into memory")}


def failure(error: object) -> Record:
    """Return the record of a run that failed, with the ``reason`` if it would fail again."""
    text = " ".join(str(error).split()) or type(error).__name__
    message = text.partition(" (log: ")[0]  # without the name of a folder, which may hold any words
    reason = next((reason for reason, words in REASONS.items() if any(word in message for word in words)), None)
    return {"status": "failed", "error": text, "reason": reason}


def run_folder(results: Path, run: str) -> Path:
    return results / "runs" / run


def results_file(results: Path) -> Path:
    """Return the file of a RESULTS folder; a file is taken as it is."""
    return results / FILE if results.is_dir() or not results.suffix else results


def read_records(results: Path) -> list[Record]:
    """Return the latest record of every run, in the order in which the runs first finished.

    Leaves out a last line that a kill tore, and says so on stderr; raises InputError for any other damaged line.
    """
    path = results_file(results)
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = _without_torn_line(content)
    found: dict[str, Record] = {}
    for number, line in enumerate(whole.removesuffix(b"\n").split(b"\n") if whole else (), 1):
        try:
            record = json.loads(line)
            if not record["run"].isprintable():
                raise ValueError
            found[record["run"]] = record
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise InputError(f"{path} line {number} is damaged: remove that line") from None
    if whole != content:
        print(f"{path}: the last line was torn by an interruption and is left out", file=sys.stderr)
    return list(found.values())


def _without_torn_line(content: bytes) -> bytes:
    """Return a file's whole lines. A kill may have cut the last one; one that lacks only its newline is whole."""
    last = content.rpartition(b"\n")[2]
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        return content.removesuffix(last)
    return content


def append_record(results: Path, record: Record) -> None:
    """Add a line, after cutting off one that a kill tore."""
    path = results_file(results)
    path.parent.mkdir(parents=True, exist_ok=True)
    with named(path), open(path, "a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        whole = _without_torn_line(file.read())
        file.truncate(len(whole))
        newline = b"\n" if whole and not whole.endswith(b"\n") else b""
        file.write(newline + json.dumps(record).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


SIGNS = b"-_"  # instead of + and /: a text that begins with / would be taken for a path


def packed_classes(predicted: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    """Return predicted and true class of each example, each in as few bits as the largest class needs."""
    bits = max(1, int(max(predicted.max(), targets.max())).bit_length())

    def packed(classes: np.ndarray) -> str:
        planes = classes.astype(np.int64)[:, None] >> np.arange(bits) & 1
        return base64.b64encode(np.packbits(planes.astype(bool)).tobytes(), SIGNS).decode()

    return {"examples": len(targets), "bits": bits, "predicted": packed(predicted), "true": packed(targets)}


def unpacked_classes(found: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return predicted and true classes; raise ValueError where a text is damaged."""
    examples, bits = int(found["examples"]), int(found["bits"])
    if examples < 1 or not 1 <= bits <= 32:
        raise ValueError(found)

    def unpacked(text: str) -> np.ndarray:
        held = np.unpackbits(np.frombuffer(base64.b64decode(text, SIGNS, validate=True), np.uint8))
        return held[: examples * bits].reshape(examples, bits) @ (1 << np.arange(bits))

    return unpacked(found["predicted"]), unpacked(found["true"])


@contextlib.contextmanager
def held(folder: Path, wait: bool = False, inherit: bool = False) -> Iterator[None]:
    """Hold a folder, so that two processes never write there; raise InputError while another one holds it.

    ``wait``: wait for it instead; ``inherit``: children hold the folder too, so that others wait for orphans.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                remedy = "wait for it, or name another folder"
                raise InputError(f"{folder} is in use by another process: {remedy}") from None
            print(f"{folder}: waiting for another process that is at work there", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        os.set_inheritable(file.fileno(), inherit)
        yield
