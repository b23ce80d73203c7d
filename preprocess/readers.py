"""Raw files to rows of texts and a label: one function per layout, registered in ``LAYOUTS``.

SuperGLUE's records become pairs of sentences. MultiRC and ReCoRD give an example for each answer, as in jiant, the
toolkit of the benchmark's authors (jiant/tasks/qa.py at 02035f8). ReCoRD's entities are places in the passage; each
text counts once, in alphabetical order, so that the first of equally likely ones is that of jiant. COPA gives an
example for each choice. WSC has the pronoun between asterisks, as in T5's text, and the noun phrase as second sentence:
P-tuning v2's code (tasks/superglue/dataset.py, template 1) gives both so to BERT and RoBERTa. jiant compares the states
of the two places instead, which needs another head.
"""

import csv
import json
import math
import re
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
EMPTY = "nothing in it"
PUNCTUATION = ".,;:!?\"'()"
COPA_QUESTION = {"cause": "What was the cause?", "effect": "What happened as a result?"}
PLACEHOLDER = "@placeholder"
SURROGATE = re.compile("[\ud800-\udfff]")


class Row(NamedTuple):
    """An example."""

    line: int  # in its file, from 1
    texts: tuple[str, ...]
    label: Any  # None in a test set without labels
    number: str | None = None  # of a test example, in its benchmark
    question: int | None = None  # which the example answers, from 0 in its file
    answer: AnswerText | None = None


class Columns(NamedTuple):
    """Which fields make a row."""

    texts: Sequence[Column]
    label: Column
    header: bool
    label_optional: bool = False  # in a test set
    trailing_fields: bool = False  # rows may have more fields than the header
    number: str | None = None  # of the example in its benchmark
    unused_fields: bool = False  # without a header: rows have as many fields as the first one


class Bad(NamedTuple):
    """A line that gives no example."""

    line: int
    reason: str
    empty: bool = False


Items = Iterator[Row | Bad]
Fields = Iterator[tuple[int, list[str] | str]]  # of each line, or why it has none; [] for an empty line
FieldsOf = Callable[[Lines, str], Fields]

# --- tables --------------------------------------------------------------------------------------


def _places(columns: Columns, names: Sequence[str], source: str) -> tuple[list[int], int | None]:
    """Return the places of the texts' columns and of the label's: None where a test set has no labels."""
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
            remedy = "name columns of its first line, or give --no-header if that is an example"
            if len(names) == 1 and column in names[0]:
                remedy = "separate its columns with tabs for tsv, with commas for csv"
            raise InputError(f"{source} has no column {column}: {known}; {remedy}")
    return [places[column] for column in columns.texts], places.get(columns.label)


def _name(field: str) -> str:
    """Return a column's name without what differs between the headers of several files."""
    return field.strip(' "').casefold()


def table_rows(lines: Lines, columns: Columns, source: str, fields_of: FieldsOf) -> Items:
    rows = fields_of(lines, source)
    names: list[str] = []
    while columns.header and not names:
        line, fields = next(rows, (0, EMPTY))
        if not line:
            return
        if isinstance(fields, str):
            yield Bad(line, fields)
        else:
            names = fields
    header = sorted(map(_name, names))
    texts, label = _places(columns, names, source)
    number = names.index(columns.number) if columns.number and columns.number in names else None
    wanted = len(names) or 1 + max([*texts, label or 0])
    pick = itemgetter(*texts) if len(texts) > 1 else lambda fields: (fields[texts[0]],)
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
        # fast: the whole line is compared only where its first field may begin a header
        if _name(fields[0]) in header and sorted(map(_name, fields)) == header:
            raise InputError(f"{source} line {line} is the header once more, as in joined files: remove the line")
        if len(fields) < wanted or (len(fields) > wanted and not columns.trailing_fields):
            yield Bad(line, f"{len(fields)} fields instead of {wanted}")
        else:
            own = None if number is None else fields[number].strip()
            if own is None or own.isdecimal():
                yield Row(line, pick(fields), None if label is None else fields[label].strip(), own)
            else:
                yield Bad(line, f"{columns.number} {own!r} is not a number")


