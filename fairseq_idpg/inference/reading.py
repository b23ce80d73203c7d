"""Files of sentences: a sentence in each line, a pair in two columns, or a JSON value; whatever else is refused."""

import json
import logging
import os
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from preprocess.binarize import LONGEST_CHUNK
from preprocess.readers import distinct, is_text
from preprocess.sources import Source
from preprocess.transforms import CSV_QUOTED

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

    Attributes:
        lines: how many have come to their end.

    Raises:
        InputError: it is closed.
    """

    def __init__(self) -> None:
        self.stream: Any = sys.stdin
        if self.stream is None:
            raise InputError("--text -: standard input is closed: name a file")
        self.lines = 0

    def __enter__(self) -> "StandardInput":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def read(self, size: int) -> bytes:
        """What there is, up to ``size`` bytes; nothing at the end."""
        data = self.stream.buffer.read1(size)
        self.lines += data.count(b"\n")
        return data

    def waits(self, taken: int) -> bool:
        """Whether, ``taken`` lines after the start, the next one has not come yet."""
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
            if not os.path.isfile(path):
                raise InputError(
                    f"--text {path} is not a file: name one with a sentence in each line, or give - and the "
                    "sentences on standard input"
                )
            self.source = Source.file(Path(path))
        else:
            self.source = Source("standard input", None, lambda: self.arriving)  # type: ignore[arg-type, return-value]

    def name(self, number: int) -> str:
        """Of a line, for errors."""
        return f"{self.source.name} line {number}"

    def lines(self) -> Iterator[TextLine]:
        """All texts; the first that looks quoted as in csv is told of.

        Raises:
            InputError: a line is not text, is empty, or is not of the layout; the first is a header, or of a table.
        """
        read, kind, told = LAYOUTS[self.layout], None, self.layout == "jsonl"
        for number, line in self.source.lines():
            try:
                text = read(line)
                check_filled(text)
            except ValueError as error:
                raise InputError(f"{self.name(number)}: {error}: mend the line") from None
            parts = (text,) if isinstance(text, str) else text
            named = self.layout != "jsonl" and tuple(map(str.lower, parts)) in HEADERS
            if named and (number == 1 or len(parts) == 2):
                # its answer would move all others; files with headers may be joined
                raise InputError(
                    f"{self.name(number)} names columns: leave it out, or give JSON lines if it is a text of its own"
                )
            if number == 1 and "\t" in text and self.layout == "lines":
                raise InputError(
                    f"{self.name(number)} has a tab, as those of a table have: give --pairs tab for the two columns of "
                    "a pair, a sentence alone in each line, or JSON lines if the tab is part of it"
                )
            if kind not in (None, type(text)):
                raise InputError(f"{self.name(number)}: sentences and pairs of sentences are mixed: give one kind")
            kind = type(text)
            if not told and any(map(CSV_QUOTED.fullmatch, parts)):
                told = True
                logger.warning(
                    f"{self.name(number)} looks quoted as in csv, and texts keep their quotes; if these are not the "
                    "texts' own, give JSON lines"
                )
            yield TextLine(number, text)

    def chunks(self, size: int) -> Iterator[list[TextLine]]:
        """The texts, ``size`` at a time; fewer where they are long, or the next one of standard input has not come yet.

        Raises:
            InputError: see ``lines``; there are none.
        """
        chunk: list[TextLine] = []
        number = characters = 0
        for number, text in self.lines():
            chunk.append(TextLine(number, text))
            characters += len(text) if isinstance(text, str) else sum(map(len, text))
            waits = self.arriving is not None and self.arriving.waits(number)
            if len(chunk) == size or characters > LONGEST_CHUNK or waits:
                yield chunk
                chunk, characters = [], 0
        if chunk:
            yield chunk
        if not number:
            raise InputError(f"{self.source.name} has no lines: give some text")


def of_columns(line: str) -> Text:
    """``first<tab>second``; raises ValueError for other lines."""
    fields = line.split("\t")
    if len(fields) != 2:
        raise ValueError(f"{len(fields)} columns instead of the 2 of a pair")
    return (fields[0], fields[1])


def of_json(line: str) -> Text:
    """See ``of_value``; raises ValueError for what is not JSON, too."""
    try:
        value = json.loads(line, object_pairs_hook=distinct) if line.strip() else ""
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    return of_value(value)


def of_value(value: Any) -> Text:
    """See ``JSON_FORM``; other keys of an object are left aside. Raises ValueError for values of other forms."""
    if isinstance(value, dict):
        value = of_object(value)
    if is_text(value):
        return value
    if isinstance(value, list) and len(value) == 2 and all(map(is_text, value)):
        return (value[0], value[1])
    if any(isinstance(part, str) and not is_text(part) for part in (value if isinstance(value, list) else [value])):
        raise ValueError("it has half of a surrogate pair, which is no sign: cut texts between signs")
    raise ValueError(f"not {JSON_FORM}")


def of_object(value: dict[str, Any]) -> Any:
    """The sentence, or the list of the two of a pair; None where the keys are others."""
    one, first, second = map(value.get, KEYS)
    if one is not None:
        return one if first is second is None else None
    return [first, second]


def check_filled(text: Text) -> None:
    """Raises ValueError for an empty sentence."""
    if isinstance(text, str):
        if not text.strip():
            raise ValueError("an empty sentence" if not text else "a sentence of white space")
        return
    for which, sentence in zip(("first", "second"), text):
        if not sentence.strip():
            raise ValueError(f"the {which} sentence is empty")


LAYOUTS: dict[str, Callable[[str], Text]] = {"lines": str, "tab": of_columns, "jsonl": of_json}
