"""What the benchmarks share: options, sizes of models, turns, measured processes, files of figures."""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

# Every script imports this file before others of the project, and so runs from anywhere, installed or not.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from preprocess.errors import InputError
from preprocess.flags import flag_name, positive
from preprocess.writing import write_text

ROOT = Path(__file__).resolve().parents[1]
PEERS_FOLDER = ROOT / "benchmarks" / ".peers"  # made by setup_peers.sh
SHORTEST, LONGEST = 0.3, 1.5  # where drawn lengths are cut off, times their mean
# RoBERTa's table of positions and dictionary, which begins with <s>, <pad>, </s>, <unk> and ends with <mask>
POSITIONS, VOCAB, SPECIALS = 512, 50265, 4
BOS, PAD, EOS, MASK = 0, 1, 2, VOCAB - 1
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """One point of measurement; NUMBERS describes its numbers."""

    layers: int = 24
    width: int = 256
    ffn: int = 1024
    heads: int = 4
    batch: int = 16
    length: int = 40  # tokens of an example, on average
    length_spread: float = 0.25  # standard deviation of the lengths over their mean
    prompt_length: int | None = None  # None: as many rows as each preset has
    steps: int = 8
    threads: int = 2
    device: str = "cpu"
    clock: str = "wall"  # wall, or cpu: the seconds that the process itself computed, all its threads together
    dtype: str = "float32"  # float32, or float16 and bfloat16 as with fairseq's --fp16 and --bf16
    predict: bool = False  # predictions instead of training steps

    @property
    def positions(self) -> int:
        """RoBERTa's table of positions, or a longer one where text and prompt would not fit into it."""
        longest = round(LONGEST * self.length) if self.length_spread else self.length
        return max(POSITIONS, longest + (self.prompt_length or 0))

    @property
    def encoder_options(self) -> dict[str, int]:
        """The sizes, by the names that fairseq's options have in a namespace."""
        names = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads")
        return dict(zip(names, (self.layers, self.width, self.ffn, self.heads)))

    def __str__(self) -> str:
        about = "about " if self.length_spread else ""
        cpu = ", seconds of the CPU" if self.clock == "cpu" else ""
        what = "predictions, " if self.predict else ""
        rows = f"prompt length {self.prompt_length}" if self.prompt_length else "each preset's prompt length"
        return (
            f"{what}{self.layers} layers, width {self.width}, batch {self.batch}, {about}{self.length} tokens, "
            f"{rows}, {self.dtype}, {self.threads} thread{'s' * (self.threads > 1)}{cpu}"
        )


SIZES: dict[str, Settings] = {
    "tiny": Settings(layers=2, width=32, ffn=64, heads=4),  # to try something out
    "small": Settings(),
    "minilm": Settings(layers=6, width=384, ffn=1536, heads=12),
    "roberta-base": Settings(layers=12, width=768, ffn=3072, heads=12),
    "roberta-large": Settings(layers=24, width=1024, ffn=4096, heads=16),
    # the sizes of XLM-R XL and XXL, with RoBERTa's dictionary and its norms after the sublayers
    "roberta-3b": Settings(layers=36, width=2560, ffn=10240, heads=32),
    "roberta-10b": Settings(layers=48, width=4096, ffn=16384, heads=32),
}
MEASURED = ("roberta-base", "roberta-large", "roberta-3b", "roberta-10b")  # by memory.py
NUMBERS = {
    "layers": "layers of the encoder",
    "width": "width of the encoder",
    "ffn": "inner width of the feed-forward",
    "heads": "heads of attention",
    "batch": "examples of a batch",
    "length": "tokens of an example, on average; with step_time.py of each",
    "prompt_length": "rows of a prompt",
    "steps": "batches: each round runs all of them",
    "threads": "threads of torch on the CPU",
}


