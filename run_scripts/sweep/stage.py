"""Makes the records of a sweep's runs that are missing, on whatever executes them, and says how far it is."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from tqdm import tqdm

from ..run.experiment import Experiment
from ..run.perform import described, finished, has_all_scores
from ..run.records import DIVERGED, FILE, Record, append_record, read_records, run_folder

ATTEMPTS = 2
BAR = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} runs: {desc} [{elapsed}, {remaining} left]"


class Request(NamedTuple):
    """A run that is wanted, and what ``perform`` is to be told."""

    run: str
    experiment: Experiment
    results: Path
    keep_whole_model: bool

    @property
    def folder(self) -> Path:
        return run_folder(self.results, self.run)

    def finished(self) -> Record | None:
        """The run's record, if it is done and has answered all tasks that it is to answer."""
        return finished(self.results, self.run, self.experiment)


class Job(Protocol):
    """A run that was started."""

    def done(self) -> bool: ...

    def record(self) -> Record:
        """Of a job that is done: the run's record, or a failure."""

    def cancel(self) -> None: ...


class Cluster(Protocol):
    """What starts runs.

    Attributes:
        interval: seconds between looks at the jobs.
    """

    interval: float

    def start(self, request: Request) -> Job | None:
        """A job, or None where there is no room for one now."""


def missing(runs: Mapping[str, Experiment], results: Path) -> list[str]:
    """The runs that have neither succeeded, with all tasks that they are to answer, nor diverged: those would again.

    Those of a backbone come together, so that its file stays in the system's memory.
    """
    records = [record for record in read_records(results) if record["run"] in runs]
    ended = {record["run"] for record in records if has_diverged(record) or _is_done(record, runs[record["run"]])}
    left = [run for run in runs if run not in ended]
    backbones = list(dict.fromkeys(runs[run].backbone for run in left))
    return sorted(left, key=lambda run: backbones.index(runs[run].backbone))


def _is_done(record: Record, experiment: Experiment) -> bool:
    return record.get("status") == "done" and has_all_scores(record, experiment)


def has_diverged(record: Record) -> bool:
    return record.get("reason") == DIVERGED


class Progress:
    """A bar with what is done, running and failed and the time left, and a line for each run that ends."""

    def __init__(self, total: int, done: int):
        self.failed = 0  # diverged ones among them
        self.bar = tqdm(total=total, initial=done, bar_format=BAR, desc=f"{done} done", dynamic_ncols=True)

    def running(self, count: int) -> None:
        said = f"{self.bar.n - self.failed} done, {count} running, {self.failed} failed"
        self.bar.set_description_str(said, refresh=sys.stderr.isatty())

    def ended(self, experiment: Experiment, record: Record) -> None:
        if record["status"] == "done":
            said = f"dev {record['dev']:.1f}, test {record['test']:.1f}, {record['seconds']:.0f} s"
        else:
            self.failed += 1
            said = f"{(record.get('reason') or 'failed').upper()}: {record['error']}"
        self.bar.write(f"{experiment}: {said}")
        self.bar.update()


class Stage:
    """Runs by their identity, and the folder of results that they go to, which no other process fills."""

    def __init__(self, runs: Mapping[str, Experiment], results: Path, cluster: Cluster, keep_whole_models: bool):
        self.runs, self.results, self.cluster, self.keep_whole_models = runs, results, cluster, keep_whole_models
        self.queue = deque((run, 1) for run in missing(runs, results))  # (run, number of the attempt)
        self.running: dict[Job, tuple[str, int]] = {}
        self.diverged = 0
        self.orphans = False  # runs of a sweep that was killed have been spoken of

    def finish(self) -> int:
        """Keeps the cluster busy until every run has ended; how many failed, besides those that have ``diverged``.

        Records are appended in the order in which runs end. A failed run goes to the end of the queue once, unless it
        would fail again: it has diverged, or there is too little memory.
        """
        progress = Progress(len(self.runs), len(self.runs) - len(self.queue))
        for record in read_records(self.results):
            if record["run"] in self.runs and has_diverged(record):
                self.diverged += 1
                reason = f"diverged before, and is not tried again as long as its line is in {self.results / FILE}"
                progress.bar.write(f"{self.runs[record['run']]}: {reason}")
        before = self.diverged
        try:
            while self.queue or self.running:
                self._start(progress)
                self._collect(progress)
                progress.running(len(self.running))
                if self.running or self.queue:
                    time.sleep(self.cluster.interval)
        finally:
            progress.bar.close()
            for job in self.running:
                job.cancel()
        return progress.failed - (self.diverged - before)

    def _start(self, progress: Progress) -> None:
        while self.queue:
            run, attempt = self.queue[0]
            request = Request(run, self.runs[run], self.results, self.keep_whole_models)
            record = request.finished()  # by a job that outlived its sweep
            if record is None:
                job = self.cluster.start(request)
                if job is None:
                    break
                self.running[job] = run, attempt
            self.queue.popleft()
            if record is not None:
                self._ended(run, attempt, record, progress)
        if self.queue and not self.running and not self.orphans:
            self.orphans = True
            progress.bar.write("waiting for the jobs of a sweep that was killed: they are still at work")

    def _collect(self, progress: Progress) -> None:
        for job in [job for job in self.running if job.done()]:
            run, attempt = self.running.pop(job)
            self._ended(run, attempt, job.record(), progress)

    def _ended(self, run: str, attempt: int, record: Record, progress: Progress) -> None:
        experiment = self.runs[run]
        if record["status"] != "done" and attempt < ATTEMPTS and not record.get("reason"):
            progress.bar.write(f"{experiment}: failed, will be tried again: {record['error']}")
            self.queue.append((run, attempt + 1))
            return
        self.diverged += has_diverged(record)
        if record["status"] != "done":
            record = {**described(experiment, run), **record}
        trained = finished(self.results, run)  # also where another task could not be answered
        append_record(self.results, trained or record)
        progress.ended(experiment, record)
