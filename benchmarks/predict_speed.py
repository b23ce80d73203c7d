"""Sentences a second of predictions beside transformers' text-classification pipeline, in one run.

    python benchmarks/predict_speed.py quickstart [--clock cpu] [--rounds 7] [--sentences 256]

Measured is what the quick start left, on its test sentences: every runs/METHOD/checkpoint_best.pt, and the pipeline on
the same MiniLM (minilm-hf) with the head of ``head-only``. These two compute the same, which is checked before anything
is measured: their probabilities differ by at most 1e-5. All run in one process with the same threads, in float32 on the
CPU ("int8": --int8), from strings to probabilities, tokens and batches made anew each time.

The cases of a block take turns, and a turn goes over all of the block's sentences. Answers a second are those of the
median round; a ratio is the median of the rounds' ratios, so that a slow minute is in both of a pair. "pipeline" is
called as its users call it, "sorted" with the sentences sorted by length, which ours does by itself. "K tasks" are one
checkpoint K times, as predict runs several tasks on one backbone, beside the pipeline K times. "served" are requests
of one sentence each to python -m fairseq_idpg.serve, from several connections at once, beside the pipeline called with
one sentence at a time. Accuracy is that of all test sentences.

--clock cpu counts the seconds that the process computed, of a server those of its own process, which is what to compare
on a machine that others use as well.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, installed or not
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads are those of --threads

import torch
from predict_peers import Pipeline, Server, by_name, check_equal, pipeline_of
from settings import check_folder, positive, write_json
from step_time import progress
from step_worker import CLOCKS

from fairseq_idpg import load
from fairseq_idpg.inference.files import TextFile
from fairseq_idpg.inference.int8 import multiplies_exactly
from fairseq_idpg.inference.predictor import Predictor
from preprocess.errors import InputError, command_line
from preprocess.flags import flag_name

NUMBERS = {  # name: default, help
    "sentences": (256, "in a turn, of the test split's beginning"),
    "singles": (48, "of them that are asked one by one in a turn"),
    "tasks": (8, "K; their turn has one batch of sentences"),
    "connections": (32, "to a server at once"),
    "batch_size": (64, "sentences that are run together"),
    "rounds": (7, "after one to warm up"),
    "threads": (1, "of torch"),
}


HEAD_ONLY, PIPELINE, SORTED = "head-only", "pipeline", "pipeline, sorted"
Clock = Callable[[], float]


class Run(NamedTuple):
    """A checkpoint of the quick start, and how it is computed with."""

    path: Path
    int8: bool
    predictor: Predictor


Runs = dict[str, Run]


@dataclass
class Case:
    """Something that answers ``answers`` times in a turn.

    Attributes:
        clock: what tells its seconds, where that is not the clock of this process.
        accuracy: in %.
        rounds: seconds of each.
    """

    name: str
    answers: int
    turn: Callable[[], Any]
    clock: Clock | None = None
    accuracy: float | None = None
    rounds: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Answers a second."""
        return self.answers / max(median(self.rounds), 1e-9)

    def share(self, other: Case) -> float:
        """Of the speed of ``other``, which answers as often."""
        # a clock of whole milliseconds may count none of a short turn
        return median(theirs / max(own, 1e-9) for own, theirs in zip(self.rounds, other.rounds))


@dataclass
class Block:
    """Cases that take turns; ``peers``: the names of those that the others are compared with."""

    title: str
    cases: list[Case]
    peers: tuple[str, ...] = (PIPELINE,)

    def of(self, name: str) -> Case:
        return next(case for case in self.cases if case.name == name)


def open_runs(folder: Path) -> Runs:
    """The best checkpoint of each method in float32, then all in int8 where this CPU has it.

    Raises:
        InputError: that of ``head-only`` is not among them.
    """
    paths = sorted(folder.glob("runs/*/checkpoint_best.pt"))
    if HEAD_ONLY not in [path.parent.name for path in paths]:
        raise InputError(
            f"{folder}/runs/{HEAD_ONLY}/checkpoint_best.pt is missing: run the quick start, --out {folder}"
        )
    found = {}
    for int8 in (False, True) if multiplies_exactly() else (False,):
        for path in paths:
            name = path.parent.name + (", int8" if int8 else "")
            found[name] = Run(path, int8, load(path, device="cpu", int8=int8))
    return found


