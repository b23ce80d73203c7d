"""Changes to the rows of a split before they are encoded: labels that are hidden, exchanged pairs, and the entailment
form of EFL."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from .errors import InputError
from .rows import Malformed, Row, Rows, unknown_label
from .sources import OnBytes

HIDDEN = (None, "", "-1", "-1.0")  # instead of a test set's labels, as a file or the Hugging Face hub has them
CSV_QUOTED = re.compile('"[^"]*(""[^"]*)+"')
NOT_ENTAILED, ENTAILED = "not_entailment", "entailment"

# EFL (Wang et al., 2021): a sentence entails the description of its class. A class that has one gives a pair for each
# sentence; one description is enough for two classes. Edit, or add your own task.
EFL_DESCRIPTIONS: dict[str, dict[str, str]] = {
    "CR": {"1": "It was great"},
    "MR": {"1": "It was great"},
    "SST-2": {"1": "It was great"},
    "MPQA": {"1": "It was positive"},
    "SUBJ": {"1": "It was objective"},
    "CoLA": {"1": "It was correct"},
}


def hidden_labels_left_out(read: Rows, classes: Collection[str]) -> Rows:
    """The same rows; without labels if all of them are hidden. A sign for that is none if it is one of the classes."""

    def rows(on_bytes: OnBytes) -> Iterator[Row]:
        hidden = set(HIDDEN).difference(classes)
        known = any(row.label not in hidden for row in read(lambda count: None))
        return read(on_bytes) if known else (row._replace(label=None) for row in read(on_bytes))

    return rows


def csv_quoted_noted(read: Rows, lines: set[int], malformed: Malformed) -> Rows:
    """The same rows; notes the lines that have a text in quotes of which those inside are doubled, or a part of a text
    that goes over several lines: with one quote of two, beside a malformed line."""

    def rows(on_bytes: OnBytes) -> Iterator[Row]:
        parts = set()
        for row in read(on_bytes):
            if any(CSV_QUOTED.fullmatch(text) for text in row.texts):
                lines.add(row.line)
            if any(text.count('"') % 2 for text in row.texts):
                parts.add(row.line)
            yield row
        broken = {line for line, _ in malformed.lines}
        lines.update(line for line in parts if {line - 1, line + 1} & broken)

    return rows


def swapped_pairs_appended(read: Rows) -> Rows:
    """Every pair, and then every pair with its two sentences exchanged (IDPG, appendix A.4)."""

    def both(on_bytes: OnBytes) -> Iterator[Row]:
        yield from read(on_bytes)
        for row in read(on_bytes):
            yield row._replace(texts=row.texts[::-1])

    return both


def entailment_pairs(read: Rows, descriptions: dict[str, str], classes: tuple[str, ...], source: str) -> Rows:
    """(sentence, description of a class), labelled whether the sentence is of that class."""

    def pairs(on_bytes: OnBytes) -> Iterator[Row]:
        for row in read(on_bytes):
            if row.label is not None and row.label not in classes:
                raise unknown_label(f"{source} line {row.line}", row.label, classes)
            number = row.number if len(descriptions) == 1 else None  # which of its pairs would it be of?
            for label, description in descriptions.items():
                entailed = None if row.label is None else ENTAILED if row.label == label else NOT_ENTAILED
                yield row._replace(texts=(row.texts[0], description), label=entailed, number=number)

    return pairs


def efl_descriptions(name: str, inputs: int, labels: tuple[str, ...]) -> dict[str, str]:
    """Return the descriptions of a task's classes.

    Raises:
        InputError: a pair task, a task without descriptions, a description of an unknown class.
    """
    descriptions = EFL_DESCRIPTIONS.get(name, {})
    if inputs != 1 or not descriptions or not descriptions.keys() <= set(labels):
        raise InputError(
            f"--efl: {name} has no descriptions of the classes {', '.join(labels)} of single sentences, as "
            f"{', '.join(EFL_DESCRIPTIONS)} have: leave it out, give --labels of the description, or add them to "
            "EFL_DESCRIPTIONS in preprocess/transforms.py"
        )
    return descriptions
