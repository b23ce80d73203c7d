"""Seconds and memory of what a training, a sweep's run and a prediction begin and end with.

    python benchmarks/startup.py --size roberta-large --clock cpu --rounds 3 --json FILE

On a random RoBERTa, whole processes, which take turns; README.md says what each does, and what "first" and "later"
are. --clock cpu counts the seconds that the processes computed, all of them together. Memory is the peak of the largest
process, with the part of the file that it has read, which processes share.
"""

import argparse
import json
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import torch
from common import POSITIONS, ROOT, SIZES, Settings, make_parser, parse, run_process, take_turns, write_json
from fairseq.data import Dictionary
from fairseq.models.roberta.model import RobertaEncoder, RobertaModel, base_architecture
from step_worker import word_dictionary

from preprocess.errors import command_line
from preprocess.flags import aligned, flag_name
from preprocess.indexed import IndexedWriter
from preprocess.tasks import TASKS

WAYS = ("first", "later")
CASES = ("train", "sweep", "load")
SETTLED = 2.5  # seconds after which what was found out of a new file is noted
SENTENCES = {"train": 6, "valid": 2}
TRAIN = "from fairseq_cli.train import cli_main; cli_main()"
LOAD = """
import json, sys, time
from resource import RUSAGE_SELF, getrusage
from fairseq_idpg.inference.folder import load_on_folder
wall, cpu = time.perf_counter(), time.process_time()
load_on_folder(sys.argv[1], sys.argv[2], True)
seconds = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps([*seconds, getrusage(RUSAGE_SELF).ru_maxrss / 2**10]))
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
Figures = dict[str, float]  # of one process: the seconds of each clock, and peak_mib


def write_backbone(path: Path, settings: Settings) -> None:
    args = argparse.Namespace(arch="roberta", max_positions=POSITIONS, **settings.encoder_options)
    base_architecture(args)
    model = RobertaModel(args, RobertaEncoder(args, word_dictionary()))
    path.parent.mkdir(parents=True)
    torch.save({"args": args, "model": model.state_dict()}, path)


def write_pairs(folder: Path, sentences: dict[str, int], length: int = 12) -> None:
    """Write pairs of random sentences, as fairseq-preprocess does; ``sentences``: how many each split has."""
    draw, words, labels = np.random.RandomState(0), word_dictionary(mask=False), Dictionary()
    for name in TASKS["RTE"].labels:
        labels.add_symbol(name)
    for part, symbols in {"input0": words, "input1": words, "label": labels}.items():
        for split, count in sentences.items():
            size = 2 if symbols is labels else length + 1
            rows = draw.randint(symbols.nspecial, len(symbols), (count, size))
            rows[:, -1] = symbols.eos()
            with IndexedWriter(folder / part / split, len(symbols)) as writer:
                writer.write(rows.ravel(), np.full(count, size))
        symbols.save(str(folder / part / "dict.txt"))


class World:
    """The files below a new folder, and the commands on them."""

    def __init__(self, folder: Path, settings: Settings, method: str):
        self.folder, self.threads = folder, settings.threads
        self.results, self.run = folder / "results", folder / "run"
        backbone, data, sweep = folder / "backbone" / "model.pt", folder / "RTE-bin", folder / "sweep.yaml"
        write_backbone(backbone, settings)
        write_pairs(data, SENTENCES)
        sizes = {flag_name(name): value for name, value in settings.encoder_options.items()}
        listed = ", ".join(f"{name[2:]}: {value}" for name, value in sizes.items())
        sweep.write_text(SWEEP.format(backbone=backbone, data=data, method=method, sizes=listed))
        options = {
            **{"--user-dir": ROOT / "fairseq_idpg", "--task": "sentence_prediction_idpg", "--arch": "roberta_idpg"},
            **{"--criterion": "sentence_prediction", "--optimizer": "adam", "--lr": 0.001, "--num-classes": 2},
            **{"--init-token": 0, "--separator-token": 2, "--batch-size": 2, "--max-update": 1, "--seed": 1},
            **{"--backbone": backbone, "--method": method, "--save-dir": self.run, **sizes},
        }
        words = [str(word) for option in options.items() for word in option]
        words += ["--max-positions", str(POSITIONS), "--cpu", "--disable-validation"]
        self.commands = {
            "train": ["-c", TRAIN, str(data), *words],
            "sweep": ["-m", "run_scripts.sweep", str(sweep), "--results", str(self.results), "--jobs", "1"],
            "load": ["-c", LOAD, str(self.run / "checkpoint_last.pt"), str(data)],
        }
        time.sleep(SETTLED)

    def measure(self, case: str, way: str) -> Figures:
        """Run a command, the first time on a backbone's file or later. Raises InputError where it fails."""
        cache = self.folder / "cache"
        for old in (self.results, *[self.run] * (case == "train"), *[cache] * (way == "first")):
            shutil.rmtree(old, ignore_errors=True)
        done = run_process([sys.executable, *self.commands[case]], self.threads, FAIRSEQ_IDPG_CACHE=str(cache))
        took = json.loads(done.lines[-1][1]) if case == "load" else (done.wall, done.cpu, done.peak_mib)
        return dict(zip(("wall", "cpu", "peak_mib"), took))


@command_line("error", "nothing is kept")
def main() -> None:
    parser = make_parser(__doc__, clock=True, rounds=(1, "rounds"), threads=(1, "threads of torch"))
    add = parser.add_argument
    add("--size", choices=SIZES, default="roberta-large", help="of the model (default roberta-large, 1.4 GB on disk)")
    add("--method", default="m-idpg-phm", help="default m-idpg-phm")
    add("--cases", nargs="+", action="extend", choices=CASES, metavar="CASE", help=f"of {', '.join(CASES)}")
    add("--work", type=Path, metavar="DIR", help="where a folder for the files is made (default: the system's)")
    args = parse(parser)
    cases = [case for case in CASES if case in (args.cases or CASES)]
    with TemporaryDirectory(dir=args.work) as folder:
        world = World(Path(folder), replace(SIZES[args.size], threads=args.threads), args.method)
        if "train" not in cases and "load" in cases:
            world.measure("train", "later")  # which leaves the checkpoint to load

        turns = {case: lambda case=case: [world.measure(case, way) for way in WAYS] for case in cases}
        rounds = take_turns(turns, args.rounds)
    figures = {case: dict(zip(WAYS, map(list, zip(*pairs)))) for case, pairs in rounds.items()}
    seconds = {"wall": "seconds of the wall", "cpu": "seconds of the CPU"}[args.clock]
    print(f"{args.size}, {args.method}, {args.threads} threads, {seconds}, {args.rounds} rounds")
    rows = [["", "", "s", "peak MiB"]]
    for case in cases:
        for way, each in figures[case].items():
            middle, peak = (median(one[name] for one in each) for name in (args.clock, "peak_mib"))
            rows.append([case if way == WAYS[0] else "", way, f"{middle:.2f}", f"{peak:,.0f}"])
    print("\n".join(aligned(rows, left=(0, 1))))
    write_json(args.json, figures)


if __name__ == "__main__":
    main()
