"""The missing runs of a sweep, made by processes on this machine or by jobs of Slurm."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm import tqdm

from preprocess.errors import InputError, reason_of
from preprocess.writing import write_text

from .. import PARENT, ROOT, module
from ..report.records import has_finished
from ..run.experiment import Experiment
from ..run.fairseq_train import TORCHRUN, child_environment
from ..run.perform import described, finished_record, perform, unanswered
from ..run.records import DIVERGED, EXPERIMENT, FILE, Record, append_record, failure, read_records, run_folder

if TYPE_CHECKING:
    import submitit

ATTEMPTS = 2
BAR = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} runs: {desc} [{elapsed}, {remaining} left]"
SLURM_USUAL = {"job_name": "fairseq_idpg", "gpus_per_node": 1, "cpus_per_task": 4, "time": 24 * 60}
SLURM_SHORT = {"tasks_per_node": "ntasks_per_node", "timeout_min": "time", "name": "job_name"}
SLURM_ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "REQUEUED", "COMPLETING"}
SLURM_AT_ONCE = 100


class Request(NamedTuple):
    """A run to make, and the arguments of ``perform``."""

    run: str
    experiment: Experiment
    results: Path
    keep_whole_model: bool

    @property
    def folder(self) -> Path:
        return run_folder(self.results, self.run)

    def finished_record(self) -> Record | None:
        """Return the run's record, if it is done and has answered all of its other tasks."""
        return finished_record(self.results, self.run, self.experiment)


