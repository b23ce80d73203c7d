"""Predictions as rows of a table, tab- or comma-separated with a header, or as a JSON object in each line."""

import codecs
import io
import json
import sys
from collections.abc import Callable, Iterable
from typing import IO, Any

from ..errors import InputError
from .prediction import Prediction, Text

# what a model says of a text, or what each of several tasks does, by their names
Found = Prediction | dict[str, Prediction]

MUST_BE_QUOTED = set(',"\r\n')
CONTROLS = map(chr, (*range(32), *range(127, 160)))
BREAKS = str.maketrans({**{sign: repr(sign)[1:-1] for sign in CONTROLS}, "\t": " ", "\n": " ", "\r": " "})
JSON_CONTROLS = {number: f"\\u{number:04x}" for number in range(127, 160)}  # which json leaves as they are


def sentences(text: Text) -> dict[str, str]:
    """The sentence, or both of a pair, by GLUE's names."""
    return {"sentence": text} if isinstance(text, str) else {"sentence1": text[0], "sentence2": text[1]}


def row(found: Found) -> dict[str, Any]:
    """See ``Prediction.plain`` (of several tasks: ``tasks``, these of each), and the text."""
    if isinstance(found, Prediction):
        return {**found.plain(), **sentences(found.text)}
    tasks = {task: prediction.plain() for task, prediction in found.items()}
    return {"tasks": tasks, **sentences(next(iter(found.values())).text)}


def cells(found: Found) -> dict[str, str]:
    """The columns of a table, of several tasks TASK.label and so on; it has the probability of the label alone.

    Names of tasks and classes are a stranger's, perhaps: control characters in them are written as in Python.
    """
    values = row(found)
    of_tasks = values.pop("tasks", {})
    columns = {f"{task}.{name}": value for task, answer in of_tasks.items() for name, value in answer.items()}
    values = {name: value for name, value in {**columns, **values}.items() if not isinstance(value, (dict, bool))}
    texts = {name: value if isinstance(value, str) else f"{value:.6f}" for name, value in values.items()}
    return {
        name.translate(BREAKS): text.translate(BREAKS) if name.endswith("label") else text
        for name, text in texts.items()
    }


def standard_output() -> IO[str]:
    """For predictions, in UTF-8 as files are, whatever the locale says.

    Raises:
        InputError: it is closed.
    """
    stream: Any = sys.stdout
    if stream is None:
        raise InputError("standard output is closed: name a file with --out")
    if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
        stream.reconfigure(encoding="utf-8")  # what stands in its place in a notebook takes any character
    return stream


class Writer:
    """Writes predictions in one of ``FORMATS``, a header first where the format has one."""

    def __init__(self, file: IO[str], form: str):
        self.file = file
        self.write_rows = FORMATS[form]
        self.written = 0

    def write(self, predictions: Iterable[Found]) -> None:
        """The next few."""
        found = list(predictions)
        self.write_rows(self.file, found, not self.written)
        self.written += len(found)


def write_tsv(file: IO[str], predictions: list[Found], first: bool) -> None:
    """Tabs and line ends in a text become spaces; other control characters are written as in Python."""
    for number, values in enumerate(map(cells, predictions)):
        if first and not number:
            file.write("\t".join(values) + "\n")
        file.write("\t".join(value.translate(BREAKS) for value in values.values()) + "\n")


def write_csv(file: IO[str], predictions: list[Found], first: bool) -> None:
    """Quoted where it must be."""
    for number, values in enumerate(map(cells, predictions)):
        if first and not number:
            file.write(csv_row(values))
        file.write(csv_row(values.values()))


def csv_row(values: Iterable[str]) -> str:
    """A row and its line end; a CR that Python's csv.writer, ending rows with LF, would leave unquoted is quoted."""
    return ",".join('"{}"'.format(v.replace('"', '""')) if MUST_BE_QUOTED & set(v) else v for v in values) + "\n"


def write_jsonl(file: IO[str], predictions: list[Found], first: bool) -> None:
    """No header."""
    lines = (json.dumps(row(prediction), ensure_ascii=False) for prediction in predictions)
    file.writelines(line.translate(JSON_CONTROLS) + "\n" for line in lines)


FORMATS: dict[str, Callable[[IO[str], list[Found], bool], None]] = {
    "tsv": write_tsv,
    "csv": write_csv,
    "jsonl": write_jsonl,
}