def csv_fields(lines: Lines, source: str) -> Fields:
    """Comma-separated fields, quoted where they hold commas, quotes or line ends; a space may stand before one."""
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
            yield line, f"not csv ({error}: separate columns with commas, not with ';' or tabs)"


def labelled_texts(lines: Lines, columns: Columns, source: str) -> Items:
    """``LABEL<tab>TEXT`` of ``sources.TextFolders``; tabs and line ends behind the first tab belong to the text."""
    for line, text in lines:
        label, _, text = text.partition("\t")
        yield Row(line, (text,), label)


# --- kinds of records: from one to its examples, whose questions are counted within the record --------

MakeExamples = Callable[[Record, Columns, int], Iterator[Row]]


def plain(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    texts = tuple(_text(record[column]) for column in columns.texts)
    yield Row(line, texts, record.get(columns.label), _number(columns, record))


def wic(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    """The word leads the first sentence: ``WORD: SENTENCE1`` | ``SENTENCE2``."""
    first = f"{_text(record['word'])}: {_text(record['sentence1'])}"
    yield Row(line, (first, _text(record["sentence2"])), record.get("label"), _number(columns, record))


def wsc(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    """``TEXT with the *PRONOUN*`` | ``NOUN PHRASE``."""
    target = record["target"]
    marked = _marked(_text(record["text"]), target["span2_index"], _text(target["span2_text"]))
    yield Row(line, (marked, _text(target["span1_text"])), record.get("label"), _number(columns, record))


def _marked(text: str, place: Any, pronoun: str) -> str:
    """Return a text with asterisks around the word of the number ``place``, which is the pronoun."""
    words = text.split()
    if type(place) is not int or not 0 <= place < len(words):
        raise TypeError(f"span2_index {place!r}")
    # some published numbers are one too small (fairseq, examples/roberta/wsc/wsc_utils.py)
    bare = [word.strip(PUNCTUATION).lower() for word in (*words[place : place + 2], pronoun)]
    if bare[0] != bare[-1] and bare[1] == bare[-1]:
        place = min(place + 1, len(words) - 1)
    # signs that are joined to the pronoun, such as a comma, stay outside
    inner = words[place].strip(PUNCTUATION) or words[place]
    words[place] = words[place].replace(inner, f"*{inner}*", 1)
    return " ".join(words)


def copa(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    """A pair for each of the two choices, labelled 1 when it is the right one."""
    question = f"{_text(record['premise'])} {COPA_QUESTION[record['question']]}"
    label = record.get("label")
    if label not in (None, 0, 1):
        raise TypeError(f"label {label!r}")
    for choice in (0, 1):
        right = None if label is None else int(label == choice)
        yield Row(line, (question, _text(record[f"choice{choice + 1}"])), right, _number(columns, record), 0)


def multirc(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    """A pair for each answer: passage | ``QUESTION ANSWER``; its number has those of passage, question and answer."""
    passage = _text(record["passage"]["text"])
    for number, question in enumerate(record["passage"]["questions"]):
        for answer in question["answers"]:
            texts = (passage, f"{_text(question['question'])} {_text(answer['text'])}")
            yield Row(line, texts, answer.get("label"), _number(columns, record, question, answer), number)


def cloze(record: Record, columns: Columns, line: int) -> Iterator[Row]:
    """ReCoRD, a pair for each entity: passage | the query with the entity in its gap; its number is the query's."""
    passage, entities = _text(record["passage"]["text"]), set()
    for start, end in ((place["start"], place["end"]) for place in record["passage"]["entities"]):
        if type(start) is not int or type(end) is not int or not 0 <= start <= end < len(passage):
            raise TypeError(f"an entity from {start!r} to {end!r}")
        entities.add(passage[start : end + 1])
    for number, query in enumerate(record["qas"]):
        if PLACEHOLDER not in _text(query["query"]):
            raise TypeError(f"a query without {PLACEHOLDER}")
        right = [_text(answer["text"]) for answer in query["answers"]] if query.get("answers") else None
        # the line is short, but lengths of its parts multiply
        longest = query["query"].count(PLACEHOLDER) * max(map(len, entities), default=0)
        if max(longest, len(entities) * len(right or ())) > LONGEST:
            raise TypeError("too many or too long answers")
        for entity in sorted(entities):
            texts = (passage, query["query"].replace(PLACEHOLDER, entity))
            label = None if right is None else int(entity in right)
            yield Row(line, texts, label, _number(columns, query), number, answer_text(entity, right))


def _number(columns: Columns, *parts: Record) -> str | None:
    """Return the numbers that a record and its parts have in the benchmark; None where one has no number."""
    numbers = [part.get(columns.number) for part in parts]
    if None in numbers:
        return None
    for number in numbers:
        if type(number) not in (int, str) or not str(number).isdecimal():
            raise TypeError(f"{columns.number} {number!r}")
    return " ".join(map(str, numbers))


def _text(value: Any) -> str:
    """Return a string that becomes part of a sentence; raise TypeError for anything else."""
    if not is_text(value):
        raise TypeError(f"{value!r} in place of text")
    return value


# --- records -------------------------------------------------------------------------------------


def label_text(label: Any) -> str | None:
    """Return a label as label/dict.txt has it, "true" in lower case; raise TypeError for lists, objects and NaN."""
    if not isinstance(label, (str, int, float, type(None))) or isinstance(label, float) and not math.isfinite(label):
        raise TypeError(f"label {label!r}")
    text = None if label is None else str(label).strip()
    return text.lower() if text and isinstance(label, bool) else text


def is_text(value: Any) -> bool:
    """Return whether it is a string that UTF-8 can hold: JSON may have half of a surrogate pair."""
    return isinstance(value, str) and not SURROGATE.search(value)


def record_rows(records: Iterator[tuple[int, Record] | Bad], columns: Columns, make: MakeExamples = plain) -> Items:
    """Yield the examples of records; a record with a malformed part is left out: half a question has no answer."""
    asked = 0  # questions of the records before
    for item in records:
        if isinstance(item, Bad):
            yield item
            continue
        line, record = item
        examples, size = [], 0
        try:
            for example in make(record, columns, line):
                # each example repeats texts of the record
                size += sum(map(len, example.texts))
                if size > LONGEST_RECORD:
                    raise TypeError(f"examples of over {LONGEST_RECORD:,} characters")
                examples.append(example._replace(label=label_text(example.label)))
        except (KeyError, TypeError, AttributeError) as error:
            yield Bad(line, f"no field {error}" if isinstance(error, KeyError) else f"not such a record ({error})")
            continue
        if not columns.label_optional and any(example.label is None for example in examples):
            yield Bad(line, f"no field {columns.label!r}")
        else:
            questions = [example.question for example in examples if example.question is not None]
            for example in examples:
                yield example if example.question is None else example._replace(question=asked + example.question)
            asked += 1 + max(questions, default=-1)


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object; raise ValueError where a key is there twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key is there twice")
    return made


def json_records(lines: Lines, source: str) -> Iterator[tuple[int, Record] | Bad]:
    for line, text in lines:
        if line == 1 and text.lstrip().startswith("["):
            raise InputError(f"{source} is one JSON list: write an object in each line (pandas: lines=True)")
        if not text.strip():
            yield Bad(line, EMPTY, empty=True)
            continue
        try:
            yield line, json.loads(text, object_pairs_hook=distinct)
        except (ValueError, RecursionError) as error:
            yield Bad(line, f"not JSON ({error})")


def json_rows(lines: Lines, columns: Columns, source: str, make: MakeExamples) -> Items:
    return record_rows(json_records(lines, source), columns, make)


RECORDS = {"jsonl": plain, "wic": wic, "wsc": wsc, "copa": copa, "multirc": multirc, "record": cloze}
TABLES: dict[str, FieldsOf] = {
    # quotes are ordinary characters (GLUE)
    "tsv": lambda lines, source: ((line, text.split("\t")) for line, text in lines),
    "csv": csv_fields,
    # ``label,text`` cut at the first comma, csv quotes left in the text, as in the folders the authors published
    "csv-with-quotes": lambda lines, source: ((line, text.split(",", 1)) for line, text in lines),
}
LAYOUTS: dict[str, Callable[[Lines, Columns, str], Items]] = {
    **{name: partial(table_rows, fields_of=fields_of) for name, fields_of in TABLES.items()},
    FOLDERS: labelled_texts,
    **{name: partial(json_rows, make=make) for name, make in RECORDS.items()},
}
