"""What a model says of one input, and how that is written: a table with a header, or a JSON object in each line."""

import codecs
import io
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from torch import Tensor

Text = str | Sequence[str]  # a sentence, or the two of a pair


@dataclass(frozen=True)
class PromptRow:
    """A prompt row.

    Attributes:
        vector: d, on the CPU; above the input what is added to the hidden states, or replaces them or joins them, as
            ``--prompt-insertion`` says.
        words: the nearest word embeddings, nearest first: quoted words and cosines.
        layer: the layer that reads the row, counted as by ``--prompt-layers``.
    """

    vector: Tensor
    words: list[tuple[str, float]]
    layer: int = 0


@dataclass(frozen=True)
class Prediction:
    """What a model says of one input.

    Attributes:
        text: as it was given: a sentence, or the two of a pair.
        label: the most probable class; None for scores.
        probabilities: of all classes by their names, in the order of the logits; empty for scores.
        score: in the scale of the task's own scores (STS-B: 0 to 5), not that of the training; None for classes.
        features: d, the last state of ``<s>``, on the CPU, where asked for.
        prompts: the prompt rows that this input got, those of the lowest layer first, where asked for.
        cut: whether the text was too long, so that its end was not read.
    """

    text: Text
    label: str | None = None
    probabilities: dict[str, float] = field(default_factory=dict)
    score: float | None = None
    features: Tensor | None = field(default=None, repr=False, compare=False)
    prompts: list[PromptRow] | None = field(default=None, repr=False, compare=False)
    cut: bool = False

    @property
    def probability(self) -> float | None:
        """Of ``label``; None for scores."""
        return None if self.label is None else self.probabilities[self.label]

    def plain(self) -> dict[str, Any]:
        """Return values that JSON knows: label, probability and probabilities, or score; ``cut`` where the text was;
        words and layers of the prompt rows."""
        values: dict[str, Any] = {"score": self.score}
        if self.label is not None:
            values = {"label": self.label, "probability": self.probability, "probabilities": self.probabilities}
        if self.cut:
            values["cut"] = True
        if self.prompts is not None:
            values["prompts"] = [[{"word": word, "cosine": near} for word, near in row.words] for row in self.prompts]
            values["prompt_layers"] = [row.layer for row in self.prompts]
        return values


# --- in files ------------------------------------------------------------------------------------

# what a model says of a text, or what each of several tasks does, by their names
Found = Prediction | dict[str, Prediction]

MUST_BE_QUOTED = set(',"\r\n')
CONTROLS = map(chr, (*range(32), *range(127, 160)))
BREAKS = str.maketrans({**{sign: repr(sign)[1:-1] for sign in CONTROLS}, "\t": " ", "\n": " ", "\r": " "})
JSON_CONTROLS = {number: f"\\u{number:04x}" for number in range(127, 160)}  # which json leaves as they are


def row(found: Found) -> dict[str, Any]:
    """Return ``Prediction.plain`` (of several tasks: ``tasks``, these of each), and the sentences by GLUE's names."""
    if isinstance(found, Prediction):
        values, text = found.plain(), found.text
    else:
        values = {"tasks": {task: prediction.plain() for task, prediction in found.items()}}
        text = next(iter(found.values())).text
    named = {"sentence": text} if isinstance(text, str) else {"sentence1": text[0], "sentence2": text[1]}
    return {**values, **named}


def cells(found: Found) -> dict[str, str]:
    """Return the columns of a table, of several tasks TASK.label and so on, with the probability of the label alone.

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


def tsv_row(values: Iterable[str]) -> str:
    """Return a row whose tabs and line ends became spaces; other control characters are written as in Python."""
    return "\t".join(value.translate(BREAKS) for value in values) + "\n"


def csv_row(values: Iterable[str]) -> str:
    """Return a row; a CR, too, is quoted, which Python's csv.writer does not do where rows end with LF."""
    return ",".join('"{}"'.format(v.replace('"', '""')) if MUST_BE_QUOTED & set(v) else v for v in values) + "\n"


TABLES: dict[str, Callable[[Iterable[str]], str]] = {"tsv": tsv_row, "csv": csv_row}
FORMATS = (*TABLES, "jsonl")


class Writer:
    """Writes predictions in one of ``FORMATS``, a header first where the format has one."""

    def __init__(self, file: IO[str], form: str):
        self.file = file
        self.form = form
        self.written = 0

    def write(self, predictions: Iterable[Found]) -> None:
        """Write the next few."""
        for found in predictions:
            if self.form == "jsonl":
                self.file.write(json.dumps(row(found), ensure_ascii=False).translate(JSON_CONTROLS) + "\n")
            else:
                values, as_row = cells(found), TABLES[self.form]
                self.file.write(("" if self.written else as_row(values)) + as_row(values.values()))
            self.written += 1


def standard_output() -> IO[str]:
    """Return the stream for predictions, in UTF-8 as files are, whatever the locale says."""
    stream: Any = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
        stream.reconfigure(encoding="utf-8")  # what stands in its place in a notebook takes any character
    return stream
