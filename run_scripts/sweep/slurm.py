"""Runs as jobs of Slurm, through submitit."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import submitit

from preprocess.errors import InputError, reason_of
from preprocess.writing import write_text

from .. import PARENT, ROOT
from ..run.experiment import Experiment
from ..run.perform import perform
from ..run.records import Record, failure
from .stage import Request

USUAL = {"job_name": "fairseq_idpg", "gpus_per_node": 1, "cpus_per_task": 4, "time": 24 * 60}
ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "REQUEUED", "COMPLETING"}
AT_ONCE = 100


class Slurm:
    """A job for each run; --slurm gives partition, time (minutes), gpus_per_node, cpus_per_task and so on.

    Jobs of a sweep that was killed, waiting or at work, are taken over.
    """

    interval = 10.0

    def __init__(self, folder: Path, jobs: int | None, settings: Sequence[str]):
        setup = [] if PARENT else [f"export PYTHONPATH={shlex.quote(str(ROOT))}${{PYTHONPATH:+:$PYTHONPATH}}"]
        with in_one_line():
            self.executor = submitit.SlurmExecutor(folder)
            self.executor.update_parameters(**{**USUAL, "setup": setup, **dict(map(_setting, settings))})
        self.folder, self.jobs = folder, jobs or AT_ONCE
        self.running: list[submitit.Job[Record]] = []

    def start(self, request: Request) -> SlurmJob | None:
        self.running = [job for job in self.running if not job.done()]
        if len(self.running) >= self.jobs:
            return None
        number = request.folder / "slurm_job"
        job = self._left_behind(number) or self._submit(request)
        request.folder.mkdir(parents=True, exist_ok=True)
        write_text(number, job.job_id)
        self.running.append(job)
        return SlurmJob(job, request)

    def _left_behind(self, number: Path) -> submitit.Job[Record] | None:
        """The job with this number, if it waits or is at work."""
        if not number.is_file():
            return None
        job: submitit.SlurmJob[Record] = submitit.SlurmJob(self.folder, number.read_text(encoding="utf-8"))
        ended = job.paths.result_pickle.exists()
        return None if ended or job.watcher.get_state(job.job_id, mode="force") not in ALIVE else job

    def _submit(self, request: Request) -> submitit.Job[Record]:
        with in_one_line():
            return self.executor.submit(perform_quietly, *request[1:])


class SlurmJob:
    def __init__(self, job: submitit.Job[Record], request: Request):
        self.job, self.request = job, request

    def done(self) -> bool:
        return self.job.done()

    def record(self) -> Record:
        try:
            return self.request.finished() or self.job.result()
        except Exception as error:
            return failure(f"the job died: {_last_line(error)} (log: {self.job.paths.stderr})")

    def cancel(self) -> None:
        self.job.cancel(check=False)


def perform_quietly(experiment: Experiment, results: Path, keep_whole_model: bool) -> Record:
    """What a job does: a failure is a record as well."""
    try:
        return perform(experiment, results, keep_whole_model=keep_whole_model)
    except Exception as error:
        return failure(error)


@contextlib.contextmanager
def in_one_line() -> Iterator[None]:
    """Make one line of what submitit or sbatch says."""
    try:
        yield
    except Exception as error:
        raise InputError(f"--cluster slurm: {reason_of(error, None)}") from None


def _setting(text: str) -> tuple[str, Any]:
    """A KEY=VALUE of --slurm."""
    name, _, value = text.partition("=")
    return name, int(value) if value.isdecimal() else value


def _last_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