def batched(runs: Runs, pipe: Pipeline, texts: list[str], size: int) -> Block:
    """Lists of sentences."""
    by_length = sorted(texts, key=len)
    cases = [
        Case(PIPELINE, len(texts), lambda: pipe(texts, batch_size=size)),
        Case(SORTED, len(texts), lambda: pipe(by_length, batch_size=size)),
    ]
    for name, run in runs.items():
        cases.append(Case(name, len(texts), partial(run.predictor.predict, texts, size)))
    return Block(f"{len(texts)} sentences, {size} at a time", cases, (PIPELINE, SORTED))


def method_one_by_one(name: str, model: Predictor, texts: list[str]) -> Case:
    return Case(name, len(texts), lambda: [model.predict([text]) for text in texts])


def pipeline_one_by_one(pipe: Pipeline, texts: list[str]) -> Case:
    return Case(PIPELINE, len(texts), lambda: [pipe(text) for text in texts])


def one_by_one(runs: Runs, pipe: Pipeline, texts: list[str]) -> Block:
    """Calls with one sentence each."""
    cases = [pipeline_one_by_one(pipe, texts)]
    for name, run in runs.items():
        cases.append(method_one_by_one(name, run.predictor, texts))
    return Block(f"{len(texts)} sentences, one by one", cases)


def several(runs: Runs, pipe: Pipeline, texts: list[str], size: int, count: int) -> Block:
    """``count`` tasks on the same sentences."""
    answers = count * len(texts)
    cases = [Case(PIPELINE, answers, lambda: [pipe(texts, batch_size=size) for _ in range(count)])]
    for name, run in runs.items():
        many = load({f"task{number}": run.path for number in range(count)}, device="cpu", int8=run.int8)
        cases.append(Case(name, answers, partial(many.predict, texts, batch_size=size)))
    return Block(f"{len(texts)} sentences, {count} tasks", cases)


def served(servers: dict[str, Server], pipe: Pipeline, texts: list[str], connections: int, clock: str) -> Block:
    """Requests with one sentence each, beside calls with one sentence each."""
    cases = [pipeline_one_by_one(pipe, texts)]
    for name, server in servers.items():
        own = server.cpu_seconds if clock == "cpu" else None
        cases.append(Case(name, len(texts), partial(server.ask, texts, connections), own))
    return Block(f"{len(texts)} sentences, served", cases)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("folder", type=Path, nargs="?", default=Path("quickstart"), help="of a quick start (default quickstart)")
    for name, (default, text) in NUMBERS.items():
        add(flag_name(name), type=int, default=default, metavar="N", help=f"{text} (default {default})")
    add("--clock", choices=tuple(CLOCKS), default="wall", help="default wall")
    add("--no-served", action="store_true", help="leave the server out, which needs packages of its own")
    add("--json", type=Path, metavar="FILE", help="save the figures")
    return parser.parse_args(arguments)


def read_test_split(folder: Path) -> tuple[list[str], list[str]]:
    """(labels, sentences) of a quick start."""
    labels, texts = zip(*(line.text for line in TextFile(str(folder / "reviews" / "test.tsv"), "tab").lines()))
    return list(labels), list(texts)


def accuracy(labels: list[str], found: list[str | None]) -> float:
    """In %."""
    return 100 * mean(own == label for own, label in zip(found, labels))


@contextlib.contextmanager
def started(runs: Runs, threads: int, texts: list[str]) -> Iterator[dict[str, Server]]:
    """A server for each run, which answers as the run does; in int8, rounding depends on the batch."""
    servers: dict[str, Server] = {}
    with tempfile.TemporaryDirectory() as logs:
        try:
            for name, run in runs.items():
                servers[name] = Server(run.path, threads, Path(logs, name), *(["--int8"] if run.int8 else []))
            for name, server in servers.items():
                server.wait()
                found = [prediction["probabilities"] for prediction in server.ask(texts, connections=2)]
                if not runs[name].int8:
                    check_equal(f"{name} and {name}, served,", found, runs[name].predictor, texts)
            yield servers
        finally:
            for server in servers.values():
                server.stop()


