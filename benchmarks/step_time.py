"""Seconds of a training step of every method, beside the same methods of peft and AdapterHub, measured in one run.

    python benchmarks/step_time.py [--json FILE] [--no-peers] [--cases m-idpg-phm prompt-tuning ...]

A step is forward, backward and Adam over what is trained, in float32 on the CPU, on a random RoBERTa of 24 layers and
width 256 with dropout 0.1; batches of 16 sentences of about 40 tokens, the same for all cases. Every case is a process
of its own (so its peak memory is its own); they take turns, and while one runs, the others sleep. A case's figure is
the mean over the batches of each one's median over the rounds. The peers need bash benchmarks/setup_peers.sh once.

"floor" is stock fairseq's RoBERTa, frozen, with a gradient to the word embeddings, on the rows that prompt tuning runs
(the text and 5 rows more); "floor-text" is the same on the text alone. "- built" is the peak above what the process
held with imports and model. Peers have as many rows (5) and hidden units (16) as ours; trainable is without the head.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

from step_cases import CASES, Case, chosen
from step_report import Figures, step_seconds, table, targets

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "benchmarks" / ".peers"
NUMBERS = ("layers", "width", "ffn", "heads", "batch", "rounds", "steps", "threads")


class Refused(Exception):
    """Input that cannot be measured; its text is shown as one line."""


class Worker:
    """A case's process; ``figures`` grows with each answer, or ends with an ``error``."""

    def __init__(self, case: Case, settings: dict[str, int], log: Path):
        self.case, self.log, self.figures, self.rounds = case, log, {}, []
        environment = {**os.environ, "OMP_NUM_THREADS": str(settings["threads"]), "TOKENIZERS_PARALLELISM": "false"}
        environment.pop("PYTHONPATH", None)
        if case.peer:
            environment.update(PYTHONPATH=str(PEERS), HF_HUB_OFFLINE="1")
        command = [sys.executable, str(Path(__file__).with_name("step_worker.py"))]
        with open(log, "w", encoding="utf-8") as errors:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes)
        self.ask({"case": case.name, **settings})

    def ask(self, request: dict[str, Any]) -> None:
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: the answer says how

    def answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
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
            self.figures["peak_mib"] = found["peak_mib"]
            self.rounds += [] if warm_up else [found["seconds"]]

    def finish(self) -> None:
        """The case's figures; none but the error where it failed."""
        if "error" in self.figures:
            self.figures = {"error": self.figures["error"]}
        else:
            self.figures["median_s"] = step_seconds(self.rounds)
            self.figures["rounds_s"] = [mean(seconds) for seconds in self.rounds]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def measure(cases: list[Case], settings: dict[str, int], rounds: int, logs: Path) -> Figures:
    workers: list[Worker] = []
    try:
        for case in cases:
            workers.append(Worker(case, settings, logs / case.name))
        for worker in workers:
            worker.build()
        check_batches(workers)
        for number in range(rounds + 1):
            progress("warm-up" if number == 0 else f"round {number} of {rounds}")
            for worker in workers if number % 2 else workers[::-1]:
                worker.run(settings["steps"], warm_up=number == 0)
        for worker in workers:
            worker.finish()
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


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    defaults = {"layers": 24, "width": 256, "ffn": 1024, "heads": 4, "batch": 16, "rounds": 5, "steps": 8, "threads": 2}
    helps = {"rounds": "after one to warm up", "steps": "batches: each round runs all of them"}
    for name in NUMBERS:
        text = f"{helps.get(name, '')} (default {defaults[name]})".strip()
        parser.add_argument(f"--{name}", type=int, default=defaults[name], help=text)
    parser.add_argument("--cases", nargs="+", metavar="CASE", help=f"default: all of {', '.join(CASES)}")
    parser.add_argument("--no-peers", action="store_true", help="leave peft and adapters out")
    parser.add_argument("--json", type=Path, help="save the figures")
    return parser.parse_args(arguments)


def check(args: argparse.Namespace) -> list[Case]:
    """The cases to measure.

    Raises:
        Refused: numbers or names that cannot be measured; peers that are not installed.
    """
    for name in NUMBERS:
        if getattr(args, name) < 1:
            raise Refused(f"--{name} {getattr(args, name)} is too small: give 1 or more")
    if args.width % args.heads:
        raise Refused(f"--width {args.width} is no multiple of --heads {args.heads}")
    for name in args.cases or []:
        if name not in CASES:
            raise Refused(f"--cases {name} is unknown: choose from {', '.join(CASES)}")
    cases = chosen(args.cases or list(CASES))
    if args.no_peers:
        if args.cases and any(case.peer for case in cases):
            raise Refused("--no-peers and --cases with peers exclude each other: leave one of them out")
        cases = [case for case in cases if not case.peer]
    if any(case.peer for case in cases) and not PEERS.is_dir():
        raise Refused("peft and adapters are not installed: run bash benchmarks/setup_peers.sh, or give --no-peers")
    if args.json and not args.json.resolve().parent.is_dir():
        raise Refused(f"--json {args.json}: its folder does not exist")
    return cases


def main() -> None:
    args = parse(sys.argv[1:])
    try:
        cases = check(args)
    except Refused as error:
        sys.exit(f"error: {error}")
    settings = {name: getattr(args, name) for name in NUMBERS if name != "rounds"}
    with tempfile.TemporaryDirectory() as logs:
        figures = measure(cases, settings, args.rounds, Path(logs))
        failed = [case.name for case in cases if "error" in figures[case.name] and not case.peer]
        progress("")
        for name in failed[:1]:
            print(Path(logs, name).read_text(encoding="utf-8"), file=sys.stderr)
    versions = {name: number for found in figures.values() for name, number in found.get("libraries", {}).items()}
    print(f"{args.layers} layers, width {args.width}, batch {args.batch}, {args.threads} threads; ", end="")
    print(f"{args.steps} batches in each of {args.rounds} rounds; ", end="")
    print(", ".join(f"{name} {number}" for name, number in versions.items()))
    print("\n".join(table(figures)))
    block = targets(figures)
    if block:
        print("\n".join(["", "targets", *block]))
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if failed:
        sys.exit(f"error: {', '.join(failed)} failed, see above")


if __name__ == "__main__":
    main()
