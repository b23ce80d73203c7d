"""Raw files to rows of texts and a label: one function per layout, registered in ``LAYOUTS``.

How SuperGLUE's records become pairs of sentences. MultiRC and ReCoRD: an example for each answer, as jiant has them,
the toolkit of the benchmark's authors (jiant/tasks/qa.py at 02035f8); of ReCoRD's entities, which are places in the
passage, each text once, in alphabetical order, so that among equally likely ones the first is that of jiant, too.
COPA: an example for each choice. WSC: the pronoun between asterisks as in T5's text, and the noun phrase as the second
sentence, as P-tuning v2's code (tasks/superglue/dataset.py, template 1) gives both to BERT and RoBERTa; jiant instead
compares the states of the two places, which needs a head of its own.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from .errors import InputError
from .questions import AnswerText, answer_text
from .sources import LONGEST, too_long
from .tasks import FOLDERS, Column

Lines = Iterator["tuple[int, str]"]
Record = dict[Any, Any]  # by column
csv.field_size_limit(LONGEST)
LONGEST_RECORD = 64 * LONGEST  # characters of its examples; those of ReCoRD have some millions
TWICE, EMPTY = "there a second time", "nothing in it"
PUNCTUATION = ".,;:!?\"'()"
COPA_QUESTION = {"cause": "What was the cause?", "effect": "What happened as a result?"}
PLACEHOLDER = "@placeholder"


class Row(NamedTuple):
    """An example.

    ``line``: in its file, from 1; ``label``: None in a test set without labels; ``number``: the benchmark's own number
    of a test example; ``question``: which the example answers, counted from 0 in its file; ``answer``: where an answer
    is a text.
    """

    line: int
    texts: tuple[str, ...]
    label: Any
    number: str | None = None
    question: int | None = None
    answer: AnswerText | None = None


class Columns(NamedTuple):
    """Which fields a row is made of.

    ``label_optional``: a split without labels is allowed (a test set); ``number``: column of the benchmark's number of
    the example; ``unused_fields``: in a file without a header, rows have as many fields as the first one.
    """

    texts: Sequence[Column]
    label: Column
    header: bool
    label_optional: bool = False
    trailing_fields: bool = False
    number: str | None = None
    unused_fields: bool = False


class Bad(NamedTuple):
    """A line that gives no example; ``empty``: with nothing in it."""

    line: int
    reason: str
    empty: bool = False


Items = Iterator[Row | Bad]

# --- tables --------------------------------------------------------------------------------------


def _places(columns: Columns, names: Sequence[str], source: str) -> tuple[list[int], int | None]:
    """The numbers of the texts' columns and of the label's; None when the file has no labels and need not have any."""
    places: dict[Column, int] = {}
    for column in (*columns.texts, columns.label):
        if isinstance(column, int):
            places[column] = column
        elif names.count(column) > 1:
            raise InputError(f"{source} has two columns {column}: give one of them another name")
        elif column in names:
            places[column] = names.index(column)
        elif column != columns.label or not columns.label_optional:
            known = f"it has {', '.join(names)}" if any(names) else "its first line is empty"
            remedy = "name columns of the file"
            if len(names) == 1 and column in names[0]:
                remedy = "separate its columns with tabs for tsv, with commas for csv"
            raise InputError(f"{source} has no column {column}: {known}; {remedy}")
    return [places[column] for column in columns.texts], places.get(columns.label)


def _name(field: str) -> str:
    """What is the same of a column's name in the headers of several files."""
    return field.strip(' "').casefold()


def _table(rows: Iterator[tuple[int, list[str] | str]], columns: Columns, source: str) -> Items:
    """``rows``: the fields of each line, or why it has none; [] for an empty line."""
    names: list[str] | str = []
    while columns.header and not names:
        line, names = next(rows, (0, EMPTY))
        if not line:
            return
        if isinstance(names, str):
            yield Bad(line, names)
            names = []
    assert isinstance(names, list)
    header = sorted(map(_name, names))
    texts, label = _places(columns, names, source)
    number = names.index(columns.number) if columns.number and columns.number in names else None
    wanted = len(names) or 1 + max([*texts, label or 0])
    pick = itemgetter(*texts) if len(texts) > 1 else lambda fields: (fields[texts[0]],)
    seen: set[str | None] = set()
    widen = columns.unused_fields
    for line, fields in rows:
        if isinstance(fields, str):
            yield Bad(line, fields)
            continue
        if not fields or (fields == [""] and wanted > 1):
            yield Bad(line, EMPTY, empty=True)
            continue
        if widen:  # to the first row's fields
            wanted, widen = max(wanted, len(fields)), False
        if _name(fields[0]) in header and sorted(map(_name, fields)) == header:
            raise InputError(f"{source} line {line} is the header once more, as in joined files: remove the line")
        elif len(fields) < wanted or (len(fields) > wanted and not columns.trailing_fields):
            yield Bad(line, f"{len(fields)} fields instead of {wanted}")
        else:
            own = None if number is None else fields[number].strip()
            if own is not None and (not own.isdecimal() or own in seen):
                yield Bad(line, f"{columns.number} {own!r} is {TWICE if own in seen else 'no number'}")
                continue
            seen.add(own)
            yield Row(line, pick(fields), None if label is None else fields[label].strip(), own)


