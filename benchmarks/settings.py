"""What the benchmarks share: the model's size, the device, options, files of figures."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# every script imports this file before others of the project, and so runs from anywhere, installed or not
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from preprocess.errors import InputError
from preprocess.flags import flag_name, positive
from preprocess.writing import write_text

ROOT = Path(__file__).resolve().parents[1]
SHORTEST, LONGEST = 0.3, 1.5  # where drawn lengths are cut off, times their mean
# RoBERTa's table of positions and dictionary, which begins with <s>, <pad>, </s>, <unk> and ends with <mask>
POSITIONS, VOCAB, SPECIALS = 512, 50265, 4
BOS, PAD, EOS, MASK = 0, 1, 2, VOCAB - 1
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


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
        rows = f"prompt length {self.prompt_length}" if self.prompt_length else "each preset's prompt length"
        return (
            f"{self.layers} layers, width {self.width}, batch {self.batch}, {about}{self.length} tokens, "
            f"{rows}, {self.dtype}, {self.threads} thread{'s' * (self.threads > 1)}{cpu}"
        )


SIZES: dict[str, Settings] = {
    "tiny": Settings(layers=2, width=32, ffn=64, heads=4),  # to try something out
    "small": Settings(),
    "roberta-large": Settings(layers=24, width=1024, ffn=4096, heads=16),
}
NUMBERS = {
    "layers": "of the encoder",
    "width": "of the encoder",
    "ffn": "inner width of the feed-forward",
    "heads": "of attention",
    "batch": "examples of a batch",
    "length": "tokens of an example",
    "prompt_length": "rows of a prompt",
    "steps": "batches: each round runs all of them",
    "threads": "of torch on the CPU",
}


def new_parser(doc: str | None, **numbers: tuple[int, str]) -> argparse.ArgumentParser:
    """Return the parser of a script with this ``doc``: --json, and ``numbers`` with their defaults and meanings."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n\n")[0])
    for name, (default, text) in numbers.items():
        parser.add_argument(
            flag_name(name), type=positive, default=default, metavar="N", help=f"{text} (default {default})".strip()
        )
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the figures")
    return parser


def add_clock(parser: argparse.ArgumentParser) -> None:
    clocks = "seconds: the wall's, or those that the CPU computed, for machines that others use too (default wall)"
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help=clocks)


def add_numbers(parser: argparse.ArgumentParser, base: Settings, **notes: str) -> None:
    """Add an option for each number. One that is not given is None: then it is ``base``'s, or what ``notes`` say."""
    for name, text in NUMBERS.items():
        note = notes.get(name, getattr(base, name))
        parser.add_argument(flag_name(name), type=positive, metavar="N", help=f"{text} (default {note})")


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default cpu")
    dtypes = ("float32", "float16", "bfloat16")
    parser.add_argument("--dtype", choices=dtypes, default="float32", help="default float32; half as fairseq does it")


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line; InputError for a file whose folder does not exist: an hour's figures would be lost."""
    args = parser.parse_args()
    for option in ("json", "plot"):
        path = getattr(args, option, None)
        if path and not path.resolve().parent.is_dir():
            raise InputError(f"--{option} {path}: its folder does not exist")
    return args


def step_parser(doc: str | None, base: Settings, rounds: int, **notes: str) -> argparse.ArgumentParser:
    """Return the parser of a script that measures training steps; see ``add_numbers`` for ``base`` and ``notes``."""
    parser = new_parser(doc, rounds=(rounds, "after one to warm up"))
    add_numbers(parser, base, **notes)
    add_device(parser)
    return parser


def step_settings(args: argparse.Namespace, base: Settings, **changes: Any) -> Settings:
    """Return ``base`` with ``changes`` and with the numbers, device and dtype of a command line."""
    given = {name: getattr(args, name) for name in NUMBERS if getattr(args, name) is not None}
    return replace(base, device=args.device, dtype=args.dtype, **changes, **given)


def check_device(device: str) -> None:
    """Raise InputError for a device that torch cannot use here."""
    if device == "cpu":
        return
    import torch  # which these processes do not need otherwise

    if not torch.cuda.is_available():
        build = "is a build without CUDA" if torch.version.cuda is None else "finds no NVIDIA GPU that it can use"
        raise InputError(f"--device {device}: torch {torch.__version__} {build}: measure on the CPU")


def write_json(path: Path | None, found: Any) -> None:
    """Write what --json names, if it names a file."""
    if path:
        write_text(path, json.dumps(found, indent=1) + "\n")


def failure(output: str) -> str:
    """Return the last line of a failed process, which is how bad input is reported; a traceback goes to stderr."""
    text = output.strip()
    start = text.rfind("Traceback (most recent call last)")
    if start >= 0:
        print(text[start:], file=sys.stderr)
    return text.rpartition("\n")[2] or "it said nothing"
