"""Read files of sentences, hold predictions, and write files of predictions."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from preprocess.build import LONGEST_CHUNK
from preprocess.readers import distinct, is_text
from preprocess.sources import BLOCK, LONGEST, Source, too_long
from preprocess.splits import CSV_QUOTED

from ..errors import InputError

if TYPE_CHECKING:  # torch takes seconds to import
    from torch import Tensor

logger = logging.getLogger(__name__)

Text = str | Sequence[str]  # a sentence, or the two of a pair


# --- texts: a sentence in each line, a pair in two columns, or a JSON value ---------------------------------------

STANDARD_INPUT = "standard input"
KEYS = ("sentence", "sentence1", "sentence2")  # GLUE's
HEADERS = (KEYS[:1], KEYS[1:])  # the names of the columns, as a first line
JSON_FORM = 'a string, a list of two, {"sentence": ...} or {"sentence1": ..., "sentence2": ...}'


class TextLine(NamedTuple):
    """A text and the line of its file, counted from 1."""

    number: int
    text: Text


class StandardInput:
    """Standard input as a stream of lines, each given once its end has arrived."""

    given = 0
    arrived = b""  # what has not been given yet
    ended = False

    def has_line(self, wait: bool) -> bool:
        """Return whether a whole line, or the end of the input, has arrived; ``wait`` until then."""
        stream: Any = sys.stdin.buffer
        while not self.ended and b"\n" not in self.arrived:
            if len(self.arrived) > LONGEST:
                raise too_long(STANDARD_INPUT, self.given + 1)
            if not wait and not select.select([stream], [], [], 0)[0]:
                return False
            new = stream.read1(BLOCK)
            self.ended = not new
            self.arrived += new
        return True

    def read(self, size: int) -> bytes:
        self.has_line(wait=True)
        line, end, self.arrived = self.arrived.partition(b"\n")
        self.given += 1
        return line + end

    readline = read  # ``Source`` calls it after a line without an end, where nothing is left


class TextFile:
    """Texts of a file (.gz is unpacked; ``-``: standard input) in one of ``LAYOUTS``; "" is a blank line."""

    def __init__(self, path: str, layout: str):
        self.layout = layout
        self.arriving = arriving = StandardInput() if path == "-" else None
        stream: Any = contextlib.nullcontext(arriving)
        self.source = Source(STANDARD_INPUT, lambda: stream) if arriving else Source.file(Path(path))

    def name(self, number: int) -> str:
        return f"{self.source.name} line {number}"

    def lines(self) -> Iterator[TextLine]:
        """Yield all texts, and warn of the first that looks quoted as in csv; raise InputError for a bad line."""
        warned, kind = self.layout == "jsonl", None
        for number, line in self.source.lines():
            if not line.strip():
                yield TextLine(number, "")
                continue
            try:
                text = LAYOUTS[self.layout](line)
                check_filled(text)
                if self.layout != "jsonl":
                    check_is_no_table(text, number)
                if kind not in (None, type(text)):  # models of EFL read both, and the columns of a table are of one
                    raise ValueError("sentences and pairs of sentences are mixed: give one kind")
            except ValueError as error:
                raise InputError(f"{self.name(number)}: {error}") from None
            kind = type(text)
            if not warned and any(map(CSV_QUOTED.fullmatch, sentences_of(text))):
                warned = True
                logger.warning(
                    f"{self.name(number)} looks quoted as in csv, and the quotes are read as part of the text: if they "
                    "are not, give JSON lines"
                )
            yield TextLine(number, text)

    def chunks(self, size: int) -> Iterator[list[TextLine]]:
        """Yield the texts, ``size`` at a time; fewer where they are long, or standard input has no more yet."""
        chunk: list[TextLine] = []
        characters = 0
        for line in self.lines():
            chunk.append(line)
            characters += sum(map(len, sentences_of(line.text)))
            waits = self.arriving is not None and not self.arriving.has_line(wait=False)
            if len(chunk) == size or characters > LONGEST_CHUNK or waits:
                yield chunk
                chunk, characters = [], 0
        if chunk:
            yield chunk


def sentences_of(text: Text) -> Sequence[str]:
    return (text,) if isinstance(text, str) else text


def check_is_no_table(text: Text, number: int) -> None:
    """Raise ValueError for a table's header, whose answer would shift all others, and for a table's row."""
    parts = sentences_of(text)
    if tuple(map(str.lower, parts)) in HEADERS and (number == 1 or len(parts) == 2):  # files with headers may be joined
        raise ValueError("it names columns: leave it out, or give JSON lines if it is a text")
    if number == 1 and isinstance(text, str) and "\t" in text:
        raise ValueError(
            "it has a tab, like a row of a table: give --pairs tab for the two columns of a pair, a sentence alone in "
            "each line, or JSON lines if the tab is part of it"
        )


def check_filled(text: Text) -> None:
    """Raise ValueError for an empty sentence."""
    for which, sentence in zip(("",) if isinstance(text, str) else ("first ", "second "), sentences_of(text)):
        if not sentence.strip():
            raise ValueError(f"the {which}sentence is empty")


def of_columns(line: str) -> Text:
    """Return the pair of a line ``first<tab>second``; raise ValueError for other lines."""
    columns = line.split("\t")
    if len(columns) != 2:
        raise ValueError(f"{len(columns)} columns instead of the 2 of a pair: mend the line")
    return tuple(columns)


def of_json(line: str) -> Text:
    """Return the text of a line of JSON, see ``of_value``; raise ValueError for other lines."""
    try:
        value = json.loads(line, object_pairs_hook=distinct)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    return of_value(value)


def of_value(value: Any) -> Text:
    """Return the text of a value, see ``JSON_FORM``; other keys do not matter; raise ValueError for other values."""
    if isinstance(value, dict):
        # a sentence or a pair; a mapping with keys of both has neither
        single, *pair = map(value.get, KEYS)
        value = pair if single is None else single if pair == [None, None] else None
    parts = value if isinstance(value, list) and len(value) == 2 else [value]
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"not {JSON_FORM}")
    if not all(map(is_text, parts)):
        raise ValueError("it has half of a surrogate pair, which is not a character: cut texts between characters")
    return value if isinstance(value, str) else (value[0], value[1])


LAYOUTS: dict[str, Callable[[str], Text]] = {"lines": str, "tab": of_columns, "jsonl": of_json}


@dataclass(frozen=True)
class PromptRow:
    # d, on the CPU; above the input it is added to the hidden states, replaces them or joins them (--prompt-insertion)
    vector: Tensor
    words: list[tuple[str, float]]  # the nearest word embeddings, nearest first: quoted words and cosines
    layer: int = 0  # the layer that reads the row, counted as by ``--prompt-layers``


@dataclass(frozen=True)
class Prediction:
    """What a model says of one input; ``features`` and ``prompts`` where they are asked for."""

    text: Text  # the input: a sentence, or the two of a pair
    label: str | None = None  # the most probable class; None for scores; "" for a blank line
    probabilities: dict[str, float] = field(default_factory=dict)  # in the order of the logits; empty for scores
    score: float | None = None  # in the task's own scale (STS-B: 0 to 5), not that of the training; None for classes
    # d, the last state of ``<s>``, on the CPU; and the prompt rows that this input got, the lowest layer's first
    features: Tensor | None = field(default=None, repr=False, compare=False)
    prompts: list[PromptRow] | None = field(default=None, repr=False, compare=False)
    cut: bool = False  # whether the text was too long, so that its end was not read

    @property
    def probability(self) -> float | None:
        """The probability of ``label``; None for scores."""
        return self.probabilities.get(self.label or "")

    def __repr__(self) -> str:
        said = f"score={self.score}" if self.label is None else f"label={self.label!r}, probability={self.probability}"
        return f"Prediction({said}, text={self.text!r:.60})"

    def plain(self) -> dict[str, Any]:
        """Return what JSON can hold: the answer, whether the text was cut, and words and layers of prompt rows."""
        values: dict[str, Any] = {"score": self.score}
        if self.label is not None:
            values = {"label": self.label, "probability": self.probability, "probabilities": self.probabilities}
        if self.cut:
            values["cut"] = True
        if self.prompts is not None:
            values["prompts"] = [[{"word": word, "cosine": near} for word, near in row.words] for row in self.prompts]
            values["prompt_layers"] = [row.layer for row in self.prompts]
        return values


Answer = Prediction | dict[str, Prediction]  # of one model, or of several tasks by their names


# --- files of predictions: a table with a header, or a JSON object in each line ------------------------------------

FORMATS = ("tsv", "csv", "jsonl")
MUST_BE_QUOTED = set(',"\r\n')
CONTROLS = map(chr, (*range(32), *range(127, 160)))
BREAKS = str.maketrans({**{sign: repr(sign)[1:-1] for sign in CONTROLS}, "\t": " ", "\n": " ", "\r": " "})
JSON_CONTROLS = {number: f"\\u{number:04x}" for number in range(127, 160)}  # which json leaves as they are


def row(answer: Answer) -> dict[str, Any]:
    """Return ``Prediction.plain`` (of several tasks: ``tasks``, these of each), and the sentences by GLUE's names."""
    if isinstance(answer, Prediction):
        values, text = answer.plain(), answer.text
    else:
        values = {"tasks": {task: prediction.plain() for task, prediction in answer.items()}}
        text = next(iter(answer.values())).text
    return {**values, **({KEYS[0]: text} if isinstance(text, str) else dict(zip(KEYS[1:], text)))}


