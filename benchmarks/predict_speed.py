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

A prompt of t rows lengthens sentences of T tokens, and M(x) is a pass of its own: a method should reach T / (T + t) of
the pipeline's speed, T / (2 T + t) if it computes M(x).

--clock cpu counts the seconds that the process computed, of a server those of its own process, which is what to compare
on a machine that others use as well.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from anywhere, installed or not
os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads are those of --threads

import torch
from predict_cases import HEAD_ONLY, PIPELINE, Block, Clock, Runs, batched, one_by_one, open_runs, served, several
from predict_peer import by_name, check_equal, pipeline_of
from predict_served import Server
from step_measure import check_folder, progress, write_json
from step_settings import positive
from step_worker import CLOCKS

from fairseq_idpg.inference.predictor import Predictor
from fairseq_idpg.inference.reading import TextFile
from preprocess.errors import command_line
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


def bound(predictor: Predictor, tokens: float) -> float:
    """The share of the pipeline's speed that a method should reach on sentences of so many ``tokens``."""
    method = predictor.model.method
    passes = 1 if method is None or method.representation is None else 2
    return tokens / (passes * tokens + predictor.model.prompt_length)


def targets(blocks: list[Block], runs: Runs, tokens: float) -> list[str]:
    """A line for each method in float32, block and peer."""
    lines, pairs = [], [(block, peer) for block in blocks for peer in block.peers]
    for name, run in ((name, run) for name, run in runs.items() if not run.int8):
        least = bound(run.predictor, tokens)
        for block, peer in pairs:
            share = block.of(name).share(block.of(peer))
            verdict = "reached" if share >= least else "NOT reached"
            lines.append(f"{f'{block.title}: {name} >= {least:.2f} x {peer}':74}{share:6.2f}  {verdict}")
    return lines


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
    print("\n".join(["", "targets", *targets(blocks[:2], runs, tokens)]))
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