class Local:
    """At most ``jobs`` processes, which share out this machine's cores, and its GPUs in turn."""

    interval = 0.5  # seconds between looks at the jobs

    def __init__(self, folder: Path, jobs: int | None, settings: Sequence[str]):
        import torch

        named = os.environ.get("CUDA_VISIBLE_DEVICES")
        count = torch.cuda.device_count()
        self.gpus = named.split(",")[:count] if named else [str(gpu) for gpu in range(count)]
        self.jobs = jobs or max(1, count)
        self.running: dict[int, LocalJob] = {}  # by slot, a part of the machine

    def start(self, request: Request) -> LocalJob | None:
        """Start a job; return None while all slots are taken."""
        self.running = {slot: job for slot, job in self.running.items() if not job.done()}
        slot = next((slot for slot in range(self.jobs) if slot not in self.running), None)
        if slot is None:
            return None
        self.running[slot] = LocalJob(request, self.place(slot))
        return self.running[slot]

    def place(self, slot: int) -> dict[str, str]:
        """Return the environment variables that give a slot its cores and GPU."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        threads = os.environ.get("OMP_NUM_THREADS", str(max(1, cores // self.jobs)))
        gpu = {"CUDA_VISIBLE_DEVICES": self.gpus[slot % len(self.gpus)]} if self.gpus else {}
        return {"OMP_NUM_THREADS": threads, **gpu}


class LocalJob:
    """A process of ``python -m run_scripts.run.perform``."""

    def __init__(self, request: Request, place: Mapping[str, str]):
        self.log = request.folder / "job.log"
        request.folder.mkdir(parents=True, exist_ok=True)
        write_text(request.folder / EXPERIMENT, request.experiment.to_json())
        words = [str(request.results), request.run, *["--keep-whole-model"] * request.keep_whole_model]
        command = [sys.executable, "-m", module("run_scripts.run.perform"), *words]
        with open(self.log, "w") as log:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT}
            self.process = subprocess.Popen(command, env={**child_environment(), **place}, **streams)

    def done(self) -> bool:
        return self.process.poll() is not None

    def record(self) -> Record:
        """Return a failure with the last line that the job wrote: a run that succeeds leaves its own record."""
        status = self.process.returncode
        if status < 0:
            return failure(f"the job was killed by signal {-status} (log: {self.log})")
        lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
        return failure(next(filter(str.strip, reversed(lines)), f"the job ended with status {status}"))

    def cancel(self) -> None:
        self.process.terminate()
        self.process.wait()


class Slurm:
    """A job for each run; takes over the jobs of a sweep that was killed.

    ``settings``: partition, time (minutes), gpus_per_node, cpus_per_task and other NAME=VALUE of submitit. With
    ``nodes`` above 1, the script of a job says how its training starts on each of them.
    """

    interval = 10.0

    def __init__(self, folder: Path, jobs: int | None, settings: Sequence[str]):
        import submitit

        parameters = slurm_parameters(settings)
        with in_one_line():
            self.executor = submitit.SlurmExecutor(folder)
            self.executor.update_parameters(**parameters)
        self.folder, self.jobs = folder, jobs or SLURM_AT_ONCE
        self.running: list[submitit.Job[Record]] = []

    def start(self, request: Request) -> SlurmJob | None:
        """Submit or take over a job; return None while as many are under way as may be."""
        self.running = [job for job in self.running if not job.done()]
        if len(self.running) >= self.jobs:
            return None
        number = request.folder / "slurm_job"
        job = self._left_behind(number)
        if job is None:
            with in_one_line():
                job = self.executor.submit(perform_quietly, *request[1:])
        request.folder.mkdir(parents=True, exist_ok=True)
        write_text(number, job.job_id)
        self.running.append(job)
        return SlurmJob(job)

    def _left_behind(self, number: Path) -> submitit.Job[Record] | None:
        """Return the job whose number a file holds, if it waits or is at work."""
        import submitit

        if not number.is_file():
            return None
        job: submitit.SlurmJob[Record] = submitit.SlurmJob(self.folder, number.read_text(encoding="utf-8"))
        ended = job.paths.result_pickle.exists()
        return None if ended or job.watcher.get_state(job.job_id, mode="force") not in SLURM_ALIVE else job


def slurm_parameters(settings: Sequence[str]) -> dict[str, Any]:
    setup = [] if PARENT else [f"export PYTHONPATH={shlex.quote(str(ROOT))}${{PYTHONPATH:+:$PYTHONPATH}}"]
    found: dict[str, Any] = {**SLURM_USUAL, "setup": setup}
    for name, _, value in (setting.partition("=") for setting in settings):
        found[SLURM_SHORT.get(name, name)] = int(value) if value.isdecimal() else value
    if (nodes := found.get("nodes", 1)) != 1:
        processes = found.pop("ntasks_per_node", found["gpus_per_node"] or 1)
        # submitit would wait for a result of each task; the run is one process, whose training is started by srun
        layout = {"nodes": found.pop("nodes"), "ntasks_per_node": processes}
        found |= {"use_srun": False, "additional_parameters": layout}
        start = f"srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --kill-on-bad-exit"
        start += f" --cpus-per-task={processes * found['cpus_per_task']} {shlex.quote(sys.executable)}"
        words = f"-m torch.distributed.run --nnodes {nodes} --nproc_per_node {processes} --rdzv_backend c10d"
        host = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
        place = f"--rdzv_id $SLURM_JOB_ID --rdzv_endpoint {host}:29400"
        setup.append(f'export {TORCHRUN}="{start} {words} {place}"')
    return found


class SlurmJob:
    def __init__(self, job: submitit.Job[Record]):
        self.job = job

    def done(self) -> bool:
        return self.job.done()

    def record(self) -> Record:
        try:
            return self.job.result()
        except Exception as error:
            last_line = (str(error).strip() or type(error).__name__).splitlines()[-1]
            return failure(f"the job died: {last_line} (log: {self.job.paths.stderr})")

    def cancel(self) -> None:
        self.job.cancel(check=False)


def perform_quietly(experiment: Experiment, results: Path, keep_whole_model: bool) -> Record:
    """Return the record of a run, also where it failed."""
    try:
        return perform(experiment, results, keep_whole_model=keep_whole_model)
    except Exception as error:
        return failure(error)


@contextlib.contextmanager
def in_one_line() -> Iterator[None]:
    """Raise an error of submitit or sbatch as InputError."""
    try:
        yield
    except Exception as error:
        raise InputError(f"--cluster slurm: {reason_of(error, None)}") from None


Cluster = Local | Slurm
Job = LocalJob | SlurmJob


def missing(runs: Mapping[str, Experiment], results: Path) -> list[str]:
    """Return the runs to make: those that neither succeeded on all their tasks nor diverged."""
    records = [record for record in read_records(results) if record["run"] in runs]
    done = [record for record in records if has_finished(record) and not unanswered(record, runs[record["run"]])]
    ended = {record["run"] for record in (*filter(has_diverged, records), *done)}
    return [run for run in runs if run not in ended]


def has_diverged(record: Record) -> bool:
    return record.get("reason") == DIVERGED


class Stage:
    """Runs by their identity, and the folder of results that this process alone fills."""

    def __init__(self, runs: Mapping[str, Experiment], results: Path, cluster: Cluster, keep_whole_models: bool):
        self.runs, self.results, self.cluster, self.keep_whole_models = runs, results, cluster, keep_whole_models
        self.queue = deque((run, 1) for run in missing(runs, results))  # (run, number of the attempt)
        self.running: dict[Job, tuple[Request, int]] = {}
        self.failed = self.diverged = 0  # diverged: in this sweep or an earlier one

    def finish(self) -> int:
        """Keep the cluster busy until every run has ended; return how many failed, besides those ``diverged``."""
        done = len(self.runs) - len(self.queue)
        self.bar = tqdm(total=len(self.runs), initial=done, bar_format=BAR, desc=f"{done} done", dynamic_ncols=True)
        for record in read_records(self.results):
            if record["run"] in self.runs and has_diverged(record):
                self.diverged += 1
                reason = f"diverged before, and is not tried again as long as its line is in {self.results / FILE}"
                self.bar.write(f"{self.runs[record['run']]}: {reason}")
        try:
            while self.queue or self.running:
                self._start()
                for job in [job for job in self.running if job.done()]:
                    request, attempt = self.running.pop(job)
                    self._end(request, attempt, request.finished_record() or job.record())
                counts = f"{self.bar.n - self.failed} done, {len(self.running)} running, {self.failed} failed"
                self.bar.set_description_str(counts, refresh=sys.stderr.isatty())
                if self.running or self.queue:
                    time.sleep(self.cluster.interval)
        finally:
            self.bar.close()
            for job in self.running:
                job.cancel()
        return self.failed

    def _start(self) -> None:
        """Start jobs until the queue is empty or the cluster takes no more."""
        while self.queue:
            run, attempt = self.queue[0]
            request = Request(run, self.runs[run], self.results, self.keep_whole_models)
            record = request.finished_record()  # by a job that outlived its sweep
            job = None if record else self.cluster.start(request)
            if job is not None:
                self.running[job] = request, attempt
            elif record is None:
                return
            self.queue.popleft()
            if record is not None:
                self._end(request, attempt, record)

    def _end(self, request: Request, attempt: int, record: Record) -> None:
        """Append the record of a run, or put the run back into the queue."""
        run, experiment = request.run, request.experiment
        if has_finished(record):
            outcome = f"dev {record['dev']:.1f}, test {record['test']:.1f}, {record['seconds']:.0f} s"
        elif attempt < ATTEMPTS and not record.get("reason"):
            self.bar.write(f"{experiment}: failed, will be tried again: {record['error']}")
            self.queue.append((run, attempt + 1))
            return
        else:
            outcome = f"{(record.get('reason') or 'failed').upper()}: {record['error']}"
            self.diverged += has_diverged(record)
            self.failed += not has_diverged(record)
            record = {**described(experiment, run), **record}
        # A run that is trained stays done, even if it could not answer another task.
        append_record(self.results, finished_record(self.results, run) or record)
        self.bar.write(f"{experiment}: {outcome}")
        self.bar.update()
