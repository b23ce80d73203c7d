"""Raw files to rows of texts and a label: one function per layout, registered in ``LAYOUTS``."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any

from .errors import InputError
from .json_examples import RECORDS, MakeExamples, Record, RecordExample, plain
from .rows import Columns, Malformed, Row
from .sources import LONGEST, too_long
from .tasks import FOLDERS, Column

Lines = Iterator["tuple[int, str]"]
csv.field_size_limit(LONGEST)
LONGEST_RECORD = 64 * LONGEST  # characters of its examples; those of ReCoRD have some millions
TWICE = "there a second time"
QUOTES_REMEDY = "mend the file, or, of CR, MR, SUBJ and MPQA, give --csv-quotes keep if quotes are ordinary characters"

# --- tables --------------------------------------------------------------------------------------


def _numbers(columns: Columns, names: Sequence[str] | None, source: str) -> tuple[list[int], int | None]:
    """The columns as numbers; the label's is None when the file has no labels and need not have any."""

    def number(column: Column) -> int | None:
        if isinstance(column, int):
            return column
        if names and names.count(column) > 1:
            raise InputError(f"{source} has two columns {column}: give one of them another name")
        return names.index(column) if names and column in names else None

    texts = [number(column) for column in columns.texts]
    label = None if columns.label is None else number(columns.label)
    missing = [column for column, found in zip(columns.texts, texts) if found is None]
    if columns.label is not None and label is None and not columns.label_optional:
        missing.append(columns.label)
    if missing:
        empty = "its first line is empty" if names else "it has no header"
        known = f"it has {', '.join(names)}" if names and any(names) else empty
        remedy = "name columns of the file"
        if names and len(names) == 1 and str(missing[0]) in names[0]:
            remedy = "separate its columns with tabs for tsv, with commas for csv"
        raise InputError(f"{source} has no column {missing[0]}: {known}; {remedy}")
    return [found for found in texts if found is not None], label


def _name(field: str) -> str:
    """What is the same of a column's name in the headers of several files."""
    return field.strip(' "').casefold()


def _table(rows: Iterator[tuple[int, list[str]]], columns: Columns, malformed: Malformed) -> Iterator[Row]:
    names = None
    if columns.header:
        names = next(rows, (0, None))[1]
        if names is None:
            return
    malformed.empty.clear()  # lines in front of the header
    header = sorted(map(_name, names or ()))
    texts, label = _numbers(columns, names, malformed.source)
    number = names.index(columns.number) if names and columns.number and columns.number in names else None
    wanted = len(names) if names else 1 + max([*texts, label or 0])
    if columns.unused_fields:
        first = list(islice(rows, 1))
        wanted, rows = max([wanted, *(len(fields) for _, fields in first)]), chain(first, rows)
    pick = itemgetter(*texts) if len(texts) > 1 else lambda fields: (fields[texts[0]],)
    seen: set[str] = set()
    for line, fields in rows:
        if fields == [""] and wanted > 1:
            malformed.note_empty(line)
            continue
        malformed.place_empty()
        if _name(fields[0]) in header and sorted(map(_name, fields)) == header:
            raise InputError(
                f"{malformed.source} line {line} is the header once more, as in files that were joined: remove the line"
            )
        if len(fields) < wanted or (len(fields) > wanted and not columns.trailing_fields):
            malformed.add(line, f"{len(fields)} fields instead of {wanted}")
            continue
        gold = None if label is None else fields[label].strip()
        own = None if number is None else fields[number].strip()
        if own is not None and (not own.isdecimal() or own in seen):
            malformed.add(line, f"{columns.number} {own!r} is {TWICE if own in seen else 'no number'}")
            continue
        if own is not None:
            seen.add(own)
        yield Row(line, pick(fields), gold, own)


def tsv_rows(lines: Lines, columns: Columns, malformed: Malformed) -> Iterator[Row]:
    """Tab-separated fields, in which quotes are ordinary characters (GLUE)."""
    return _table(((line, text.split("\t")) for line, text in lines), columns, malformed)


def csv_rows(lines: Lines, columns: Columns, malformed: Malformed) -> Iterator[Row]:
    """Comma-separated fields, quoted where they hold commas, quotes or line ends; a space may stand before one."""
    return _table(_csv_fields(lines, malformed), columns, malformed)


def _csv_fields(lines: Lines, malformed: Malformed) -> Iterator[tuple[int, list[str]]]:
    size = 0  # of the record that is being read, which may have many lines

    def joined() -> Iterator[str]:
        nonlocal size
        for _, text in lines:
            size += len(text) + 1
            if size > LONGEST:
                raise too_long(malformed.source, line)
            yield text + "\n"

    reader = csv.reader(joined(), strict=True, skipinitialspace=True)
    while True:
        line, size = reader.line_num + 1, 0
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end of data" in str(error) or reader.line_num > line:
                raise InputError(
                    f"{malformed.source} line {line}: a quote is opened and not closed up to line {reader.line_num}: "
                    f"{QUOTES_REMEDY}"
                ) from None
            malformed.add(line, f"not csv ({error})")
            continue
        if fields:
            yield line, fields
        else:
            malformed.note_empty(line)


