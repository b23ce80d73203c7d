"""Runs as processes on this machine, each ``python -m run_scripts.sweep.local RESULTS RUN``."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from preprocess.errors import command_line
from preprocess.flags import named_path
from preprocess.writing import write_text

from .. import module
from ..run.experiment import Experiment
from ..run.fairseq_train import child_environment
from ..run.perform import perform
from ..run.records import EXPERIMENT, Record, failure, run_folder
from .stage import Request


class Local:
    """At most ``jobs`` processes. They share out this machine's cores, and its GPUs are given to them in turn.

    Each has the lock of a slot, which fairseq-train inherits: as long as jobs of a sweep that was killed are still at
    work, a new sweep starts fewer.
    """

    interval = 0.5

    def __init__(self, folder: Path, jobs: int | None, settings: Sequence[str]):
        import torch

        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        count = torch.cuda.device_count()
        self.gpus = named.split(",")[:count] if named else [str(gpu) for gpu in range(count)]
        self.folder, self.jobs = folder, jobs or max(1, count)
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, request: Request) -> LocalJob | None:
        for slot in range(self.jobs):
            with open(self.folder / f"slot{slot}.lock", "w") as lock, suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self._start(request, slot, lock.fileno())
        return None

    def _start(self, request: Request, slot: int, lock: int) -> LocalJob:
        request.folder.mkdir(parents=True, exist_ok=True)
        write_text(request.folder / EXPERIMENT, request.experiment.to_json())
        options = ["--keep-whole-model"] if request.keep_whole_model else []
        with open(request.folder / "job.log", "w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module("run_scripts.sweep.local"), str(request.results), request.run, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**child_environment(), **self.place(slot)},
                pass_fds=[lock],
            )
        return LocalJob(process, request)

    def place(self, slot: int) -> dict[str, str]:
        """The part of the machine that a slot stands for, as environment variables."""
        threads = os.environ.get("OMP_NUM_THREADS", str(max(1, cores() // self.jobs)))
        gpu = {"CUDA_VISIBLE_DEVICES": self.gpus[slot % len(self.gpus)]} if self.gpus else {}
        return {"OMP_NUM_THREADS": threads, **gpu}


class LocalJob:
    def __init__(self, process: subprocess.Popen, request: Request):
        self.process, self.request = process, request

    def done(self) -> bool:
        return self.process.poll() is not None

    def record(self) -> Record:
        return self.request.finished() or failure(self._error())

    def _error(self) -> str:
        """The last line of what the job wrote."""
        log, status = self.request.folder / "job.log", self.process.returncode
        if status < 0:
            return f"the job was killed by signal {-status} (log: {log})"
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), f"the job ended with status {status}")

    def cancel(self) -> None:
        self.process.terminate()
        self.process.wait()


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@command_line("run_scripts", "the same command goes on")
def main(argv: Sequence[str] | None = None) -> None:
    made = argparse.ArgumentParser("python -m run_scripts.sweep.local", description="The job of a sweep: one run.")
    made.add_argument("results", type=named_path, metavar="RESULTS")
    made.add_argument("run", metavar="RUN", help="its experiment is in RESULTS/runs/RUN/experiment.json")
    made.add_argument("--keep-whole-model", action="store_true", help="keep checkpoints that hold the backbone")
    args = made.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # and so fairseq-train is terminated too
    experiment = Experiment.from_json((run_folder(args.results, args.run) / EXPERIMENT).read_text(encoding="utf-8"))
    perform(experiment, args.results, keep_whole_model=args.keep_whole_model)


if __name__ == "__main__":
    main()