def tsv_rows(lines: Lines, columns: Columns, source: str) -> Items:
    """Tab-separated fields, in which quotes are ordinary characters (GLUE)."""
    return _table(((line, text.split("\t")) for line, text in lines), columns, source)


def csv_rows(lines: Lines, columns: Columns, source: str) -> Items:
    """Comma-separated fields, quoted where they hold commas, quotes or line ends; a space may stand before one."""
    return _table(_csv_fields(lines, source), columns, source)


def _csv_fields(lines: Lines, source: str) -> Iterator[tuple[int, list[str] | str]]:
    size = 0  # of the record that is being read, which may have many lines

    def joined() -> Iterator[str]:
        nonlocal size
        for _, text in lines:
            size += len(text) + 1
            if size > LONGEST:
                raise too_long(source, line)
            yield text + "\n"

    reader = csv.reader(joined(), strict=True, skipinitialspace=True)
    while True:
        line, size = reader.line_num + 1, 0
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end of data" in str(error) or reader.line_num > line:
                raise InputError(
                    f"{source} line {line}: a quote is opened and not closed up to line {reader.line_num}: mend the "
                    "file, or, of CR, MR, SUBJ and MPQA, give --csv-quotes keep if quotes are ordinary characters"
                ) from None
            yield line, f"not csv ({error})"


def csv_rows_with_quotes(lines: Lines, columns: Columns, source: str) -> Items:
    """``label,text`` cut at the first comma, csv quotes left in the text, as in the folders the authors published."""
    return _table(((line, text.split(",", 1)) for line, text in lines), columns, source)


def labelled_texts(lines: Lines, columns: Columns, source: str) -> Items:
    """``LABEL<tab>TEXT``, as ``sources.TextFolders`` gives it: whatever else is in a text belongs to it."""
    for line, text in lines:
        label, _, text = text.partition("\t")
        yield Row(line, (text,), label)


# --- kinds of records: to examples, whose questions are counted within the record ------------------

MakeExamples = Callable[[Record, Columns, int], Iterator[Row]]


