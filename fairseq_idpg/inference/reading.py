"""Files of sentences: a sentence in each line, a pair in two columns, or a JSON value; other lines are refused."""

import json
import logging
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from preprocess.build import LONGEST_CHUNK
from preprocess.readers import distinct, is_text
from preprocess.sources import Source
from preprocess.splits import CSV_QUOTED

from ..errors import InputError
from .prediction import Text

logger = logging.getLogger(__name__)

STANDARD_INPUT = "-"
KEYS = ("sentence", "sentence1", "sentence2")  # GLUE's
HEADERS = (KEYS[:1], KEYS[1:])  # the names of the columns, as a first line
JSON_FORM = 'a string, a list of two, {"sentence": ...} or {"sentence1": ..., "sentence2": ...}'


class TextLine(NamedTuple):
    """A text and the line of its file, counted from 1."""

    number: int
    text: Text


class StandardInput:
    """What arrives on standard input, when it arrives.

    ``lines``: how many have come to their end.
    """

    def __init__(self) -> None:
        self.stream: Any = sys.stdin
        self.lines = 0

    def __enter__(self) -> "StandardInput":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def read(self, size: int) -> bytes:
        """Return what there is, up to ``size`` bytes; nothing at the end."""
        data = self.stream.buffer.read1(size)
        self.lines += data.count(b"\n")
        return data

    def waits(self, taken: int) -> bool:
        """Return whether, ``taken`` lines after the start, the next one has not come yet."""
        return taken == self.lines and not select.select([self.stream.buffer], [], [], 0)[0]


class TextFile:
    """Texts of a file, or of standard input, a few at a time.

    Args:
        path: ``-`` for standard input; with the suffix .gz it is unpacked.
        layout: a name of ``LAYOUTS``.

    Raises:
        InputError: there is no such file.
    """

    def __init__(self, path: str, layout: str):
        self.layout = layout
        self.arriving = StandardInput() if path == STANDARD_INPUT else None
        if self.arriving is None:
            self.source = Source.file(Path(path))
        else:
            self.source = Source("standard input", None, lambda: self.arriving)  # type: ignore[arg-type, return-value]

    def name(self, number: int) -> str:
        """Of a line, for errors."""
        return f"{self.source.name} line {number}"

    def lines(self) -> Iterator[TextLine]:
        """Yield all texts; the first that looks quoted as in csv is told of.

        Raises:
            InputError: a line is not text, is empty, or is not of the layout; it names columns, or is of a table.
        """
        read, told, kind = LAYOUTS[self.layout], self.layout == "jsonl", None
        for number, line in self.source.lines():
            try:
                text = read(line)
                check_filled(text)
                if self.layout != "jsonl":
                    check_is_no_table(text, number)
                if kind not in (None, type(text)):  # models of EFL read both, and the columns of a table are of one
                    raise ValueError("sentences and pairs of sentences are mixed: give one kind")
            except ValueError as error:
                raise InputError(f"{self.name(number)}: {error}") from None
            kind = type(text)
            if not told and any(map(CSV_QUOTED.fullmatch, [text] if isinstance(text, str) else text)):
                told = True
                logger.warning(
                    f"{self.name(number)} looks quoted as in csv, and texts keep their quotes; if these are not the "
                    "texts' own, give JSON lines"
                )
            yield TextLine(number, text)

    def chunks(self, size: int) -> Iterator[list[TextLine]]:
        """Yield the texts, ``size`` at a time; fewer where they are long, or the next of standard input has not come.

        Raises:
            InputError: see ``lines``.
        """
        chunk: list[TextLine] = []
        characters = 0
        for number, text in self.lines():
            chunk.append(TextLine(number, text))
            characters += len(text) if isinstance(text, str) else sum(map(len, text))
            waits = self.arriving is not None and self.arriving.waits(number)
            if len(chunk) == size or characters > LONGEST_CHUNK or waits:
                yield chunk
                chunk, characters = [], 0
        if chunk:
            yield chunk


def check_is_no_table(text: Text, number: int) -> None:
    """Raise ValueError for a line that names columns, whose answer would move all others, or is of a table."""
    parts = (text,) if isinstance(text, str) else text
    if tuple(map(str.lower, parts)) in HEADERS and (number == 1 or len(parts) == 2):  # files with headers may be joined
        raise ValueError("it names columns: leave it out, or give JSON lines if it is a text of its own")
    if number == 1 and isinstance(text, str) and "\t" in text:
        raise ValueError(
            "it has a tab, as those of a table have: give --pairs tab for the two columns of a pair, a sentence alone "
            "in each line, or JSON lines if the tab is part of it"
        )


def of_columns(line: str) -> Text:
    """``first<tab>second``; raises ValueError for other lines."""
    fields = line.split("\t")
    if len(fields) != 2:
        raise ValueError(f"{len(fields)} columns instead of the 2 of a pair: mend the line")
    return (fields[0], fields[1])


def of_json(line: str) -> Text:
    """Return the text of a line of JSON, see ``of_value``; raise ValueError for what is not JSON, too."""
    try:
        value = json.loads(line, object_pairs_hook=distinct) if line.strip() else ""
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    return of_value(value)


def of_value(value: Any) -> Text:
    """Return the text of a value, see ``JSON_FORM``; other keys of an object are left aside.

    Raises:
        ValueError: the value has another form, or half of a surrogate pair.
    """
    if isinstance(value, dict):
        one, *both = map(value.get, KEYS)
        value = both if one is None else one if both == [None, None] else None
    if is_text(value):
        return value
    if isinstance(value, list) and len(value) == 2 and all(map(is_text, value)):
        return (value[0], value[1])
    if any(isinstance(part, str) and not is_text(part) for part in (value if isinstance(value, list) else [value])):
        raise ValueError("it has half of a surrogate pair, which is no sign: cut texts between signs")
    raise ValueError(f"not {JSON_FORM}")


def check_filled(text: Text) -> None:
    """Raise ValueError for an empty sentence."""
    if isinstance(text, str):
        problems = {"an empty sentence": text}
    else:
        problems = dict(zip(("the first sentence is empty", "the second sentence is empty"), text))
    for problem, sentence in problems.items():
        if not sentence.strip():
            raise ValueError(problem)


LAYOUTS: dict[str, Callable[[str], Text]] = {"lines": str, "tab": of_columns, "jsonl": of_json}
