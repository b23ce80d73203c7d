"""Predictions as rows of a table, tab- or comma-separated with a header, or as a JSON object in each line."""

import csv
import json
from typing import IO, Any, Callable, Dict, Iterable, List

from .prediction import Prediction

BREAKS = str.maketrans(dict.fromkeys("\t\n\r", " "))  # what a tab-separated row cannot hold


def row(prediction: Prediction) -> Dict[str, Any]:
    """Label, probability and probabilities, or score, and the sentence or both of a pair."""
    text = prediction.text
    sentences = {"sentence": text} if isinstance(text, str) else {"sentence1": text[0], "sentence2": text[1]}
    return {**prediction.plain(), **sentences}


def cells(prediction: Prediction) -> Dict[str, str]:
    """The columns of a table; it has the probability of the label alone."""
    values = {name: value for name, value in row(prediction).items() if name != "probabilities"}
    return {name: value if isinstance(value, str) else f"{value:.6f}" for name, value in values.items()}


class Writer:
    """Writes predictions in one of ``FORMATS``, a header first where the format has one."""

    def __init__(self, file: IO[str], form: str):
        self.file = file
        self.write_rows = FORMATS[form]
        self.written = 0

    def write(self, predictions: Iterable[Prediction]) -> None:
        """The next few."""
        found = list(predictions)
        self.write_rows(self.file, found, not self.written)
        self.written += len(found)


def write_tsv(file: IO[str], predictions: List[Prediction], first: bool) -> None:
    """Tabs and line ends in a sentence become spaces."""
    for number, values in enumerate(map(cells, predictions)):
        if first and not number:
            file.write("\t".join(values) + "\n")
        file.write("\t".join(value.translate(BREAKS) for value in values.values()) + "\n")


def write_csv(file: IO[str], predictions: List[Prediction], first: bool) -> None:
    """Quoted where it must be."""
    writer = csv.writer(file, lineterminator="\n")
    for number, values in enumerate(map(cells, predictions)):
        if first and not number:
            writer.writerow(values)
        writer.writerow(values.values())


def write_jsonl(file: IO[str], predictions: List[Prediction], first: bool) -> None:
    """No header."""
    file.writelines(json.dumps(row(prediction), ensure_ascii=False) + "\n" for prediction in predictions)


FORMATS: Dict[str, Callable[[IO[str], List[Prediction], bool], None]] = {
    "tsv": write_tsv,
    "csv": write_csv,
    "jsonl": write_jsonl,
}
