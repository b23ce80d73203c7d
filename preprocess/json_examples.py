"""JSON records to examples: one function for each kind of record, registered in ``RECORDS``.

How SuperGLUE's records become pairs of sentences. MultiRC and ReCoRD: an example for each answer, as jiant has them,
the toolkit of the benchmark's authors (jiant/tasks/qa.py at 02035f8); of ReCoRD's entities, which are places in the
passage, each text once, in alphabetical order, so that among equally likely ones the first is that of jiant, too.
COPA: an example for each choice. WSC: the pronoun between asterisks as in T5's text, and the noun phrase as the second
sentence, as P-tuning v2's code (tasks/superglue/dataset.py, template 1) gives both to BERT and RoBERTa; jiant instead
compares the states of the two places, which needs a head of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .questions import AnswerText, answer_text
from .rows import Columns
from .sources import LONGEST

Record = dict[Any, Any]  # by column


PUNCTUATION = ".,;:!?\"'()"
COPA_QUESTION = {"cause": "What was the cause?", "effect": "What happened as a result?"}
PLACEHOLDER = "@placeholder"


class RecordExample(NamedTuple):
    """What a record says. ``question``: which of the record's, counted from 0; None where examples are no answers."""

    texts: tuple[str, ...]
    label: Any
    number: str | None = None
    question: int | None = None
    answer: AnswerText | None = None


MakeExamples = Callable[[Record, Columns], Iterator[RecordExample]]


def plain(record: Record, columns: Columns) -> Iterator[RecordExample]:
    texts = tuple(record[column] for column in columns.texts)
    yield RecordExample(texts, record.get(columns.label), _number(columns, record))


def wic(record: Record, columns: Columns) -> Iterator[RecordExample]:
    """The word leads the first sentence: ``WORD: SENTENCE1`` | ``SENTENCE2``."""
    first = f"{_text(record['word'])}: {_text(record['sentence1'])}"
    yield RecordExample((first, record["sentence2"]), record.get("label"), _number(columns, record))


def wsc(record: Record, columns: Columns) -> Iterator[RecordExample]:
    """``TEXT with the *PRONOUN*`` | ``NOUN PHRASE``."""
    target = record["target"]
    texts = (marked(_text(record["text"]), target["span2_index"], _text(target["span2_text"])), target["span1_text"])
    yield RecordExample(texts, record.get("label"), _number(columns, record))


def marked(text: str, place: Any, pronoun: str) -> str:
    """A text with asterisks around the word of the number ``place``, which is the pronoun.

    Where it is not and the next word is, that is marked: some published numbers are one too small (fairseq,
    examples/roberta/wsc/wsc_utils.py). Signs that are joined to the pronoun, such as a comma, stay outside.

    Raises:
        TypeError: the text has no word of this number.
    """
    words = text.split()
    if type(place) is not int or not 0 <= place < len(words):
        raise TypeError(f"span2_index {place!r}")
    near = [number for number in (place, place + 1) if number < len(words) and _bare(words[number]) == _bare(pronoun)]
    word = words[near[0] if near else place]
    inner = word.strip(PUNCTUATION) or word
    words[near[0] if near else place] = word.replace(inner, f"*{inner}*", 1)
    return " ".join(words)


def _bare(word: str) -> str:
    return word.strip(PUNCTUATION).lower()


def copa(record: Record, columns: Columns) -> Iterator[RecordExample]:
    """A pair for each of the two choices, labelled 1 when it is the right one."""
    question = f"{_text(record['premise'])} {COPA_QUESTION[record['question']]}"
    label = record.get("label")
    if label not in (None, 0, 1):
        raise TypeError(f"label {label!r}")
    for number in (0, 1):
        right = None if label is None else int(label == number)
        yield RecordExample((question, record[f"choice{number + 1}"]), right, _number(columns, record), 0)


def multirc(record: Record, columns: Columns) -> Iterator[RecordExample]:
    """A pair for each answer: passage | ``QUESTION ANSWER``, labelled 1 when the answer is right.

    Its number is that of the passage, of the question and of the answer, with spaces between them.
    """
    for number, question in enumerate(record["passage"]["questions"]):
        for answer in question["answers"]:
            texts = (record["passage"]["text"], f"{_text(question['question'])} {_text(answer['text'])}")
            yield RecordExample(texts, answer.get("label"), _number(columns, record, question, answer), number)


def cloze(record: Record, columns: Columns) -> Iterator[RecordExample]:
    """ReCoRD: a pair for each entity: passage | the query with the entity in its gap, labelled 1 when it is right.

    Its number is that of the query.
    """
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
            yield RecordExample(texts, label, _number(columns, query), number, answer_text(entity, right))


def _cut(text: str, place: Record) -> str:
    """Of a place from its first sign to its last one."""
    start, end = place["start"], place["end"]
    if type(start) is not int or type(end) is not int or not 0 <= start <= end < len(text):
        raise TypeError(f"an entity from {start!r} to {end!r}")
    return text[start : end + 1]


def _number(columns: Columns, *parts: Record) -> str | None:
    """The numbers that a record and its parts have in the benchmark; None where one has no number.

    Raises:
        TypeError: one has something else in its place.
    """
    numbers = [part.get(columns.number) for part in parts]
    if None in numbers:
        return None
    for number in numbers:
        if type(number) not in (int, str) or not str(number).isdecimal():
            raise TypeError(f"{columns.number} {number!r}")
    return " ".join(map(str, numbers))


def _text(value: Any) -> str:
    """Raises TypeError for what would become part of a sentence and is no string."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} in place of text")
    return value


RECORDS: dict[str, MakeExamples] = {
    "jsonl": plain,
    "wic": wic,
    "wsc": wsc,
    "copa": copa,
    "multirc": multirc,
    "record": cloze,
}
