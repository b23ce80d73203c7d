"""Runs cases, each in a process of its own (step_worker.py), in turns: benchmarks/step_time.py says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any

from step_cases import Case
from step_report import Figures, step_seconds
from step_settings import Settings

from preprocess.errors import InputError
from preprocess.writing import write_text

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "benchmarks" / ".peers"


class Worker:
    """A case's process; ``figures`` grows with each answer, or ends with an ``error``."""

    def __init__(self, case: Case, settings: Settings, log: Path):
        self.case, self.log = case, log
        self.figures: dict[str, Any] = {}
        self.seconds: list[float] = []
        environment = {**os.environ, "OMP_NUM_THREADS": str(settings.threads), "TOKENIZERS_PARALLELISM": "false"}
        if case.peer:
            paths = [str(PEERS), environment.get("PYTHONPATH", "")]
            environment.update(PYTHONPATH=os.pathsep.join(filter(None, paths)), HF_HUB_OFFLINE="1")
        command = [sys.executable, str(Path(__file__).with_name("step_worker.py"))]
        with open(log, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.requests, self.answers = self.process.stdin, self.process.stdout
        self.ask({"case": asdict(case), **asdict(settings)})

    def ask(self, request: dict[str, Any]) -> None:
        try:
            self.requests.write(json.dumps(request) + "\n")
            self.requests.flush()
        except BrokenPipeError:
            pass  # it has ended: the answer says how

    def answer(self) -> dict[str, Any]:
        line = self.answers.readline()
        found = json.loads(line) if line else {"error": f"its process ended with exit status {self.process.wait()}"}
        if "error" in found:
            self.figures["error"] = found["error"]
        return found

    def build(self) -> None:
        self.figures.update(self.answer())

    def run(self, steps: int, warm_up: bool) -> None:
        if "error" in self.figures:
            return
        self.ask({"run": steps})
        found = self.answer()
        if "error" not in found:
            self.figures.update(peak_mib=found["peak_mib"], skipped=found["skipped"])
            self.seconds += [] if warm_up else found["seconds"]

    def finish(self, steps: int) -> None:
        """The case's figures, of rounds of so many steps; none but the error where it failed."""
        if "error" in self.figures:
            self.figures = {"error": self.figures["error"]}
            return
        rounds = [self.seconds[start : start + steps] for start in range(0, len(self.seconds), steps)]
        self.figures["median_s"] = step_seconds(rounds)
        self.figures["tokens_per_s"] = self.figures["tokens"] / self.figures["median_s"]
        self.figures["rounds_s"] = [mean(seconds) for seconds in rounds]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.requests.close()
        self.answers.close()


def measure(cases: list[Case], settings: Settings, rounds: int, label: str = "") -> tuple[Figures, list[str]]:
    """(figures of each case, the cases of this plugin and of fairseq that failed); the first one's log is shown.

    ``label`` goes before the progress.
    """
    with tempfile.TemporaryDirectory() as folder:
        figures = _measure(cases, settings, rounds, Path(folder), label)
        failed = [case.name for case in cases if "error" in figures[case.name] and not case.peer]
        progress("")
        for name in failed[:1]:
            print(Path(folder, name).read_text(encoding="utf-8"), file=sys.stderr)
    return figures, failed


def _measure(cases: list[Case], settings: Settings, rounds: int, logs: Path, label: str) -> Figures:
    """On a CPU the cases take turns after every step, so that a slow minute is in all of them; after every round on a
    GPU, whose memory is given back at each turn.
    """
    each = 1 if settings.device == "cpu" else settings.steps
    workers: list[Worker] = []
    try:
        for case in cases:
            workers.append(Worker(case, settings, logs / case.name))
        for worker in workers:
            worker.build()
        check_batches(workers)
        for number in range(rounds + 1):
            progress(label + ("warm-up" if number == 0 else f"round {number} of {rounds}"))
            for turn in range(settings.steps // each):
                for worker in workers if (number + turn) % 2 else workers[::-1]:
                    worker.run(each, warm_up=number == 0)
        for worker in workers:
            worker.finish(settings.steps)
    finally:
        for worker in workers:
            worker.stop()
    return {worker.case.name: worker.figures for worker in workers}


def check_batches(workers: list[Worker]) -> None:
    """Every case must have drawn the same."""
    built = [worker for worker in workers if "error" not in worker.figures]
    assert len({worker.figures["examples"] for worker in built}) <= 1, "the cases' examples differ"
    for grouped in (False, True):
        found = {worker.figures["batches"] for worker in built if worker.case.grouped == grouped}
        assert len(found) <= 1, "the cases' batches differ"


def check_names(names: list[str], known: list[str]) -> None:
    """Raises InputError for a case that is not ``known``."""
    for name in names:
        if name not in known:
            raise InputError(f"--cases {name} is unknown: choose from {', '.join(known)}")


def check_peers(cases: list[Case]) -> None:
    """Raises InputError for a peer that is installed neither for the benchmarks nor in this environment."""
    for case in cases:
        if case.peer and not PEERS.is_dir() and find_spec(case.maker) is None:
            raise InputError(f"{case.maker} is not installed: run bash benchmarks/setup_peers.sh, or give --no-peers")


def check_device(device: str) -> None:
    """Raises InputError for a device that torch cannot use here."""
    if device == "cpu":
        return
    from step_device import why_not  # and torch with it, which this process does not need otherwise

    problem = why_not(device)
    if problem:
        raise InputError(problem)


def check_folder(option: str, path: Path | None) -> None:
    """Raises InputError for a file that would be written into a folder that is not there."""
    if path and not path.resolve().parent.is_dir():
        raise InputError(f"{option} {path}: its folder does not exist")


def write_json(path: Path, found: Any) -> None:
    write_text(path, json.dumps(found, indent=1) + "\n")


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
