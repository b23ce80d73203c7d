"""fairseq-train as a child process, the time and memory in its log, and its checkpoints.

The child is ``python -m run_scripts.run.fairseq_train ARGUMENTS``: fairseq-train with a last line about its memory.
It imports nothing of fairseq_idpg, which --user-dir brings. In an installed package, whose part it is, fairseq_idpg
comes first.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import IO, Any

from preprocess.errors import InputError
from preprocess.writing import new_file

from .. import module, search_path

STAMP = "%Y-%m-%d %H:%M:%S"  # as fairseq's
STARTED = "=== started "
TORCHRUN = "FAIRSEQ_IDPG_TORCHRUN"  # variable of a job's script: the command that starts the child on several machines
TIME = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", re.MULTILINE)
ENDED = re.compile(r"^=== ended with status -?\d+ after ([\d.]+) s$", re.MULTILINE)
PEAK = re.compile(r"^=== peak memory ([\d.]+) MiB \((\w+)\)$", re.MULTILINE)
STEPS = re.compile(r'\| train_inner \| {.*"num_updates": "(\d+)".*"train_wall": "([\d.]+)"')  # of --log-format json
VALIDATED = r'\| valid \| {{.*"valid_{}": "([-\d.]+)".*"valid_num_updates": "(\d+)"'
JSON_LINE = re.compile(r"(.*\| (?:train_inner|train|valid) \| )(\{.*\})$")
DULL = ("wps", "ups", "wpb", "bsz", "gnorm", "clip", "loss_scale", "gb_free", "nll_loss", "train_wall", "wall", "lr")
DEVICES = "| training on "  # fairseq's words, after its lines about GPUs
GPU_NAME = re.compile(r"total memory = [\d.]+ GB ; name = (.*?) *$", re.MULTILINE)


def train(command: list[str], log: Path, echo: bool) -> None:
    """Run ``fairseq-train ARGUMENTS``; append its output to ``log``, and with ``echo`` print it too."""
    begin = time.monotonic()

    def said(line: str) -> str:
        if echo:
            print(as_read(line), end="", flush=True)
        return line

    with open(log, "a", encoding="utf-8") as file:
        file.write(said(f"{STARTED}{time.strftime(STAMP)} {shlex.join(command)}\n"))
        python = shlex.split(os.environ.get(TORCHRUN, "")) or [sys.executable]
        status, last = run_child([*python, "-m", module("run_scripts.run.fairseq_train"), *command[1:]], file, said)
        file.write(said(f"=== ended with status {status} after {time.monotonic() - begin:.1f} s\n"))
    if status:
        raise InputError(f"fairseq-train ended with status {status}: {last} (log: {log})")


def as_read(line: str) -> str:
    """Return a line of --log-format json as a person reads it: epoch, update, losses and scores; others as they are."""
    if (found := JSON_LINE.match(line)) is None:
        return line
    values = json.loads(found[2]).items()
    told = (f"{name.removeprefix('valid_').removeprefix('train_')} {value}" for name, value in values)
    return found[1] + " | ".join(each for each in told if not each.startswith(DULL)) + "\n"


def run_child(
    command: Sequence[str], log: IO[str], on_line: Callable[[str], str], folder: Path | None = None
) -> tuple[int, str]:
    """Run a child that ends with this process; return its status and last line. ``log`` gets ``on_line(line)``."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    streams |= {"encoding": "utf-8", "errors": "replace"}
    # It inherits our locks, so that others wait for it even where it is an orphan.
    child = subprocess.Popen(command, cwd=folder, env=child_environment(), close_fds=False, **streams)
    assert child.stdout is not None
    last = "no output"
    try:
        for line in child.stdout:
            log.write(on_line(line))
            log.flush()
            last = line.strip() if line.strip() and not line.startswith("===") else last
        return child.wait(), last
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(timeout=15)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def child_environment() -> dict[str, str]:
    """Return the environment of Python processes in any folder that import this repository."""
    # Threads that spin while they wait would slow other runs down.
    return {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, **search_path(), "PYTHONUNBUFFERED": "1"}