def make_parser(doc: str | None, clock: bool = False, **numbers: tuple[int, str]) -> argparse.ArgumentParser:
    """Return a parser with --json, with ``clock`` --clock, and an option for each of ``numbers``: default, meaning."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, (default, text) in numbers.items():
        usual = f"{text} (default {default})"
        parser.add_argument(flag_name(name), type=positive, default=default, metavar="N", help=usual)
    if clock:
        text = "seconds of the wall, or those that the CPU computed, for machines that others use too (default wall)"
        parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the figures")
    return parser


def add_step_options(parser: argparse.ArgumentParser, base: Settings | None = None) -> None:
    """Add the options of a training step: NUMBERS, --device, --dtype, and without a ``base`` also --size."""
    for name, text in NUMBERS.items():
        default = getattr(base, name, "that of --size" if getattr(Settings, name) else "each preset's")
        parser.add_argument(flag_name(name), type=positive, metavar="N", help=f"{text} (default {default})")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default cpu")
    dtypes = ("float32", "float16", "bfloat16")
    parser.add_argument("--dtype", choices=dtypes, default="float32", help="default float32; half as fairseq does it")
    if base is None:
        parser.add_argument("--size", choices=SIZES, default="small", help="of the model (default small)")


def step_settings(args: argparse.Namespace, base: Settings, **changes: Any) -> Settings:
    """Return ``base`` with ``changes`` and with the numbers, device and dtype of a command line."""
    numbers = {name: getattr(args, name) for name in NUMBERS if getattr(args, name) is not None}
    return replace(base, device=args.device, dtype=args.dtype, **changes, **numbers)


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line. Raises InputError where an hour's figures would be lost: their folder is not there."""
    args = parser.parse_args()
    for option in ("json", "plot"):
        path = getattr(args, option, None)
        if path and not path.resolve().parent.is_dir():
            raise InputError(f"--{option} {path}: its folder does not exist")
    return args


def check_device(device: str) -> None:
    if device == "cpu":
        return
    import torch  # which these processes do not need otherwise

    if not torch.cuda.is_available():
        build = f"torch {torch.__version__} with CUDA {torch.version.cuda}"
        raise InputError(f"--device {device}: {build} finds no NVIDIA GPU: measure on the CPU")


def take_turns(
    cases: Mapping[str, Callable[[], T]], rounds: int, title: str = "", warm_up: bool = False
) -> dict[str, list[T]]:
    """Return each case's results, one a round, backwards in every other round; a ``warm_up`` does not count."""
    results: dict[str, list[T]] = {name: [] for name in cases}
    for number in tqdm(range(rounds + warm_up), title, leave=False, disable=None):
        for name in list(cases)[:: -1 if number % 2 else 1]:
            result = cases[name]()
            if number >= warm_up:
                results[name].append(result)
    return results


def child_environment(threads: int | None = None, peers: bool = False) -> dict[str, str]:
    """Return the environment of a measured process, which finds this project, or first the ``peers``."""
    folders = [str(PEERS_FOLDER)] * peers + [str(ROOT), os.environ.get("PYTHONPATH", "")]
    fixed = {"TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    fixed |= {"OMP_NUM_THREADS": str(threads)} if threads else {}
    fixed |= {"HF_HUB_OFFLINE": "1"} if peers else {}
    return {**os.environ, **fixed}


@dataclass(frozen=True)
class Finished:
    """A process that has ended: its lines with the seconds from its start to each, and what it took.

    ``cpu`` and ``peak_mib`` are of all the processes that it started, too: seconds together, memory of the largest.
    """

    lines: list[tuple[float, str]]
    wall: float
    cpu: float
    peak_mib: float

    def all(self, pattern: str) -> list[tuple[float, re.Match[str]]]:
        """Return the seconds and the match of every line that matches."""
        matches = ((seconds, re.search(pattern, line)) for seconds, line in self.lines)
        return [(seconds, match) for seconds, match in matches if match]

    def first(self, pattern: str) -> tuple[float, re.Match[str]]:
        """Return the first line that matches. Raises RuntimeError where no line does."""
        for match in self.all(pattern):
            return match
        raise RuntimeError(f"its output has no line like {pattern!r}: does this fairseq log otherwise?")


def run_process(command: list[str], threads: int, **variables: str) -> Finished:
    """Run a command to its end. Raises InputError with the last line of one that fails, whose traceback is printed."""
    start = time.perf_counter()
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    # threads that spin while they wait would be counted; lines have to come when they are written
    steady = {"OMP_WAIT_POLICY": "PASSIVE", "PYTHONUNBUFFERED": "1"}
    environment = {**child_environment(threads), **steady, **variables}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, errors="replace", **streams) as process:
        assert process.stdout is not None
        try:
            lines = [(time.perf_counter() - start, line) for line in process.stdout]
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            raise
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        text = "".join(line for _, line in lines).strip()
        _, traceback, trace = text.rpartition("Traceback (most recent call last)")
        print(f"{traceback}{trace}" if traceback else "", end="", file=sys.stderr)
        raise InputError(text.rpartition("\n")[2] or f"{command[0]} ended with status {process.returncode}")
    return Finished(lines, time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**10)


def write_json(path: Path | None, figures: Any) -> None:
    if path:
        write_text(path, json.dumps(figures, indent=1) + "\n")
