"""One folder, from the parsed command line."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .binarize import Encoding, binarize
from .data_folder import CONTENT
from .encoders import vocab_folder
from .labels import Labels
from .rows import Split
from .sources import OnBytes
from .splits import own_splits, task_splits
from .summary import summary, write_records
from .tasks import TASKS, TEST_SETS, find_task
from .writing import check_only, new_folder


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
    encoder = encoding.load()
    sizes = [split.source.size for split in splits]
    total = None if None in sizes else sum(size * split.passes for size, split in zip(sizes, splits) if size)
    with new_folder(target, overwrite) as folder, progress(total, target.name) as on_bytes:
        binarize(splits, labels, encoder, encoding, folder, on_bytes)
        write_records(folder, task, splits, labels, encoder, encoding, arguments)
    if encoder.assumed:
        print(encoder.assumed)