def csv_rows_with_quotes(lines: Lines, columns: Columns, malformed: Malformed) -> Iterator[Row]:
    """``label,text`` cut at the first comma, csv quotes left in the text, as in the folders the authors published."""
    fields = ((line, text.split(",", 1)) for line, text in lines)
    return _table(fields, columns, malformed)


def labelled_texts(lines: Lines, columns: Columns, malformed: Malformed) -> Iterator[Row]:
    """``LABEL<tab>TEXT``, as ``sources.TextFolders`` gives it: whatever else is in a text belongs to it."""
    for line, text in lines:
        label, _, text = text.partition("\t")
        yield Row(line, (text,), label)


# --- records -------------------------------------------------------------------------------------


def label_text(label: Any) -> str | None:
    """A JSON label as it stands in ``label/dict.txt``: true and false in lower case.

    Raises:
        TypeError: it is a list or an object, or JSON's NaN or Infinity.
    """
    if not isinstance(label, (str, int, float, type(None))) or isinstance(label, float) and not math.isfinite(label):
        raise TypeError(f"label {label!r}")
    return None if label is None else str(label).lower() if isinstance(label, bool) else str(label).strip()


def is_text(value: Any) -> bool:
    """Whether it is a string that UTF-8 can hold: JSON may have half of a surrogate pair."""
    return isinstance(value, str) and not any("\ud800" <= sign <= "\udfff" for sign in value if sign > "\ud7ff")


def record_rows(
    records: Iterator[tuple[int, Record]], columns: Columns, malformed: Malformed, make: MakeExamples = plain
) -> Iterator[Row]:
    """Rows of dictionaries; every line that lacks a field, or has another type of text in it, is malformed.

    A record of which a part is malformed is left out as a whole: half a question has no right answer.
    """
    asked = 0
    seen: set[str | None] = set()
    for line, record in records:
        try:
            examples = list(_bounded(make(record, columns)))
            labels = [label_text(example.label) for example in examples]
        except (KeyError, TypeError, AttributeError) as error:
            malformed.add(line, f"no field {error}" if isinstance(error, KeyError) else f"not such a record ({error})")
            continue
        own = {example.number for example in examples} - {None}
        if not all(is_text(text) for example in examples for text in example.texts):
            malformed.add(line, "a sentence that is not text")
        elif None in labels and columns.label is not None and not columns.label_optional:
            malformed.add(line, f"no field {columns.label!r}")
        elif own & seen:
            malformed.add(line, f"{columns.number} {min(filter(None, own & seen))!r} is {TWICE}")
        else:
            seen |= own
            for example, label in zip(examples, labels):
                question = None if example.question is None else asked + example.question
                yield Row(line, example.texts, label, example.number, question, example.answer)
            asked += max((1 + example.question for example in examples if example.question is not None), default=0)


def _bounded(examples: Iterator[RecordExample]) -> Iterator[RecordExample]:
    """Raises TypeError where the examples of one record, which repeat its texts, have too many characters."""
    size = 0
    for example in examples:
        size += sum(len(text) for text in example.texts if isinstance(text, str))
        if size > LONGEST_RECORD:
            raise TypeError(f"examples of over {LONGEST_RECORD:,} characters")
        yield example


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; ValueError where a key is there twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is there twice")
    return made


def json_records(lines: Lines, malformed: Malformed) -> Iterator[tuple[int, Record]]:
    for line, text in lines:
        if not text.strip():
            malformed.note_empty(line)
            continue
        malformed.place_empty()
        if line == 1 and text.lstrip().startswith("["):  # a line or two of which may be records by themselves
            raise InputError(f"{malformed.source} is one JSON list: write an object in each line (pandas: lines=True)")
        try:
            record = json.loads(text, object_pairs_hook=distinct)
        except (ValueError, RecursionError) as error:
            malformed.add(line, f"not JSON ({error})")
            continue
        yield line, record


def _jsonl(make: MakeExamples) -> Callable[[Lines, Columns, Malformed], Iterator[Row]]:
    return lambda lines, columns, malformed: record_rows(json_records(lines, malformed), columns, malformed, make)


LAYOUTS: dict[str, Callable[[Lines, Columns, Malformed], Iterator[Row]]] = {
    "tsv": tsv_rows,
    "csv": csv_rows,
    "csv-with-quotes": csv_rows_with_quotes,
    FOLDERS: labelled_texts,
    **{name: _jsonl(make) for name, make in RECORDS.items()},
}
