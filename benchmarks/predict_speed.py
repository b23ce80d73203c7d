"""Sentences a second of predictions beside transformers' text-classification pipeline, in one run.

    python benchmarks/predict_speed.py quickstart --clock cpu --rounds 7 --sentences 256

Measured are every runs/METHOD/checkpoint_best.pt of the quick start, and the pipeline on the same MiniLM (minilm-hf)
with the head of ``head-only``, whose probabilities are first checked to differ by at most 1e-5. All run in one process
with the same threads, in float32 on the CPU, from strings to probabilities; README.md explains cases. "onnx" and
"int8" are the files of export --onnx and --int8, where onnxruntime is installed.

The cases of a block take turns, and a turn goes over all of the block's sentences. Answers a second are those of the
median round; a ratio is the median of the rounds' ratios, so that a slow minute is in both of a pair. With --clock cpu
the seconds are those that a process computed; those of a served case are the server's.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from timeit import timeit
from typing import Any, NamedTuple
from urllib.parse import urlsplit

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads are those of --threads

import torch
from common import CLOCKS, ROOT, child_environment, make_parser, parse, take_turns, write_json

from fairseq_idpg import load
from fairseq_idpg.export import export
from fairseq_idpg.inference.files import TextFile
from fairseq_idpg.inference.predictor import Predictor
from fairseq_idpg.saving.shared_folder import ONNX
from preprocess.errors import InputError, command_line
from preprocess.flags import aligned

HEAD_ONLY, PIPELINE, SORTED = "head-only", "pipeline", "pipeline, sorted"
TOLERANCE = 1e-5  # of probabilities
Clock = Callable[[], float]
Pipeline = Callable[..., Any]  # transformers'


class Run(NamedTuple):
    """A checkpoint of the quick start, or an ONNX file of it."""

    path: Path
    predictor: Predictor


@dataclass
class Block:
    """Cases that take turns, each of which gives so many ``answers``."""

    title: str
    answers: int
    clock: Clock
    peers: tuple[str, ...] = (PIPELINE,)  # the cases that the others are compared with
    turns: dict[str, Callable[[], float]] = field(default_factory=dict)  # of each case; seconds on its clock
    accuracy: dict[str, float] = field(default_factory=dict)  # in %, of some cases
    rounds: dict[str, list[float]] = field(default_factory=dict)  # seconds of each turn

    def add(self, name: str, turn: Callable[[], Any], clock: Clock | None = None) -> None:
        """Add a case; ``clock``: that of another process, which answers."""
        self.turns[name] = partial(timeit, turn, number=1, timer=clock or self.clock)

    def measure(self, rounds: int) -> None:
        """Measure each case's turn in each round, after one that is not counted, and print the table."""
        measured = take_turns(self.turns, rounds, self.title, warm_up=True)
        # the clock of another process may be coarse
        self.rounds = {name: [max(each, 1e-3) for each in seconds] for name, seconds in measured.items()}
        print("\n".join(["", *self.table()]), flush=True)

    def table(self) -> list[str]:
        """Return lines of speeds, and of ratios to the peers: medians of the rounds' ratios."""
        rows = [[self.title, "a second", *(f"/ {peer}" for peer in self.peers), *["accuracy"] * bool(self.accuracy)]]
        for name, own in self.rounds.items():
            pairs = [zip(own, self.rounds[peer]) for peer in self.peers]
            ratios = [f"{median(theirs / mine for mine, theirs in pair):.2f}" for pair in pairs]
            correct = [f"{self.accuracy[name]:.1f}%" if name in self.accuracy else ""] * bool(self.accuracy)
            rows.append([name, f"{self.answers / median(own):.1f}", *ratios, *correct])
        return aligned(rows)


