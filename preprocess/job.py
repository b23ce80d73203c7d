"""From the command line's options to splits that can be binarized."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from .errors import InputError
from .hub import hub_split
from .labels import Labels
from .readers import LAYOUTS
from .rows import Columns, Malformed, Row, Rows, Split
from .sources import OnBytes, Source, find_source, places
from .tasks import Task
from .transforms import (
    ENTAILED,
    NOT_ENTAILED,
    csv_quoted_noted,
    efl_descriptions,
    entailment_pairs,
    hidden_labels_left_out,
    swapped_pairs_appended,
)

REQUIRED = ("train", "valid")


def _reader(layout: str, source: Source, columns: Columns, malformed: Malformed, skipped: Sequence[str] = ()) -> Rows:
    """A function that reads the rows of a source from its start."""

    def read(on_bytes: OnBytes) -> Iterator[Row]:
        malformed.clear()
        rows = LAYOUTS[layout](source.lines(on_bytes), columns, malformed)
        return kept(rows) if skipped else rows

    def kept(rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            if row.label in skipped:
                malformed.leave_out(row.line, f"label {row.label}")
            else:
                yield row

    return read


def _is_strict(args: argparse.Namespace, split: str) -> bool:
    """Whether a malformed line of a split is an error: in a test split its prediction would be missing."""
    return args.strict or (split.startswith("test") and not args.skip_bad)


# --- tasks of the table --------------------------------------------------------------------------


def task_splits(task: Task, args: argparse.Namespace) -> tuple[list[Split], Labels]:
    """The splits of a known task below ``--raw``; without ``--splits``, test files may be missing."""
    raw = Path(args.raw)
    if not raw.exists():
        raise InputError(f"--raw {raw} does not exist: name the folder or zip archive that holds {task.name}")
    unknown = [name for name in args.splits or () if name not in task.files]
    if unknown:
        raise InputError(f"--splits {unknown[0]}: {task.name} has {', '.join(task.files)}")
    if len(set(args.splits or ())) < len(args.splits or ()):
        raise InputError(f"--splits {' '.join(args.splits)}: a split is named twice: give each once")
    layout = task.layout
    if args.csv_quotes == "keep":
        layout = f"{layout}-with-quotes"
        if layout not in LAYOUTS:
            raise InputError(f"--csv-quotes keep: {task.name} is not read from csv files: leave it out")
    splits = []
    for name in args.splits or task.files:
        source = find_source(raw, task, name)
        if source is not None:
            splits.append(_task_split(task, name, source, layout, _is_strict(args, name)))
        elif args.splits or not name.startswith("test") or list(task.files) == ["test"]:
            known = " or ".join(places(task, name))
            raise InputError(
                f"--raw {raw} has no {name} split of {task.name} ({known}, also within a zip archive): put it there, "
                f"or name the splits to make with --splits"
            )
    labels = Labels(scale=task.scale) if task.regression else Labels(task.labels)
    return transformed(splits, labels, task.name, len(task.texts), task.labels, args)


def _task_split(task: Task, name: str, source: Source, layout: str, strict: bool) -> Split:
    test = name.startswith("test")
    other_columns = test and bool(task.test_texts)
    columns = Columns(
        texts=task.test_texts if other_columns else task.texts,
        label="label" if other_columns else task.label,
        header=task.header or other_columns,
        label_optional=test,
        trailing_fields=task.trailing_fields,
        number=task.number if test else None,
    )
    malformed = Malformed(source.name, strict)
    return Split(name, source, _reader(layout, source, columns, malformed, task.skipped_labels), malformed)


# --- own data ------------------------------------------------------------------------------------


def own_splits(args: argparse.Namespace) -> tuple[list[Split], Labels]:
    """The splits named as SPLIT=FILE with --from-tsv, --from-csv or --from-jsonl, or those of a hub data set."""
    if len(args.text_columns or ()) > 2:
        raise InputError(f"--text-columns {' '.join(args.text_columns)}: give one column, or the two of a pair")
    if not args.text_columns:
        raise InputError("--text-columns is missing: name the column of the sentence, or the two columns of a pair")
    texts = [_column(name, args.no_header) for name in args.text_columns]
    label = _column(args.label_column, args.no_header)
    if label in texts:
        raise InputError(
            f"--text-columns {args.label_column} is the column of the labels, which a model would read: name the "
            "text's, and the labels' with --label-column"
        )
    if len(set(texts)) < len(texts):
        raise InputError(f"--text-columns {' '.join(args.text_columns)}: a pair has two columns, and these are one")
    columns = Columns(texts, label, header=not args.no_header, unused_fields=args.no_header)
    if args.from_hub:
        pairs = _pairs("hub", args.splits or HUB)
        splits = [hub_split(args.from_hub, *pair, columns, _is_strict(args, pair[0])) for pair in pairs]
    else:
        layout, files = next((kind, getattr(args, f"from_{kind}")) for kind in OWN if getattr(args, f"from_{kind}"))
        pairs = _pairs(layout, files)
        splits = [_own_split(layout, name, Path(file), columns, _is_strict(args, name)) for name, file in pairs]
    if args.regression is not None:
        labels = Labels(scale=args.regression)
    else:
        labels = Labels(args.labels, keep_order=bool(args.labels))
    splits.sort(key=lambda split: not split.name.startswith("train"))  # classes are those of the training split
    return transformed(splits, labels, args.task, len(texts), tuple(args.labels or ()), args)


OWN = ("tsv", "csv", "jsonl")
HUB = ("train=train", "valid=validation", "test=test")


def _pairs(kind: str, values: Sequence[str]) -> list[tuple[str, str]]:
    pairs = [tuple(value.split("=", 1)) for value in values]
    for value, pair in zip(values, pairs):
        if len(pair) != 2 or pair[0].rstrip("0123456789") not in ("train", "valid", "test"):
            raise InputError(f"--from-{kind} {value}: give train=..., valid=... and, if there is one, test=...")
    if len({name for name, _ in pairs}) < len(pairs):
        raise InputError(f"--from-{kind}: a split is named twice: give each once")
    return [(name, file) for name, file in pairs]


def _column(name: str, by_number: bool) -> str | int:
    if not by_number:
        return name
    if not name.isdecimal() or not int(name):
        raise InputError(f"column {name}: with --no-header columns are numbers, from 1: give such a number")
    return int(name) - 1


def _own_split(layout: str, name: str, file: Path, columns: Columns, strict: bool) -> Split:
    source = Source.file(file)
    malformed = Malformed(source.name, strict)
    columns = columns._replace(label_optional=name.startswith("test"))
    split = Split(name, source, _reader(layout, source, columns, malformed), malformed)
    if layout == "tsv":
        split.rows = csv_quoted_noted(split.rows, split.csv_quoted, malformed)
    return split


# --- transforms ----------------------------------------------------------------------------------


def transformed(
    splits: list[Split], labels: Labels, name: str, inputs: int, classes: tuple[str, ...], args: argparse.Namespace
) -> tuple[list[Split], Labels]:
    """The same splits without hidden labels, with --efl and --swap-pairs applied."""
    for split in splits:
        if split.name.startswith("test"):
            split.rows = hidden_labels_left_out(split.rows, labels.codes)
    if args.efl:
        descriptions = efl_descriptions(name, inputs, classes)
        for split in splits:
            split.rows = entailment_pairs(split.rows, descriptions, classes, split.source.name)
        labels = Labels((NOT_ENTAILED, ENTAILED), keep_order=True)
        inputs = 2
    if args.swap_pairs == "append":
        if inputs != 2:
            raise InputError(f"--swap-pairs append: {name} has single sentences: leave it out")
        for split in splits:
            if split.name.startswith("train"):
                split.rows, split.passes = swapped_pairs_appended(split.rows), 2
    return splits, labels