def cells(answer: Answer) -> dict[str, str]:
    """Return the columns of a table, of several tasks TASK.label and so on, with the probability of the label alone."""
    values = row(answer)
    of_tasks = values.pop("tasks", {})
    columns = {f"{task}.{name}": value for task, own in of_tasks.items() for name, value in own.items()}
    texts = {
        name: value if isinstance(value, str) else "" if value is None else f"{value:.6f}"
        for name, value in {**columns, **values}.items()
        if not isinstance(value, (dict, bool))  # all probabilities, and whether a text was cut, are no columns
    }
    # Names of tasks and classes may be a stranger's: control characters in them are written as in Python.
    return {n.translate(BREAKS): text.translate(BREAKS) if n.endswith("label") else text for n, text in texts.items()}


def table_row(values: Iterable[str], form: str) -> str:
    """Return a row of tsv, whose tabs and line ends became spaces, or of csv."""
    if form == "tsv":
        return "\t".join(value.translate(BREAKS) for value in values) + "\n"
    # csv.writer does not quote a CR where rows end with LF.
    return ",".join('"{}"'.format(v.replace('"', '""')) if MUST_BE_QUOTED & set(v) else v for v in values) + "\n"


@dataclass
class Writer:
    """Writes predictions in one of ``FORMATS``, a header first where the format has one."""

    file: IO[str]
    form: str
    written: int = 0

    def write(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            if self.form == "jsonl":
                self.file.write(json.dumps(row(answer), ensure_ascii=False).translate(JSON_CONTROLS) + "\n")
            else:
                values = cells(answer)
                header = "" if self.written else table_row(values, self.form)
                self.file.write(header + table_row(values.values(), self.form))
            self.written += 1


def standard_output() -> IO[str]:
    """Return the stream for predictions, in UTF-8 as files are, whatever the locale says."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a notebook has another one, which takes any character
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout
