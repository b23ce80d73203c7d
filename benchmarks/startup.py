"""Seconds and memory of what a training, a sweep's run and a prediction begin and end with, now and as it was before.

    python benchmarks/startup.py [--size roberta-large] [--clock cpu] [--rounds 3] [--json FILE]

On a random RoBERTa, whole processes, which take turns:

train   fairseq-train with one update of 2 pairs of sentences, and a checkpoint; no validation
sweep   python -m run_scripts.sweep with one run of one update: check, training, prediction, each of 2 pairs
load    what a trained checkpoint takes to become a model: imports come before, and the same in both

"before": every weight of the backbone is copied, the file is read whole in each process, its
CRC-32 and SHA-256 computed anew, and garbage is looked for among all objects at the end. "first": as it is, of a file
that nobody has looked at. "now": as it is, later.
--clock cpu counts the seconds that the processes computed, all of them together: what to compare on a machine that
others use as well. Memory is the peak of the largest process, with the part of the file that it has read, which
processes share.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, installed or not

from startup_files import size_options, write_backbone, write_folder, write_sweep
from step_measure import check_folder, write_json
from step_settings import SIZES, Settings, positive

from preprocess.errors import InputError, command_line

ROOT = Path(__file__).resolve().parents[1]
OLD = ROOT / "benchmarks" / "startup_old"
WAYS = ("before", "first", "now")
CASES = ("train", "sweep", "load")
SETTLED = 2.5  # seconds after which what was found out of a new file is noted
LOAD = """
import json, sys, time
from resource import RUSAGE_SELF, getrusage
from fairseq_idpg.inference.folder import load_on_folder
wall, cpu, peak = time.perf_counter(), time.process_time(), getrusage(RUSAGE_SELF).ru_maxrss
load_on_folder(sys.argv[1], sys.argv[2], True)
seconds = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps([*seconds, getrusage(RUSAGE_SELF).ru_maxrss]))
"""


class World:
    """The files below a new folder, and the commands on them."""

    def __init__(self, folder: Path, settings: Settings, method: str):
        self.folder, self.settings, self.method = folder, settings, method
        self.backbone, self.data = folder / "backbone" / "model.pt", folder / "RTE-bin"
        self.results, self.run = folder / "results", folder / "run"
        write_backbone(self.backbone, settings)
        write_folder(self.data)
        write_sweep(folder / "sweep.yaml", self.backbone, self.data, method, settings)
        time.sleep(SETTLED)

    def environment(self, way: str) -> dict[str, str]:
        paths = [str(OLD)] if way == "before" else []
        path = os.pathsep.join([*paths, str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        threads, cache = str(self.settings.threads), "off" if way == "before" else str(self.folder / "cache")
        fixed = {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "PASSIVE", "FAIRSEQ_IDPG_CACHE": cache}
        return {**os.environ, **fixed, "PYTHONPATH": path}

    def train(self) -> list[str]:
        options = {
            **{"user-dir": ROOT / "fairseq_idpg", "task": "sentence_prediction_idpg", "arch": "roberta_idpg"},
            **{"criterion": "sentence_prediction", "optimizer": "adam", "lr": 0.001, "num-classes": 2, "seed": 1},
            **{"init-token": 0, "separator-token": 2, "batch-size": 2, "max-update": 1, "max-positions": 512},
            **{"backbone": self.backbone, "method": self.method, "save-dir": self.run, **size_options(self.settings)},
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        start = "from fairseq_cli.train import cli_main; cli_main()"
        return [sys.executable, "-c", start, str(self.data), *words, "--cpu", "--disable-validation"]

    def sweep(self) -> list[str]:
        words = ["--results", str(self.results), "--jobs", "1"]
        return [sys.executable, "-m", "run_scripts.sweep", str(self.folder / "sweep.yaml"), *words]

    def load(self) -> list[str]:
        return [sys.executable, "-c", LOAD, str(self.run / "checkpoint_last.pt"), str(self.data)]

    def measure(self, case: str, way: str) -> dict[str, float]:
        """Seconds of both clocks, and MiB.

        Raises:
            InputError: the command failed.
        """
        shutil.rmtree(self.results, ignore_errors=True)
        if case == "train":
            shutil.rmtree(self.run, ignore_errors=True)
        if way == "first":
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
        log, start = self.folder / "log", time.perf_counter()
        with open(log, "w") as file:
            command, environment = getattr(self, case)(), self.environment(way)
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        lines = log.read_text().strip().splitlines() or [""]
        if process.returncode:
            raise InputError(f"{case}, {way}, ended with status {process.returncode}: {lines[-1]}")
        wall, cpu, peak = time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss
        if case == "load":
            wall, cpu, peak = json.loads(lines[-1])
        return {"wall": wall, "cpu": cpu, "peak_mib": peak / 2**10}


def table(figures: dict[str, dict[str, list[dict[str, float]]]], clock: str) -> list[str]:
    """Medians of the rounds, and the medians of the rounds' ratios to "before"."""
    lines = [f"{'':8}{'':8}{'s':>8}{'/ before':>10}{'peak MiB':>10}{'/ before':>10}"]
    for case, ways in figures.items():
        for way, rounds in ways.items():
            cells = []
            for name, digits in ((clock, 2), ("peak_mib", 0)):
                value = statistics.median(found[name] for found in rounds)
                ratio = statistics.median(a[name] / b[name] for a, b in zip(rounds, ways["before"]))
                cells.append(f"{value:{8 if name == clock else 10},.{digits}f}{ratio:10.2f}")
            lines.append(f"{case if way == WAYS[0] else '':8}{way:8}{''.join(cells)}")
    return lines


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    add = parser.add_argument
    add("--size", choices=SIZES, default="roberta-large", help="of the model (default roberta-large, 1.4 GB on disk)")
    add("--method", default="m-idpg-phm", help="default m-idpg-phm")
    add(
        "--cases",
        nargs="+",
        action="extend",
        choices=CASES,
        metavar="CASE",
        help=f"of {', '.join(CASES)} (default all)",
    )
    add("--clock", choices=("wall", "cpu"), default="wall", help="the wall's seconds, or those computed (default wall)")
    add("--rounds", type=int, default=1, metavar="N", help="default 1")
    add("--threads", type=int, default=1, metavar="N", help="of torch (default 1)")
    add("--work", type=Path, metavar="DIR", help="where a folder for the files is made (default: the system's)")
    add("--json", type=Path, metavar="FILE", help="save the figures")
    return parser.parse_args(arguments)


@command_line("error", "nothing is kept")
def main() -> None:
    args = parse(sys.argv[1:])
    positive(args, "rounds", "threads")
    check_folder("--json", args.json)
    size = SIZES[args.size]
    settings = Settings(size.layers, size.width, size.ffn, size.heads, threads=args.threads)
    cases = [case for case in CASES if case in (args.cases or CASES)]
    figures: dict[str, Any] = {case: {way: [] for way in WAYS} for case in cases}
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        world = World(Path(folder), settings, args.method)
        if "train" not in cases and "load" in cases:
            world.measure("train", "now")
        for _ in range(args.rounds):
            for case in cases:
                for way in WAYS:
                    figures[case][way].append(world.measure(case, way))
    seconds = {"wall": "seconds of the wall", "cpu": "seconds of the CPU"}[args.clock]
    print(f"{args.size}, {args.method}, {settings.threads} threads, {seconds}, {args.rounds} rounds")
    print("\n".join(table(figures, args.clock)))
    if args.json:
        write_json(args.json, figures)


if __name__ == "__main__":
    main()
