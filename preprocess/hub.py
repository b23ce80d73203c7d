"""Data sets of the Hugging Face hub, read with the optional package `datasets`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from .errors import InputError, reason_of
from .json_examples import Record
from .readers import record_rows
from .rows import Columns, Malformed, Row, Split
from .sources import OnBytes, Source

LEAST = 4  # the first version of `datasets` that runs no scripts of data sets (its release notes)


def _no_file() -> BinaryIO:
    raise TypeError("a hub data set has rows, not a file of lines")


def hub_split(dataset: str, name: str, hub_name: str, columns: Columns, strict: bool) -> Split:
    """One split of ``DATASET`` or ``DATASET:CONFIG``; class numbers are written as the names of the classes.

    Raises:
        InputError: see ``_load``; it lacks a column.
    """
    data = _load(dataset, hub_name)
    test = name.startswith("test")
    missing = [column for column in [*columns.texts, columns.label] if column and column not in data.column_names]
    if missing and not (missing == [columns.label] and test):
        raise InputError(f"--from-hub {dataset} has no column {missing[0]}: it has {', '.join(data.column_names)}")
    names = getattr(data.features.get(columns.label), "names", None)
    columns = columns._replace(label_optional=test)
    source = Source(f"hub:{dataset}/{hub_name}", None, _no_file)
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


def _load(dataset: str, hub_name: str) -> Any:
    """The rows of a split, as `datasets` has them.

    Raises:
        InputError: `datasets` is not installed, or cannot load the data set.
    """
    try:
        import datasets
    except ImportError:
        raise InputError("--from-hub needs the package datasets: pip install datasets") from None
    if int(datasets.__version__.partition(".")[0]) < LEAST:
        raise InputError(
            f"--from-hub: datasets {datasets.__version__} runs scripts of data sets: pip install 'datasets>={LEAST}'"
        )
    path, _, config = dataset.partition(":")
    try:
        return datasets.load_dataset(path, config or None, split=hub_name)
    except Exception as error:  # datasets raises many kinds: no network, no such data set, no such split
        reason = reason_of(error)
        raise InputError(f"--from-hub {dataset}, split {hub_name}: {reason}: check the name and the network") from None