def open_runs(folder: Path, made: Path) -> dict[str, Run]:
    """Return the best checkpoint of each method, then their ONNX files, which are written below ``made``."""
    paths = sorted(folder.glob("runs/*/checkpoint_best.pt"))
    if HEAD_ONLY not in [path.parent.name for path in paths]:
        missing = folder / "runs" / HEAD_ONLY / "checkpoint_best.pt"
        raise InputError(f"{missing} is missing: run the quick start, --out {folder}")
    named = {path.parent.name: path for path in paths}
    if all(map(find_spec, ("onnx", "onnxruntime", "onnxscript"))):
        for kind in ("onnx", "int8"):
            for path in paths:
                name = f"{path.parent.name}, {kind}"
                export(str(path), str(made / name), onnx=True, int8=kind == "int8")
                named[name] = made / name / ONNX
    return {name: Run(path, load(path, device="cpu")) for name, path in named.items()}


def pipeline_of(folder: Path, predictor: Predictor) -> Pipeline:
    """Return the pipeline as its users build it, in float32 on the CPU: probabilities of all classes of each text.

    ``folder`` has the encoder as transformers keeps it; the head is that of the ``predictor``, which trained only it.
    BERT's pooler is the hidden layer of RoBERTa's head: both are tanh(W x + b) of the first state.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, logging, pipeline

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    names = dict(enumerate(predictor.labels))
    labels = {"num_labels": len(names), "id2label": names, "label2id": {name: i for i, name in names.items()}}
    local = {"pretrained_model_name_or_path": str(folder), "local_files_only": True}
    model = AutoModelForSequenceClassification.from_pretrained(**local, **labels, dtype=torch.float32)
    model.bert.pooler.dense.load_state_dict(predictor.head.dense.state_dict())
    model.classifier.load_state_dict(predictor.head.out_proj.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(**local, model_max_length=predictor.options.max_positions)
    return pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu", top_k=None, truncation=True)


def check_equal(pipe: Pipeline, predictor: Predictor, texts: list[str], size: int) -> float:
    """Return the largest difference of the pipeline's probabilities from ours; raise InputError above TOLERANCE."""
    pairs = zip(predictor.predict(texts, size), pipe(texts, batch_size=size))
    largest = max(abs(own.probabilities[each["label"]] - each["score"]) for own, theirs in pairs for each in theirs)
    if not largest <= TOLERANCE:
        raise InputError(f"probabilities of both differ by {largest:.1e}: give the folder of one quick start")
    return largest


class Server:
    """A server of one checkpoint on a free port; it answers as soon as this is made."""

    def __init__(self, run: Run, threads: int):
        command = [sys.executable, "-m", "fairseq_idpg.serve", "--path", str(run.path.resolve())]
        options: dict[str, Any] = {"cwd": ROOT, "env": child_environment(threads), "text": True}
        self.process = subprocess.Popen([*command, "--cpu", "--port", "0"], stdout=subprocess.PIPE, **options)
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        if not words:
            raise RuntimeError("the server has ended, see above: give --no-served, or install its packages")
        self.place = urlsplit(words[0]).netloc

    def cpu_seconds(self) -> float:
        """Return what all its threads have computed so far."""
        return time.clock_gettime(~self.process.pid << 3 | 2)  # what clock_getcpuclockid(3) makes of a process

    def ask(self, texts: list[str], connections: int) -> None:
        with ThreadPoolExecutor(connections) as threads:
            list(threads.map(self._ask, [texts[start::connections] for start in range(connections)]))

    def _ask(self, texts: list[str]) -> None:
        """Ask through one connection. Raises RuntimeError for a text without a prediction."""
        with closing(HTTPConnection(self.place, timeout=600)) as connection:
            for text in texts:
                body = json.dumps({"texts": [text]}).encode()
                connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                answer = response.read()
                if response.status != 200:
                    raise RuntimeError(f"the server answered {response.status}: {answer[:200]!r}")

    def close(self) -> None:
        self.process.terminate()
        self.process.communicate()


def for_each(answer: Callable[[Any], Any], questions: list[Any]) -> None:
    for question in questions:
        answer(question)


