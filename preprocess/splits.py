"""From the command line's options to splits that can be binarized."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .errors import InputError, reason_of
from .json_examples import Record
from .labels import Labels
from .readers import LAYOUTS, record_rows
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
    layout = "csv-with-quotes" if (task.layout, args.csv_quotes) == ("csv", "keep") else task.layout
    splits = []
    for name in dict.fromkeys(args.splits or task.files):
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
    texts = [_column(name, args.no_header) for name in args.text_columns or ()]
    label = _column(args.label_column, args.no_header)
    if not 1 <= len(texts) <= 2 or len({*texts, label}) <= len(texts):
        raise InputError(
            f"--text-columns {' '.join(args.text_columns or ())}: name the column of the sentences, or two for pairs, "
            f"and not that of the labels (--label-column {args.label_column})"
        )
    columns = Columns(texts, label, header=not args.no_header, unused_fields=args.no_header)
    if args.from_hub:
        pairs = _pairs("hub", args.splits or HUB)
        splits = [_hub_split(args.from_hub, *pair, columns, _is_strict(args, pair[0])) for pair in pairs]
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
    """Return (split, file) for each SPLIT=FILE."""
    pairs = [(name, file) for name, _, file in (value.partition("=") for value in values)]
    names = [name for name, file in pairs if file and name.rstrip("0123456789") in ("train", "valid", "test")]
    if len(set(names)) < len(pairs):
        raise InputError(f"--from-{kind} {' '.join(values)}: give train=..., valid=... and, if there is one, test=...")
    return pairs


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


# --- data sets of the Hugging Face hub, with the optional package `datasets` ----------------------

LEAST_DATASETS = 4  # the first version of `datasets` that runs no scripts of data sets (its release notes)


def _hub_split(dataset: str, name: str, hub_name: str, columns: Columns, strict: bool) -> Split:
    """One split of ``DATASET`` or ``DATASET:CONFIG``; class numbers are written as the names of the classes.

    Raises:
        InputError: see ``_load_hub``; it lacks a column.
    """
    data = _load_hub(dataset, hub_name)
    test = name.startswith("test")
    missing = [column for column in [*columns.texts, columns.label] if column and column not in data.column_names]
    if missing and not (missing == [columns.label] and test):
        raise InputError(f"--from-hub {dataset} has no column {missing[0]}: it has {', '.join(data.column_names)}")
    names = getattr(data.features.get(columns.label), "names", None)
    columns = columns._replace(label_optional=test)
    source = Source(f"hub:{dataset}/{hub_name}")
    source.sha256 = f"fingerprint {data._fingerprint}"
    malformed = Malformed(source.name, strict)

    def record(row: Record) -> Record:
        number = row.get(columns.label)
        if names is None or number is None:
            return row
        return {**row, columns.label: names[number] if number >= 0 else None}  # -1, and no other counts from the end

    def read(on_bytes: OnBytes) -> Iterator[Row]:
        malformed.clear()
        return record_rows(enumerate(map(record, data), start=1), columns, malformed)

    return Split(name, source, read, malformed)


def _load_hub(dataset: str, hub_name: str) -> Any:
    """The rows of a split, as `datasets` has them.

    Raises:
        InputError: `datasets` is not installed, or cannot load the data set.
    """
    try:
        import datasets

        if int(datasets.__version__.partition(".")[0]) < LEAST_DATASETS:
            raise ImportError(f"datasets {datasets.__version__} runs scripts of data sets")
    except ImportError as error:
        raise InputError(f"--from-hub: {error}: pip install 'datasets>={LEAST_DATASETS}'") from None
    path, _, config = dataset.partition(":")
    try:
        return datasets.load_dataset(path, config or None, split=hub_name)
    except Exception as error:  # datasets raises many kinds: no network, no such data set, no such split
        reason = reason_of(error)
        raise InputError(f"--from-hub {dataset}, split {hub_name}: {reason}: check the name and the network") from None


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