def measure(block: Block, rounds: int, clock: Clock) -> None:
    """Seconds of each case's turn in each round, after one that is not counted."""
    for number in range(rounds + 1):
        progress(f"{block.title}: " + (f"round {number} of {rounds}" if number else "warm-up"))
        for case in block.cases if number % 2 else block.cases[::-1]:
            now = case.clock or clock
            start = now()
            case.turn()
            seconds = max(now() - start, 1e-3)  # the clock of another process may be coarse
            case.rounds += [seconds] if number else []
    progress("")


def table(block: Block) -> list[str]:
    heads = "".join(f"{'/ ' + peer:>20}" for peer in block.peers)
    right = f"{'accuracy':>10}" if any(case.accuracy is not None for case in block.cases) else ""
    lines = [f"{block.title:30}{'a second':>10}{heads}{right}"]
    for case in block.cases:
        shares = "".join(f"{case.share(block.of(peer)):20.2f}" for peer in block.peers)
        correct = "" if case.accuracy is None else f"{case.accuracy:9.1f}%"
        lines.append(f"{case.name:30}{case.speed:10.1f}{shares}{correct}")
    return lines


def measure_and_print(block: Block, args: argparse.Namespace) -> None:
    measure(block, args.rounds, CLOCKS[args.clock])
    print("\n".join(["", *table(block)]), flush=True)


@command_line("error", "nothing is kept")
def main() -> None:
    args = parse(sys.argv[1:])
    positive(args, *NUMBERS)
    check_folder("--json", args.json)
    torch.set_num_threads(args.threads)
    labels, everything = read_test_split(args.folder)
    runs = open_runs(args.folder)
    head_only, texts, size = runs[HEAD_ONLY].predictor, everything[: args.sentences], args.batch_size
    pipe = pipeline_of(args.folder / "minilm-hf", head_only, head_only.options.max_positions)
    theirs = [by_name(entries) for entries in pipe(everything, batch_size=size)]
    difference = check_equal(f"{HEAD_ONLY} and {PIPELINE}", theirs, head_only, everything)
    tokens = mean(len(ids) + 1 for ids in head_only.text.encode(texts))  # <s> is not among them
    threads = f"{args.threads} thread{'s' * (args.threads > 1)}"
    print(f"sentences of {tokens:.1f} tokens, float32, {threads}, seconds of the {args.clock}, {args.rounds} rounds")
    print(f"probabilities of {HEAD_ONLY} and {PIPELINE} differ by at most {difference:.0e}", flush=True)

    blocks = [
        batched(runs, pipe, texts, size),
        one_by_one(runs, pipe, texts[: args.singles]),
        several(runs, pipe, texts[:size], size, args.tasks),
    ]
    for name, run in runs.items():
        found = [prediction.label for prediction in run.predictor.predict(everything, size)]
        blocks[0].of(name).accuracy = accuracy(labels, found)
    for block in blocks:
        measure_and_print(block, args)
    if not args.no_served:
        with started(runs, args.threads, texts[: args.singles]) as servers:
            blocks.append(served(servers, pipe, texts, args.connections, args.clock))
            measure_and_print(blocks[-1], args)
    import transformers

    print(f"\ntorch {torch.__version__}, transformers {transformers.__version__}")
    if not any(run.int8 for run in runs.values()):
        print("int8 was left out: this CPU has no instructions for it")
    if args.json:
        keep = ("name", "answers", "accuracy", "rounds")
        saved = {block.title: [{key: getattr(case, key) for key in keep} for case in block.cases] for block in blocks}
        write_json(args.json, {"clock": args.clock, "threads": args.threads, "tokens": tokens, "blocks": saved})


if __name__ == "__main__":
    main()
