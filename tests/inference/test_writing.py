"""Predictions in files: read back by the readers of their formats."""

from __future__ import annotations

import csv
import io
import json

import pytest

from fairseq_idpg.inference.files import Prediction, Writer

CLASSES = [
    Prediction('say "hi",\tyou\nthere', "1", {"0": 0.25, "1": 0.75}),
    Prediction("über", "0", {"0": 0.9, "1": 0.1}),
]
SCORES = [Prediction(("a", "b, c"), score=3.25), Prediction(("d", "e"), score=-0.0000001)]


def written(form: str, predictions: list[Prediction]) -> str:
    file = io.StringIO()
    writer = Writer(file, form)
    for prediction in predictions:
        writer.write([prediction])
    assert writer.written == len(predictions)
    return file.getvalue()


def test_tables():
    tsv = 'label\tprobability\tsentence\n1\t0.750000\tsay "hi", you there\n0\t0.900000\tüber\n'
    assert written("tsv", CLASSES) == tsv
    assert written("tsv", SCORES) == "score\tsentence1\tsentence2\n3.250000\ta\tb, c\n-0.000000\td\te\n"
    rows = list(csv.DictReader(io.StringIO(written("csv", CLASSES), newline="")))
    assert rows[0] == {"label": "1", "probability": "0.750000", "sentence": CLASSES[0].text}
    assert [row["sentence2"] for row in csv.DictReader(io.StringIO(written("csv", SCORES)))] == ["b, c", "e"]


def test_a_table_on_a_terminal_holds_no_commands():
    """The class is a name of a stranger's checkpoint."""
    for found in (Prediction("a\x9b2J", "\x1b[2J", {"\x1b[2J": 1.0}), Prediction("\x7f", score=1.0)):
        for one in (found, {"\x07": found}):
            assert written("tsv", [one]).replace("\t", " ").replace("\n", " ").isprintable()
    named = {"\x9b": Prediction("text", "\x1b[2J\x9b", {"\x1b[2J\x9b": 1.0})}
    csv_text, json_text = (written(form, [named]) for form in ("csv", "jsonl"))
    assert csv_text.replace("\n", "").isprintable() and json_text[:-1].isprintable()
    assert json.loads(json_text)["tasks"]["\x9b"]["label"] == "\x1b[2J\x9b"


@pytest.mark.parametrize("sign", ["\r", "\r\n", "\n", "\t", ",", '"', "\u2028"])
def test_a_sentence_with_any_sign_is_one_row(sign):
    text = f"one{sign}two"
    found = [{text: Prediction((text, "three"), "a", {"a": 1.0})}]  # also in a task's name
    _, row = csv.reader(io.StringIO(written("csv", found), newline=""))
    assert row[2:] == [text, "three"]
    header, row, _ = written("tsv", found).split("\n")
    assert header.count("\t") == row.count("\t") == 3


def test_json_lines():
    found = [json.loads(line) for line in written("jsonl", CLASSES).splitlines()]
    probabilities = {"0": 0.25, "1": 0.75}
    assert written("jsonl", []) == written("tsv", []) == ""
    assert found[0] == {"label": "1", "probability": 0.75, "probabilities": probabilities, "sentence": CLASSES[0].text}
    assert json.loads(written("jsonl", SCORES[:1])) == {"score": 3.25, "sentence1": "a", "sentence2": "b, c"}


def test_that_a_text_was_cut_is_no_column():
    """The first row names the columns, and it may have been read to its end."""
    cut = {"t": Prediction("a b", "1", {"0": 0.25, "1": 0.75}, cut=True)}
    assert json.loads(written("jsonl", [cut]))["tasks"]["t"]["cut"] is True
    assert written("tsv", [cut]).split("\n")[0] == "t.label\tt.probability\tsentence"