def make_blocks(runs: dict[str, Run], pipe: Pipeline, texts: list[str], args: argparse.Namespace) -> list[Block]:
    """Return the blocks without a server: batches of sentences, one by one, several tasks on one batch."""
    size, few, first = args.batch_size, texts[: args.singles], texts[: args.batch_size]
    clock = CLOCKS[args.clock]
    batched = Block(f"{len(texts)} sentences, {size} at a time", len(texts), clock, peers=(PIPELINE, SORTED))
    batched.add(PIPELINE, partial(pipe, texts, batch_size=size))
    batched.add(SORTED, partial(pipe, sorted(texts, key=len), batch_size=size))
    singly = Block(f"{len(few)} sentences, one by one", len(few), clock)
    singly.add(PIPELINE, partial(for_each, pipe, few))
    several = Block(f"{len(first)} sentences, {args.tasks} tasks", args.tasks * len(first), clock)
    several.add(PIPELINE, partial(for_each, partial(pipe, batch_size=size), [first] * args.tasks))
    for name, run in runs.items():
        many = load({f"task{number}": run.path for number in range(args.tasks)}, device="cpu")
        batched.add(name, partial(run.predictor.predict, texts, size))
        singly.add(name, partial(for_each, run.predictor.predict, [[text] for text in few]))
        several.add(name, partial(many.predict, first, batch_size=size))
    return [batched, singly, several]


def parse_options() -> argparse.Namespace:
    parser = make_parser(
        __doc__,
        clock=True,
        sentences=(256, "sentences in a turn, of the test split's beginning"),
        singles=(48, "sentences of these that are asked one by one in a turn"),
        tasks=(8, "K; their turn has one batch of sentences"),
        connections=(32, "connections to a server at once"),
        batch_size=(64, "sentences that are run together"),
        rounds=(7, "after one to warm up"),
        threads=(1, "threads of torch"),
    )
    quick_start = "of a quick start (default quickstart)"
    parser.add_argument("folder", type=Path, nargs="?", default=Path("quickstart"), help=quick_start)
    parser.add_argument("--no-served", action="store_true", help="leave the server out, which needs more packages")
    return parse(parser)


@command_line("error", "nothing is kept")
def main() -> None:
    args = parse_options()
    torch.set_num_threads(args.threads)
    lines = TextFile(str(args.folder / "reviews" / "test.tsv"), "tab").lines()
    labels, everything = map(list, zip(*(line.text for line in lines)))
    made = TemporaryDirectory()
    runs = open_runs(args.folder, Path(made.name))
    head_only, texts, size = runs[HEAD_ONLY].predictor, everything[: args.sentences], args.batch_size
    pipe = pipeline_of(args.folder / "minilm-hf", head_only)
    difference = check_equal(pipe, head_only, everything, size)
    tokens = mean(len(ids) + 1 for ids in head_only.text.encode(texts))  # <s> is not among them
    threads, seconds = f"{args.threads} thread{'s' * (args.threads > 1)}", f"seconds of the {args.clock}"
    print(f"sentences of {tokens:.1f} tokens, float32, {threads}, {seconds}, {args.rounds} rounds")
    print(f"probabilities of {HEAD_ONLY} and {PIPELINE} differ by at most {difference:.0e}", flush=True)

    blocks = make_blocks(runs, pipe, texts, args)
    for name, run in runs.items():
        answers = [prediction.label for prediction in run.predictor.predict(everything, size)]
        blocks[0].accuracy[name] = 100 * mean(own == label for own, label in zip(answers, labels))
    for block in blocks:
        block.measure(args.rounds)
    if not args.no_served:
        few = texts[: args.singles]
        with ExitStack() as at_end:
            served = Block(f"{len(few)} sentences, served", len(few), CLOCKS[args.clock])
            served.add(PIPELINE, partial(for_each, pipe, few))
            for name, run in runs.items():
                server = at_end.enter_context(closing(Server(run, args.threads)))
                clock = server.cpu_seconds if args.clock == "cpu" else None
                served.add(name, partial(server.ask, few, args.connections), clock)
            served.measure(args.rounds)
        blocks.append(served)
    import transformers

    print(f"\ntorch {torch.__version__}, transformers {transformers.__version__}")
    saved = {
        block.title: [
            {"name": name, "answers": block.answers, "accuracy": block.accuracy.get(name), "rounds": rounds}
            for name, rounds in block.rounds.items()
        ]
        for block in blocks
    }
    write_json(args.json, {"clock": args.clock, "threads": args.threads, "tokens": tokens, "blocks": saved})


if __name__ == "__main__":
    main()
