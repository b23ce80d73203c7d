"""Where runs are executed: processes on this machine, or jobs of Slurm, both through submitit."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, Callable, Sequence

import submitit

from .perform import Place
from .records import Record, RunError


class Cluster:
    """At most ``jobs`` runs at a time, each with a slot of its own.

    Attributes:
        interval: seconds between looks at the jobs.
    """

    interval = 0.5

    def __init__(self, folder: Path, jobs: int | None, settings: Sequence[str]):
        self.folder, self.jobs = folder, jobs or self.default_jobs()
        self.slots = list(range(self.jobs))[::-1]
        self.running: dict[Any, int] = {}
        self.settings = dict(self._pair(setting) for setting in settings)

    @staticmethod
    def _pair(setting: str) -> tuple[str, str]:
        name, equals, value = setting.partition("=")
        if not equals:
            raise RunError(f"--slurm {setting} is no KEY=VALUE: write, say, partition=gpu")
        return name, value

    def default_jobs(self) -> int:
        return 1

    @property
    def free(self) -> bool:
        return bool(self.slots)

    def submit(self, function: Callable[..., Record], *arguments: Any) -> Any:
        """Starts ``function(*arguments, place=...)``; the job says when it is done."""
        slot = self.slots.pop()
        job = self.executor(slot).submit(partial(function, place=self.place(slot)), *arguments)
        self.running[job] = slot
        return job

    def collect(self, job: Any) -> Record:
        """What the job returned; a job that died returns a failure that says where its output is."""
        self.slots.append(self.running.pop(job))
        try:
            return job.result()
        except Exception as error:
            last = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            return {"status": "failed", "error": f"the job died: {last} (log: {job.paths.stderr})"}

    def cancel(self) -> None:
        for job in self.running:
            job.cancel()

    def executor(self, slot: int) -> Any:
        raise NotImplementedError

    def place(self, slot: int) -> Place:
        raise NotImplementedError


class Local(Cluster):
    """This machine's cores are shared out among the jobs, its GPUs given to them in turn."""

    def __init__(self, folder: Path, jobs: int | None, settings: Sequence[str]):
        import torch

        self.gpus = torch.cuda.device_count()
        if settings:
            raise RunError("--slurm goes with --cluster slurm: leave it out")
        super().__init__(folder, jobs, settings)

    def default_jobs(self) -> int:
        return max(1, self.gpus)

    def executor(self, slot: int) -> submitit.LocalExecutor:
        made = submitit.LocalExecutor(self.folder)
        gpu = self.place(slot).gpu
        made.update_parameters(gpus_per_node=int(gpu is not None), visible_gpus=[] if gpu is None else [gpu])
        return made

    def place(self, slot: int) -> Place:
        threads = max(1, (os.cpu_count() or 1) // self.jobs)
        return Place(threads, slot % self.gpus if self.gpus else None)


class Slurm(Cluster):
    """A job for each run; --slurm gives partition, time (minutes), gpus_per_node, cpus_per_task and so on."""

    interval = 10

    def default_jobs(self) -> int:
        return 100

    def executor(self, slot: int) -> submitit.SlurmExecutor:
        made = submitit.SlurmExecutor(self.folder)
        usual = {"job_name": "fairseq_idpg", "gpus_per_node": 1, "cpus_per_task": 4, "time": 24 * 60}
        given = {name: int(value) if value.isdecimal() else value for name, value in self.settings.items()}
        made.update_parameters(**{**usual, **given})
        return made

    def place(self, slot: int) -> Place:
        return Place()


CLUSTERS: dict[str, type[Cluster]] = {"local": Local, "slurm": Slurm}
