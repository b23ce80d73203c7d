"""What readers of raw files are told, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .errors import InputError
from .questions import AnswerText
from .sources import OnBytes, Source
from .tasks import Column

MOST_MALFORMED = 1_000_000  # lines of a split: a small .gz may unpack to any number
MAX_POSITIONS = 512  # of the tokens of an example: RoBERTa's


class Row(NamedTuple):
    line: int  # in its file, from 1
    texts: tuple[str, ...]
    label: str | None  # None: a test set without labels
    number: str | None = None  # the benchmark's own number of a test example
    question: int | None = None  # which the example answers, counted from 0 in its file
    answer: AnswerText | None = None  # where an answer is a text


class Malformed:
    """Lines of a split that give no example.

    Attributes:
        strict: a line that cannot be read is an error; else it is skipped and counted.
        lines: those that cannot be read, each with the reason.
        left_out: all lines without an example, in their order.
        empty: the empty lines that were read last, which have a place if another line follows.
    """

    def __init__(self, source: str, strict: bool):
        self.source = source
        self.strict = strict
        self.lines: list[tuple[int, str]] = []
        self.left_out: list[int] = []
        self.empty: list[int] = []

    def clear(self) -> None:
        """Forgets all lines: the source is read from its start."""
        self.lines.clear()
        self.left_out.clear()
        self.empty.clear()

    def add(self, line: int, reason: str) -> None:
        if self.strict:
            raise InputError(
                f"{self.source} line {line}: {reason}: mend it, or have it skipped: give --skip-bad for a test split, "
                "and leave out --strict"
            )
        self.leave_out(line, reason)
        self.lines.append((line, f"{reason:.200}"))

    def leave_out(self, line: int, reason: str) -> None:
        """Keep the place of a line without an example, and of the empty lines in front of it."""
        self.place_empty()
        self._keep(self.left_out, line, reason)

    def note_empty(self, line: int) -> None:
        """Note a line with nothing in it."""
        self._keep(self.empty, line, "nothing in it")

    def place_empty(self) -> None:
        """Keep the places of the empty lines in front of a line that has something in it."""
        self.left_out += self.empty
        self.empty.clear()

    def _keep(self, lines: list[int], line: int, reason: str) -> None:
        if len(self.left_out) + len(self.empty) >= MOST_MALFORMED:
            raise InputError(
                f"{self.source} line {line}: {reason}, as over {MOST_MALFORMED:,} lines before it: name a file of the "
                "right layout"
            )
        lines.append(line)


Rows = Callable[[OnBytes], Iterator[Row]]  # reads a split from its start


@dataclass
class Split:
    """A split to make: its name, where its rows come from, and what was found in them."""

    name: str
    source: Source
    rows: Rows
    malformed: Malformed
    passes: int = 1  # how often ``rows`` reads the source
    examples: int = 0
    tokens: list[int] = field(default_factory=list)  # of each input, with </s>
    unknown: int = 0
    empty: int = 0
    too_long: int = 0  # joined longer than MAX_POSITIONS
    truncated: int = 0
    csv_quoted: set[int] = field(default_factory=set)  # lines of a tsv with a text that looks quoted as in csv


class Columns(NamedTuple):
    """Which fields a row is made of. ``label_optional``: a split without labels is allowed (a test set); ``number``:
    where the benchmark's number of the example stands, if it does; ``unused_fields``: of a file without a header, rows
    have as many fields as the first one, though none of the last may be asked for."""

    texts: Sequence[Column]
    label: Column | None
    header: bool
    label_optional: bool = False
    trailing_fields: bool = False
    number: str | None = None
    unused_fields: bool = False


def unknown_label(where: str, label: str, known: Iterable[str]) -> InputError:
    """Return the error for a label that is not one of the classes."""
    names = ", ".join(known) or "none, as no training split names the classes"
    return InputError(f"{where}: label {label!r} is unknown (known: {names}): correct it, or name all with --labels")
