"""One folder, from the parsed command line, and what a run says about it: the summary and ``preprocess.log``."""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .binarize import Encoding, binarize
from .checksums import FOLDER_FACTS, sha256, write_checksums
from .columns import aligned
from .data_folder import CONTENT, joined
from .encoders import Encoder, vocab_folder
from .errors import escaped
from .labels import Labels
from .rows import MAX_POSITIONS, Split
from .sources import OnBytes
from .splits import own_splits, task_splits
from .tasks import TASKS, TEST_SETS, find_task
from .writing import check_only, new_folder

TRAIN = "train"
SHOWN = 5  # malformed lines on the terminal; the log has all
COLUMNS = ("split", "examples", "tokens", "unknown", f">{MAX_POSITIONS}", "truncated", "empty", "malformed")


def build(args: argparse.Namespace, arguments: Sequence[str]) -> Path:
    """Makes ``OUT/TASK-bin``, prints the summary and returns the folder."""
    started = time.monotonic()
    splits, labels = splits_of(args)
    encoding = Encoding(args.bpe, vocab_folder(args.bpe, args.vocab), args.max_length, args.workers)
    target = args.out / f"{args.task}-bin"
    write_folder(target, args.task, splits, labels, encoding, arguments, args.overwrite)
    print(f"{target} in {time.monotonic() - started:.1f} s\n{summary(splits, labels)}")
    return target


def splits_of(args: argparse.Namespace) -> tuple[list[Split], Labels]:
    """The splits to make; the task's name in ``args`` becomes the one in the table."""
    if not args.raw:
        return own_splits(args)
    task = find_task(args.task, {**TASKS, **TEST_SETS})
    args.task = task.name
    return task_splits(task, args)


@contextlib.contextmanager
def progress(total: int | None, name: str) -> Iterator[OnBytes]:
    """A bar on a terminal, nothing elsewhere; gives the function that is told of the bytes read."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from tqdm import tqdm  # slow to load, and only for a terminal

    with tqdm(total=total, unit="B", unit_scale=True, desc=name, file=sys.stderr, leave=False) as bar:
        yield bar.update


def write_folder(
    target: Path,
    task: str,
    splits: Sequence[Split],
    labels: Labels,
    encoding: Encoding,
    arguments: Sequence[str],
    overwrite: bool = False,
) -> None:
    """Fills a folder and puts it in its place when it is complete."""
    check_only(target, CONTENT)
    encoder = encoding.encoder
    sizes = [split.source.size for split in splits]
    total = None if None in sizes else sum(size * split.passes for size, split in zip(sizes, splits) if size)
    with new_folder(target, overwrite) as folder, progress(total, target.name) as on_bytes:
        binarize(splits, labels, encoding, folder, on_bytes)
        write_records(folder, task, splits, labels, encoding, arguments)
    if encoder.assumed:
        print(encoder.assumed)


# --- what is said of it ---------------------------------------------------------------------------


def summary(splits: Sequence[Split], labels: Labels) -> str:
    """A table with a line for each split, the labels, what is trained and judged on, and the first malformed lines."""
    rows: list[tuple[str, ...]] = [COLUMNS]
    for split in splits:
        tokens = " + ".join(f"{count:,}" for count in split.tokens)
        counts = (split.unknown, split.too_long, split.truncated, split.empty, len(split.malformed.lines))
        rows.append((split.name, f"{split.examples:,}", tokens, *(f"{count:,}" for count in counts)))
    lines = [*aligned(rows, left=()), *labels.described(), *trained_together(splits), *trained_and_judged_on(splits)]
    for split in splits:
        bad = split.malformed.lines
        if bad:
            shown = "; ".join(f"line {line}: {reason}" for line, reason in bad[:SHOWN])
            rest = f"; and {len(bad) - SHOWN} more (preprocess.log)" if len(bad) > SHOWN else ""
            lines.append(f"{split.source.name}: skipped {shown}{rest}")
        if split.csv_quoted:
            lines.append(
                f"{split.source.name}: {len(split.csv_quoted):,} lines, the first {min(split.csv_quoted)}, have a text "
                "that looks quoted as in csv, and keep its quotes; if they are not the text's, save the file with "
                "commas and give --from-csv"
            )
    return "\n".join(map(escaped, lines))


def trained_together(splits: Sequence[Split]) -> list[str]:
    """A line on several training splits: which of them fairseq-train joins, and which it reads by name alone."""
    names = [split.name for split in splits if split.name.startswith(TRAIN)]
    together = joined(TRAIN, names)
    others = [f"on {name} with --train-subset {name} alone" for name in names if name not in together]
    return [", ".join([f"fairseq-train trains on {' and '.join(together)}", *others])] if len(names) > 1 else []


def trained_and_judged_on(splits: Sequence[Split]) -> list[str]:
    """A line for each other split that was read from the bytes of a training split."""
    trained = {split.source.sha256: split.name for split in splits if split.name.startswith(TRAIN)}
    return [
        f"{split.name} is the text of {trained[split.source.sha256]}: its scores tell nothing about other sentences"
        for split in splits
        if split.source.sha256 in trained and not split.name.startswith(TRAIN)
    ]


def log_text(splits: Sequence[Split], labels: Labels, encoder: Encoder, arguments: Sequence[str]) -> str:
    """Versions, the command, checksums of all that was read, the summary and every malformed line."""
    versions = installed_versions(("numpy", "tokenizers", "sentencepiece"))
    lines = [
        f"command: python -m preprocess {' '.join(arguments)}",
        f"python {platform.python_version()} on {sys.platform}, "
        + ", ".join(f"{name} {number}" for name, number in versions.items()),
        *(f"sha256 {sha256(path)} {path}" for path in encoder.files),
        *(f"sha256 {split.source.sha256} {split.source.name}" for split in splits),
        *filter(None, [encoder.assumed]),
        "",
        summary(splits, labels),
    ]
    for split in splits:
        bad = split.malformed.lines
        lines += [escaped(f"malformed: {split.source.name} line {line}: {reason}") for line, reason in bad]
    return "\n".join(lines) + "\n"


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Of those packages that are there."""
    found = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def write_records(
    folder: Path,
    task: str,
    splits: Sequence[Split],
    labels: Labels,
    encoding: Encoding,
    arguments: Sequence[str],
) -> None:
    """``preprocess.log`` for people, ``preprocess.json`` for commands that must find the encoder again, checksums.

    Checkpoints keep the task, the encoder's fingerprint, what scores were divided by (None: classes) and how many
    tokens of a sentence were kept (None: all).
    """
    (folder / "preprocess.log").write_text(log_text(splits, labels, encoding.encoder, arguments), encoding="utf-8")
    record = {
        "task": task,
        "bpe": encoding.bpe,
        "vocab": str(encoding.vocab.resolve()),
        "vocab_sha256": encoding.encoder.fingerprint(),
        "scale": labels.scale,
        "max_length": encoding.max_length,
    }
    (folder / FOLDER_FACTS).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    write_checksums(folder)