def plain(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    texts = tuple(record[column] for column in columns.texts)
    yield Row(line, texts, record.get(columns.label), _number(columns, record))


def wic(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    """The word leads the first sentence: ``WORD: SENTENCE1`` | ``SENTENCE2``."""
    first = f"{_text(record['word'])}: {_text(record['sentence1'])}"
    yield Row(line, (first, record["sentence2"]), record.get("label"), _number(columns, record))


def wsc(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    """``TEXT with the *PRONOUN*`` | ``NOUN PHRASE``."""
    target = record["target"]
    marked = _marked(_text(record["text"]), target["span2_index"], _text(target["span2_text"]))
    yield Row(line, (marked, target["span1_text"]), record.get("label"), _number(columns, record))


def _marked(text: str, place: Any, pronoun: str) -> str:
    """A text with asterisks around the word of the number ``place``, which is the pronoun."""
    words = text.split()
    if type(place) is not int or not 0 <= place < len(words):
        raise TypeError(f"span2_index {place!r}")
    # some published numbers are one too small (fairseq, examples/roberta/wsc/wsc_utils.py)
    near = [number for number in (place, place + 1) if number < len(words) and _bare(words[number]) == _bare(pronoun)]
    place = near[0] if near else place
    # signs that are joined to the pronoun, such as a comma, stay outside
    inner = words[place].strip(PUNCTUATION) or words[place]
    words[place] = words[place].replace(inner, f"*{inner}*", 1)
    return " ".join(words)


def _bare(word: str) -> str:
    return word.strip(PUNCTUATION).lower()


def copa(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    """A pair for each of the two choices, labelled 1 when it is the right one."""
    question = f"{_text(record['premise'])} {COPA_QUESTION[record['question']]}"
    label = record.get("label")
    if label not in (None, 0, 1):
        raise TypeError(f"label {label!r}")
    for choice in (0, 1):
        right = None if label is None else int(label == choice)
        yield Row(line, (question, record[f"choice{choice + 1}"]), right, _number(columns, record), 0)


def multirc(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    """A pair for each answer: passage | ``QUESTION ANSWER``; its number is of the passage, the question and itself."""
    for number, question in enumerate(record["passage"]["questions"]):
        for answer in question["answers"]:
            texts = (record["passage"]["text"], f"{_text(question['question'])} {_text(answer['text'])}")
            yield Row(line, texts, answer.get("label"), _number(columns, record, question, answer), number)


def cloze(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    """ReCoRD: a pair for each entity: passage | the query with the entity in its gap; its number is the query's."""
    passage = record["passage"]
    entities = sorted({_cut(_text(passage["text"]), place) for place in passage["entities"]})
    for number, query in enumerate(record["qas"]):
        if PLACEHOLDER not in _text(query["query"]):
            raise TypeError(f"a query without {PLACEHOLDER}")
        right = [_text(answer["text"]) for answer in query["answers"]] if query.get("answers") else None
        # a line of bounded length, whose parts multiply
        longest = query["query"].count(PLACEHOLDER) * max(map(len, entities), default=0)
        if max(longest, len(entities) * len(right or ())) > LONGEST:
            raise TypeError("too many or too long answers")
        for entity in entities:
            texts = (passage["text"], query["query"].replace(PLACEHOLDER, entity))
            label = None if right is None else int(entity in right)
            yield Row(line, texts, label, _number(columns, query), number, answer_text(entity, right))


def _cut(text: str, place: Record) -> str:
    """Of a place from its first sign to its last one."""
    start, end = place["start"], place["end"]
    if type(start) is not int or type(end) is not int or not 0 <= start <= end < len(text):
        raise TypeError(f"an entity from {start!r} to {end!r}")
    return text[start : end + 1]


def _number(columns: Columns, *parts: Record) -> str | None:
    """The numbers that a record and its parts have in the benchmark; None where one has no number."""
    numbers = [part.get(columns.number) for part in parts]
    if None in numbers:
        return None
    for number in numbers:
        if type(number) not in (int, str) or not str(number).isdecimal():
            raise TypeError(f"{columns.number} {number!r}")
    return " ".join(map(str, numbers))


def _text(value: Any) -> str:
    """Raise TypeError for what would become part of a sentence and is no string."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} in place of text")
    return value


# --- records -------------------------------------------------------------------------------------


def label_text(label: Any) -> str | None:
    """Return a label as in ``label/dict.txt``, with true in lower case; raise TypeError for lists, objects and NaN."""
    if not isinstance(label, (str, int, float, type(None))) or isinstance(label, float) and not math.isfinite(label):
        raise TypeError(f"label {label!r}")
    return None if label is None else str(label).lower() if isinstance(label, bool) else str(label).strip()


def is_text(value: Any) -> bool:
    """Whether it is a string that UTF-8 can hold: JSON may have half of a surrogate pair."""
    return isinstance(value, str) and not any("\ud800" <= sign <= "\udfff" for sign in value if sign > "\ud7ff")


def record_rows(records: Iterator[tuple[int, Record] | Bad], columns: Columns, make: MakeExamples = plain) -> Items:
    """Rows of dictionaries; every line that lacks a field, or has another type of text in it, is malformed.

    A record of which a part is malformed is left out as a whole: half a question has no right answer.
    """
    asked = 0
    seen: set[str | None] = set()
    for item in records:
        if isinstance(item, Bad):
            yield item
            continue
        line, record = item
        examples, size = [], 0
        try:
            for example in make(record, columns, line):
                size += sum(len(text) for text in example.texts if isinstance(text, str))
                if size > LONGEST_RECORD:  # each repeats texts of the record
                    raise TypeError(f"examples of over {LONGEST_RECORD:,} characters")
                examples.append(example._replace(label=label_text(example.label)))
        except (KeyError, TypeError, AttributeError) as error:
            yield Bad(line, f"no field {error}" if isinstance(error, KeyError) else f"not such a record ({error})")
            continue
        own = {example.number for example in examples} - {None}
        if not all(is_text(text) for example in examples for text in example.texts):
            yield Bad(line, "a sentence that is not text")
        elif not columns.label_optional and any(example.label is None for example in examples):
            yield Bad(line, f"no field {columns.label!r}")
        elif own & seen:
            yield Bad(line, f"{columns.number} {min(filter(None, own & seen))!r} is {TWICE}")
        else:
            seen |= own
            questions = [example.question for example in examples if example.question is not None]
            for example in examples:
                yield example if example.question is None else example._replace(question=asked + example.question)
            asked += 1 + max(questions, default=-1)


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; ValueError where a key is there twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is there twice")
    return made


def json_records(lines: Lines, source: str) -> Iterator[tuple[int, Record] | Bad]:
    for line, text in lines:
        if line == 1 and text.lstrip().startswith("["):  # a line or two of which may be records by themselves
            raise InputError(f"{source} is one JSON list: write an object in each line (pandas: lines=True)")
        if not text.strip():
            yield Bad(line, EMPTY, empty=True)
            continue
        try:
            yield line, json.loads(text, object_pairs_hook=distinct)
        except (ValueError, RecursionError) as error:
            yield Bad(line, f"not JSON ({error})")


def json_rows(lines: Lines, columns: Columns, source: str, make: MakeExamples) -> Items:
    """The examples of a record in each line."""
    return record_rows(json_records(lines, source), columns, make)


RECORDS = {"jsonl": plain, "wic": wic, "wsc": wsc, "copa": copa, "multirc": multirc, "record": cloze}
LAYOUTS: dict[str, Callable[[Lines, Columns, str], Items]] = {
    "tsv": tsv_rows,
    "csv": csv_rows,
    "csv-with-quotes": csv_rows_with_quotes,
    FOLDERS: labelled_texts,
    **{name: partial(json_rows, make=make) for name, make in RECORDS.items()},
}
