"""Seconds and memory of what a training, a sweep's run and a prediction begin and end with.

    python benchmarks/startup.py [--size roberta-large] [--clock cpu] [--rounds 3] [--json FILE]

On a random RoBERTa, whole processes, which take turns; README.md says what each does, and what "first" and "later"
are. --clock cpu counts the seconds that the processes computed, all of them together. Memory is the peak of the largest
process, with the part of the file that it has read, which processes share.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.models.roberta.model import RobertaEncoder, RobertaModel, base_architecture
from settings import POSITIONS, ROOT, SIZES, Settings, add_clock, new_parser, parsed, write_json
from step_worker import word_dictionary

from preprocess.errors import InputError, command_line
from preprocess.flags import flag_name
from preprocess.indexed import IndexedWriter
from preprocess.tasks import TASKS

WAYS = ("first", "later")
CASES = ("train", "sweep", "load")
SETTLED = 2.5  # seconds after which what was found out of a new file is noted
SENTENCES, LENGTH = {"train": 6, "valid": 2}, 12
LOAD = """
import json, sys, time
from resource import RUSAGE_SELF, getrusage
from fairseq_idpg.inference.folder import load_on_folder
wall, cpu = time.perf_counter(), time.process_time()
load_on_folder(sys.argv[1], sys.argv[2], True)
seconds = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps([*seconds, getrusage(RUSAGE_SELF).ru_maxrss]))
"""
SWEEP = """backbone: {backbone}
arch: roberta_idpg
data: {{RTE: {data}}}
tasks: [RTE]
rows: [{method}]
lrs: [0.001]
seeds: [1]
dev_examples: 2
batch_size: 2
max_update: 1
options: {{cpu: true, {sizes}}}
"""


def write_backbone(path: Path, settings: Settings) -> None:
    args = argparse.Namespace(arch="roberta", max_positions=POSITIONS, **settings.encoder_options)
    base_architecture(args)
    model = RobertaModel(args, RobertaEncoder(args, word_dictionary()))
    path.parent.mkdir(parents=True)
    torch.save({"args": args, "model": model.state_dict()}, path)


def write_pairs(folder: Path) -> None:
    """Write pairs of random sentences, as fairseq-preprocess does."""
    draw, words, labels = np.random.RandomState(0), word_dictionary(mask=False), Dictionary()
    for name in TASKS["RTE"].labels:
        labels.add_symbol(name)
    for part, symbols in {"input0": words, "input1": words, "label": labels}.items():
        for split, count in SENTENCES.items():
            length = 1 if symbols is labels else LENGTH
            rows = draw.randint(symbols.nspecial, len(symbols), (count, length + 1))
            rows[:, -1] = symbols.eos()
            with IndexedWriter(folder / part / split, len(symbols)) as writer:
                writer.write(rows.ravel(), np.full(count, length + 1))
        symbols.save(str(folder / part / "dict.txt"))


class World:
    """The files below a new folder, and the commands on them."""

    def __init__(self, folder: Path, settings: Settings, method: str):
        self.folder, self.settings, self.method = folder, settings, method
        self.backbone, self.data = folder / "backbone" / "model.pt", folder / "RTE-bin"
        self.results, self.run = folder / "results", folder / "run"
        self.sizes = {flag_name(name): value for name, value in settings.encoder_options.items()}
        write_backbone(self.backbone, settings)
        write_pairs(self.data)
        sizes = ", ".join(f"{name[2:]}: {value}" for name, value in self.sizes.items())
        sweep = SWEEP.format(backbone=self.backbone, data=self.data, method=method, sizes=sizes)
        (folder / "sweep.yaml").write_text(sweep)
        time.sleep(SETTLED)

    def train(self) -> list[str]:
        options = {
            **{"--user-dir": ROOT / "fairseq_idpg", "--task": "sentence_prediction_idpg", "--arch": "roberta_idpg"},
            **{"--criterion": "sentence_prediction", "--optimizer": "adam", "--lr": 0.001, "--num-classes": 2},
            **{"--init-token": 0, "--separator-token": 2, "--batch-size": 2, "--max-update": 1, "--seed": 1},
            **{"--backbone": self.backbone, "--method": self.method, "--save-dir": self.run, **self.sizes},
        }
        words = [str(word) for option in options.items() for word in option]
        start = "from fairseq_cli.train import cli_main; cli_main()"
        words += ["--max-positions", str(POSITIONS), "--cpu", "--disable-validation"]
        return [sys.executable, "-c", start, str(self.data), *words]

    def sweep(self) -> list[str]:
        words = ["--results", str(self.results), "--jobs", "1"]
        return [sys.executable, "-m", "run_scripts.sweep", str(self.folder / "sweep.yaml"), *words]

    def load(self) -> list[str]:
        return [sys.executable, "-c", LOAD, str(self.run / "checkpoint_last.pt"), str(self.data)]

    def measure(self, case: str, way: str) -> dict[str, float]:
        """Return the seconds of both clocks, and MiB. Raises InputError where the command failed."""
        cache, log = self.folder / "cache", self.folder / "log"
        old = [self.results, *([self.run] if case == "train" else []), *([cache] if way == "first" else [])]
        for folder in old:
            shutil.rmtree(folder, ignore_errors=True)
        environment = {
            **os.environ,
            **{"OMP_NUM_THREADS": str(self.settings.threads), "OMP_WAIT_POLICY": "PASSIVE"},
            **{"FAIRSEQ_IDPG_CACHE": str(cache)},
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        command = {"train": self.train, "sweep": self.sweep, "load": self.load}[case]()
        start = time.perf_counter()
        with open(log, "w") as file:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)  # with what this process and its own children used
        process.returncode = os.waitstatus_to_exitcode(status)
        lines = log.read_text().strip().splitlines() or [""]
        if process.returncode:
            raise InputError(f"{case}, {way}, ended with status {process.returncode}: {lines[-1]}")
        wall, cpu, peak = time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss
        if case == "load":
            wall, cpu, peak = json.loads(lines[-1])
        return {"wall": wall, "cpu": cpu, "peak_mib": peak / 2**10}


@command_line("error", "nothing is kept")
def main() -> None:
    parser = new_parser(__doc__, rounds=(1, ""), threads=(1, "of torch"))
    add_clock(parser)
    add = parser.add_argument
    add("--size", choices=SIZES, default="roberta-large", help="of the model (default roberta-large, 1.4 GB on disk)")
    add("--method", default="m-idpg-phm", help="default m-idpg-phm")
    add("--cases", nargs="+", action="extend", choices=CASES, metavar="CASE", help=f"of {', '.join(CASES)}")
    add("--work", type=Path, metavar="DIR", help="where a folder for the files is made (default: the system's)")
    args = parsed(parser)
    settings = replace(SIZES[args.size], threads=args.threads)
    cases = [case for case in CASES if case in (args.cases or CASES)]
    figures: dict[str, dict[str, list[dict[str, float]]]] = {case: {way: [] for way in WAYS} for case in cases}
    with TemporaryDirectory(dir=args.work) as folder:
        world = World(Path(folder), settings, args.method)
        if "train" not in cases and "load" in cases:
            world.measure("train", "later")
        for _ in range(args.rounds):
            for case in cases:
                for way in WAYS:
                    figures[case][way].append(world.measure(case, way))
    seconds = {"wall": "seconds of the wall", "cpu": "seconds of the CPU"}[args.clock]
    print(f"{args.size}, {args.method}, {settings.threads} threads, {seconds}, {args.rounds} rounds")
    print(f"{'':8}{'':8}{'s':>8}{'peak MiB':>10}")
    for case, ways in figures.items():
        for way, rounds in ways.items():
            middle, peak = (median(found[name] for found in rounds) for name in (args.clock, "peak_mib"))
            print(f"{case if way == WAYS[0] else '':8}{way:8}{middle:8.2f}{peak:10,.0f}")
    write_json(args.json, figures)


if __name__ == "__main__":
    main()
