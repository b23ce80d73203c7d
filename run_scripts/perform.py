"""Trains an experiment, tests it, and writes RESULTS/runs/RUN/{train.log, checkpoint_best.pt, record.json}."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any, Iterator

import numpy as np

from preprocess.folders import new_file

from .checkpoint_files import repair_last
from .commands import ROOT, training_command
from .experiment import Experiment, file_digest
from .metrics import score
from .records import Record, RunError
from .splits import Splits, splits_of

OPTION_GROUPS = ("model", "task", "criterion", "optimizer", "lr_scheduler", "optimization", "dataset")


@dataclass(frozen=True)
class Place:
    """The part of a machine that a run may use: threads, and a GPU (None: all there are)."""

    threads: int = 0
    gpu: int | None = None

    @property
    def environment(self) -> dict[str, str]:
        threads = {"OMP_NUM_THREADS": str(self.threads), "OMP_WAIT_POLICY": "PASSIVE"} if self.threads else {}
        return {**threads, **({} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": str(self.gpu)})}


def perform(experiment: Experiment, results: Path, place: Place = Place(), echo: bool = False) -> Record:
    """The record of a run; one that was finished before is read, one that was killed goes on.

    Args:
        results: folder of all runs, which also holds their splits and M(x).
        echo: print what fairseq-train prints.

    Raises:
        RunError: fairseq-train failed; the last line of its log says why.
        DataError: the data has too few examples, or is damaged.
    """
    run, results = experiment.run, results.absolute()
    folder = results / "runs" / run
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(place.environment)  # before torch looks
    with held(folder) as lock:
        if not (folder / "record.json").is_file():
            write_json(folder / "record.json", make_record(experiment, run, folder, results, lock, echo))
            (folder / "checkpoint_last.pt").unlink(missing_ok=True)
    return json.loads((folder / "record.json").read_text(encoding="utf-8"))


def perform_quietly(experiment: Experiment, results: Path, place: Place = Place()) -> Record:
    """``perform`` in a job of a cluster: a failure is a record as well."""
    try:
        return perform(experiment, results, place)
    except (SystemExit, Exception) as error:
        return {"status": "failed", "error": " ".join(str(error).split()) or type(error).__name__}


@contextlib.contextmanager
def held(folder: Path) -> Iterator[int]:
    """Waits until no other process works in ``folder``; fairseq-train inherits the lock and so outlives no one."""
    with open(folder / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def make_record(experiment: Experiment, run: str, folder: Path, results: Path, lock: int, echo: bool) -> Record:
    """Trains, predicts and puts the record together."""
    repair_last(folder)
    splits = splits_of(experiment, results / "data")
    command = training_command(experiment, splits, folder, results / "cache")
    train(command, folder / "train.log", lock, echo)
    return {
        **{**asdict(experiment), "run": run, "row": experiment.row or experiment.method},
        **{"setting": experiment.setting, "position": experiment.prompt_position, "metric": experiment.facts.metric},
        **training_facts(folder),
        **evaluate(experiment, splits, folder, results),
        **{"command": command, **versions(), "git": revision(), "status": "done"},
        "backbone": {"path": experiment.backbone, "sha256": file_digest(experiment.backbone)},
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def train(command: list[str], log: Path, lock: int, echo: bool) -> None:
    """Runs fairseq-train, its output going to the end of ``log``."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with open(log, "a", encoding="utf-8") as file:
        child = subprocess.Popen(
            command,
            **{"cwd": ROOT, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True},
            pass_fds=[lock],  # if this process is killed, the next one waits for its fairseq-train
        )
        assert child.stdout is not None
        last = ""
        try:
            for line in child.stdout:
                file.write(line)
                file.flush()
                last = line.strip() or last
                if echo:
                    print(line, end="", flush=True)
            status = child.wait()
        except BaseException:
            child.terminate()
            child.wait()
            raise
    if status:
        raise RunError(f"fairseq-train ended with status {status}: {last} (log: {log})")


def log_lines(log: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects that fairseq logged."""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        start = line.find("{")
        if start >= 0 and line.endswith("}"):
            try:
                yield json.loads(line[start:])
            except ValueError:
                continue


def training_facts(folder: Path) -> dict[str, Any]:
    """Seconds in training steps (over all attempts), and the largest memory of a process so far."""
    walls = [float(line["train_train_wall"]) for line in log_lines(folder / "train.log") if "train_train_wall" in line]
    return {"seconds": max(walls, default=0.0), "peak_mib": getrusage(RUSAGE_CHILDREN).ru_maxrss / 1024}


def evaluate(experiment: Experiment, splits: Splits, folder: Path, results: Path) -> dict[str, Any]:
    """Scores and predictions of the best checkpoint."""
    import torch

    from fairseq_idpg.predict import load, predict

    for name in ("fairseq", "fairseq_idpg"):
        logging.getLogger(name).setLevel(logging.WARNING)
    if os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    checkpoint = folder / "checkpoint_best.pt"
    cache = None if experiment.supplementary else str(results / "cache")
    model, task = load(
        str(checkpoint), str(splits.folder.path), "--cpu" in experiment.options, representation_cache=cache
    )
    arrays, scores = {}, {}
    for name, split in (("dev", splits.dev), ("test", splits.reported)):
        found = predict(model, task, split)
        answers, targets = found.answers, found.targets
        if found.label_names and all(label.isdecimal() for label in found.label_names):
            numbers = np.array([int(label) for label in found.label_names])  # F1 is that of the label 1
            answers, targets = numbers[answers], numbers[targets]
        arrays.update({name: answers, f"{name}_targets": targets})
        scores[name] = score(experiment.facts.metric, answers, targets)
    with new_file(folder / "predictions.npz") as path:
        np.savez_compressed(path, **arrays)
    state = torch.load(checkpoint, weights_only=True, mmap=True)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {
        **{"scores": scores, **{name: scores[name][experiment.facts.metric] for name in ("dev", "test")}},
        "trainable": trained - model.parameter_counts()["head"],
        "prompt_length": model.prompt_length or None,
        "best_epoch": state["extra_state"]["train_iterator"]["epoch"],
        "options": {group: plain(state["cfg"][group]) for group in OPTION_GROUPS},
        "predictions": str((folder / "predictions.npz").relative_to(results)),
    }


def plain(options: Any) -> Any:
    """Options as JSON has them."""
    return json.loads(json.dumps(options, default=str))


def versions() -> dict[str, Any]:
    names = ("torch", "numpy", "fairseq-fixed", "fairseq", "fairseq_idpg")
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = version(name)
        except ModuleNotFoundError:
            continue
    return {"versions": found}


def revision() -> str | None:
    """The commit of this code, with ``+`` where files were changed since; None outside a git repository."""
    shown = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=+"], capture_output=True, text=True
    )
    return shown.stdout.strip() or None


def write_json(path: Path, value: Any) -> None:
    with new_file(path) as work:
        work.write_text(json.dumps(value), encoding="utf-8")