def training_facts(log: Path) -> dict[str, Any]:
    """Return ``seconds`` of fairseq-train over all attempts, ``seconds_per_update``, ``peak_mib``, ``hardware``.

    Seconds of an update are by fairseq's clock, without start-up, loading of batches, validation and saving; it logs
    them every 100 updates. The memory is the maximum over attempts, of the GPUs or else of the process; that of several
    processes with GPUs is not known. Hardware is "CPU", or the GPUs' names.
    """
    attempts = log.read_text("utf-8", "replace").split(STARTED)[1:]
    text = "".join(attempts)
    # A checkpoint carries fairseq's clock: an attempt that goes on includes the updates of the earlier ones.
    of_updates = {int(updates): float(seconds) for updates, seconds in STEPS.findall(text)}
    devices = dict.fromkeys(name for each in attempts if DEVICES in each for name in GPU_NAME.findall(each) or ["CPU"])
    on_gpu = any(name != "CPU" for name in devices)
    peaks = [float(mib) for mib, device in PEAK.findall(text) if (device == "GPU") == on_gpu]
    return {
        "seconds": round(sum(map(_seconds, attempts)), 1),
        "seconds_per_update": round(sum(of_updates.values()) / max(of_updates), 4) if of_updates else None,
        "peak_mib": max(peaks, default=None),
        "hardware": ", ".join(devices) or None,
    }


def dev_curve(log: Path, metric: str) -> list[list[float]]:
    """Return [updates, dev score] of every validation, x100 and rounded to 0.1 by fairseq."""
    validations = re.findall(VALIDATED.format(metric), log.read_text("utf-8", "replace"))
    return [list(point) for point in {int(updates): float(score) for score, updates in validations}.items()]


def _seconds(attempt: str) -> float:
    """Return the duration of an attempt, which a kill ended at its last line."""
    ended = ENDED.search(attempt)
    if ended:
        return float(ended[1])
    times = [datetime.strptime(found, STAMP) for found in TIME.findall(attempt)]
    return (times[-1] - times[0]).total_seconds()


def check_whole(checkpoint: Path, remedy: str) -> None:
    """Raise InputError, with the ``remedy``, for a checkpoint that is gone or damaged."""
    from fairseq_idpg.saving.reading import read_file  # imports torch, which the child is to import with fairseq

    try:
        read_file(str(checkpoint), "checkpoint", mapped=True)
    except InputError:
        raise InputError(f"{checkpoint} is gone or damaged: {remedy}") from None


def drop_optimizer(checkpoint: Path) -> None:
    """Drop what only resuming needs: the optimizer's state (two thirds of a whole model's file) and float32 copies."""
    import torch

    state = torch.load(checkpoint, weights_only=True, mmap=True)
    if state.get("last_optimizer_state") is None:
        return
    kept = state["model"].get("_extra_state", {})
    if "fp16" in kept:
        from fairseq_idpg.saving.tensors import carry_checksum

        del kept["fp16"]
        carry_checksum(state["model"])
    with new_file(checkpoint) as work:
        torch.save({**state, "last_optimizer_state": None}, work)


def peak_memory() -> tuple[float, str]:
    """Return (MiB, device): the memory that this process has reserved on GPUs, or its resident set.

    torch keeps what it has reserved to the end. It also counts a peak, but fairseq resets that at every update.
    """
    import torch  # only in the child

    if torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        return sum(torch.cuda.memory_reserved(device) for device in devices) / 2**20, "GPU"
    return getrusage(RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10), "CPU"


if __name__ == "__main__":
    from fairseq_cli.train import cli_main

    if "fairseq_idpg" in sys.modules:
        from fairseq_idpg.training import fairseq_patches

        fairseq_patches.install()  # some of the functions that it replaces are imported only now

    try:
        cli_main()
    finally:
        print("=== peak memory {:.0f} MiB ({})".format(*peak_memory()), flush=True)
