"""Makes the records of a campaign that are missing, and says how far it is."""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path
from typing import Mapping

from tqdm import tqdm

from .cluster import Cluster, Job, Request
from .experiment import Experiment
from .perform import described, finished
from .records import Record, append_record, read_records

ATTEMPTS = 2
BAR = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} runs: {desc} [{elapsed}, {remaining} left]"


def missing(runs: Mapping[str, Experiment], results: Path) -> list[str]:
    """The runs that have no record of success yet."""
    done = {record["run"] for record in read_records(results) if record["status"] == "done"}
    return [run for run in runs if run not in done]


class Progress:
    """A bar with what is done, running and failed and the time left, and a line for each run that ends."""

    def __init__(self, total: int, done: int):
        self.failed = 0
        self.bar = tqdm(total=total, initial=done, bar_format=BAR, desc=f"{done} done", dynamic_ncols=True)

    def running(self, count: int) -> None:
        said = f"{self.bar.n - self.failed} done, {count} running, {self.failed} failed"
        self.bar.set_description_str(said, refresh=sys.stderr.isatty())

    def ended(self, experiment: Experiment, record: Record) -> None:
        if record["status"] == "done":
            said = f"dev {record['dev']:.1f}, test {record['test']:.1f}, {record['seconds']:.0f} s"
        else:
            self.failed += 1
            said = f"FAILED: {record['error']}"
        self.bar.write(f"{experiment}: {said}")
        self.bar.update()


class Campaign:
    """Runs by their identity, and a folder of results that no other campaign works in."""

    def __init__(self, runs: Mapping[str, Experiment], results: Path, cluster: Cluster, keep_whole_models: bool):
        self.runs, self.results, self.cluster, self.keep_whole_models = runs, results, cluster, keep_whole_models
        self.queue = deque((run, 1) for run in missing(runs, results))  # (run, number of the attempt)
        self.running: dict[Job, tuple[str, int]] = {}
        self.orphans = False  # runs of a sweep that was killed have been spoken of

    def finish(self) -> int:
        """Keeps the cluster busy until every run has ended; how many failed.

        Records are appended in the order in which runs end. A failed run goes to the end of the queue once.
        """
        progress = Progress(len(self.runs), len(self.runs) - len(self.queue))
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
        return progress.failed

    def _start(self, progress: Progress) -> None:
        while self.queue:
            run, attempt = self.queue[0]
            record = finished(self.results, run)  # by a job that outlived its sweep
            if record is None:
                job = self.cluster.start(Request(run, self.runs[run], self.results, self.keep_whole_models))
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
        if record["status"] != "done" and attempt < ATTEMPTS:
            progress.bar.write(f"{experiment}: failed, will be tried again: {record['error']}")
            self.queue.append((run, attempt + 1))
            return
        if record["status"] != "done":
            record = {**described(experiment, run), **record}
        append_record(self.results, record)
        progress.ended(experiment, record)
