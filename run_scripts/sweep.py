"""Runs a campaign: ``python -m run_scripts.sweep CONFIG.yaml [--cluster local|slurm] [--jobs N] [--dry-run]``.

A record for each finished run goes to RESULTS/results.jsonl. The same command goes on after a kill: what is there is
not run again, and what was begun resumes from its last checkpoint. A run that fails is tried once more.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, Sequence

from tqdm import tqdm

from preprocess.errors import DataError

from .cluster import CLUSTERS, Cluster
from .experiment import Experiment
from .perform import perform_quietly
from .records import Record, RunError, append_record, only_one, read_records
from .splits import splits_of
from .sweep_config import experiments, read_sweep

ATTEMPTS = 2


def missing(all_runs: dict[str, Experiment], results: Path) -> dict[str, Experiment]:
    """The runs without a record that they are done; records that a killed sweep could not collect are collected."""
    done = {record["run"] for record in read_records(results) if record["status"] == "done"}
    for run in all_runs.keys() - done:
        if (results / "runs" / run / "record.json").is_file():
            append_record(results, perform_quietly(all_runs[run], results))
            done.add(run)
    return {run: experiment for run, experiment in all_runs.items() if run not in done}


def failure(experiment: Experiment, run: str, error: str) -> Record:
    return {"run": run, **asdict(experiment), "setting": experiment.setting, "status": "failed", "error": error}


class Progress:
    """A bar with what is done, running and failed, and a line for each run that ends."""

    def __init__(self, total: int, done: int):
        self.failed = 0
        self.bar = tqdm(total=total, initial=done, unit="run", dynamic_ncols=True)

    def running(self, count: int) -> None:
        self.bar.set_postfix(running=count, failed=self.failed, refresh=sys.stderr.isatty())

    def ended(self, experiment: Experiment, record: Record) -> None:
        if record["status"] == "done":
            said = f"dev {record['dev']:.1f}, test {record['test']:.1f}, {record['seconds']:.0f} s"
        else:
            self.failed += 1
            said = f"FAILED: {record['error']}"
        self.bar.write(f"{experiment}: {said}")
        self.bar.update()


def run_all(
    waiting: dict[str, Experiment], results: Path, cluster: Cluster, progress: Progress, wait: Callable[[], None]
) -> None:
    """Keeps the cluster busy until every run has ended; appends the records in the order in which they end."""
    queue = deque((run, experiment, 1) for run, experiment in waiting.items())
    running: dict[Any, tuple[str, Experiment, int]] = {}
    while queue or running:
        while queue and cluster.free:
            entry = queue.popleft()
            running[cluster.submit(perform_quietly, entry[1], results)] = entry
        for job in [job for job in running if job.done()]:
            run, experiment, attempt = running.pop(job)
            record = cluster.collect(job)
            if record.get("status") != "done":
                if attempt < ATTEMPTS:
                    queue.append((run, experiment, attempt + 1))
                    continue
                record = failure(experiment, run, record["error"])
            append_record(results, record)
            progress.ended(experiment, record)
        progress.running(len(running))
        wait()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m run_scripts.sweep", description=(__doc__ or "").split("\n")[0])
    add = made.add_argument
    add("config", type=Path, metavar="CONFIG.yaml")
    add("--results", type=Path, metavar="DIR", help="default: results/CONFIG")
    add("--cluster", choices=list(CLUSTERS), default="local")
    add("--jobs", type=int, help="runs at a time (default: one for each GPU, or one)")
    add("--slurm", nargs="+", default=[], metavar="KEY=VALUE", help="for sbatch: partition=gpu time=600 ...")
    add("--dry-run", action="store_true", help="list the runs that are missing, and run nothing")
    return made


def main(argv: Sequence[str] | None = None) -> None:
    args = parser().parse_args(argv)
    results = (args.results or Path("results") / args.config.stem).absolute()
    if args.jobs is not None and args.jobs < 1:
        raise RunError(f"--jobs {args.jobs}: give 1 or more")
    try:
        sweep(args, results)
    except DataError as error:
        raise RunError(str(error)) from None
    except KeyboardInterrupt:
        raise RunError("interrupted; the same command goes on") from None


def sweep(args: argparse.Namespace, results: Path) -> None:
    all_runs = {experiment.run: experiment for experiment in experiments(read_sweep(args.config))}
    if args.dry_run:
        waiting = missing(all_runs, results)
        for run, experiment in waiting.items():
            print(run, experiment, *experiment.options)
        print(f"{len(waiting)} of {len(all_runs)} runs are missing in {results}")
        return
    with only_one(results):
        for experiment in all_runs.values():  # too few examples are found now and not after hours
            splits_of(experiment, results / "data")
        waiting = missing(all_runs, results)
        cluster = CLUSTERS[args.cluster](results / "jobs", args.jobs, args.slurm)
        progress = Progress(len(all_runs), len(all_runs) - len(waiting))
        try:
            run_all(waiting, results, cluster, progress, lambda: time.sleep(cluster.interval))
        finally:
            progress.bar.close()
            cluster.cancel()
    print(f"{results / 'results.jsonl'}: {len(all_runs)} runs, {progress.failed} failed", flush=True)
    if progress.failed:
        sys.exit(1)


if __name__ == "__main__":
    os.environ.setdefault("TQDM_MININTERVAL", "1")
    main()
