"""Labels are any text: they come back as they were, whatever fairseq's dictionary does to white space."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from fairseq_idpg import load
from fairseq_idpg.export import export
from fairseq_idpg.predict import main as predict
from preprocess.dictionary import ESCAPED, escape_label, read_labels, unescape_label
from tests.folders import train
from tests.preprocess.commands import run as preprocess

LABELS = {"red": "same topic", "blue": "не ясно", "cat": f"50%20off{ESCAPED}", "dog": "tab\tand\nline"}
TEXT = st.text(st.characters(exclude_categories=["Cs"])).map(str.strip).filter(bool)


@given(TEXT)
@example("a%20b")
@example(f"{ESCAPED}a")
def test_a_label_survives_its_escape(label):
    symbol = escape_label(label)
    assert unescape_label(symbol) == label and symbol.split() == [symbol]
    assert symbol == label or label.split() != [label] or not label.isprintable()  # old folders keep their bytes


def test_from_csv_to_a_shared_folder(place, tmp_path, capsys):
    rows = [f'{word} {number},"{label}"\n' for number in range(4) for word, label in LABELS.items()]
    (tmp_path / "own.csv").write_text("text,label\n" + "".join(rows), encoding="utf-8")
    command = ["own", "--from-csv", *(f"{split}={tmp_path / 'own.csv'}" for split in ("train", "valid"))]
    assert preprocess([*command, "--text-columns", "text", "--vocab", place / "vocab", "--out", tmp_path]) == 0
    data = tmp_path / "own-bin"
    assert sorted(read_labels(data / "label/dict.txt")) == sorted(LABELS.values())
    backbone = ["--backbone", place / "backbone" / "model.pt", "--method", "m-idpg-phm", "--prompt-length", 3]
    options = ["--num-classes", 4, "--lr", 0.02, "--max-epoch", 20]
    train(data, tmp_path / "run", *backbone, *options)
    checkpoint = tmp_path / "run" / "checkpoint_best.pt"
    export(str(checkpoint), str(tmp_path / "shared"))
    models = [load(path, device="cpu") for path in (checkpoint, tmp_path / "shared")]
    for model in models:
        assert sorted(model.labels) == sorted(LABELS.values())
        assert [answer.label for answer in model.predict([f"{word} 1" for word in LABELS])] == list(LABELS.values())
        assert model.evaluate(["red 2", "blue 2"], ["same topic", "не ясно"])["accuracy"] == 1
    (tmp_path / "x.txt").write_text("red 1\ndog 1\n")
    usual = ["--path", str(checkpoint), "--cpu"]
    predict([*usual, "--text", str(tmp_path / "x.txt"), "--out", str(tmp_path / "x.jsonl")])
    said = [json.loads(line)["label"] for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert said == ["same topic", LABELS["dog"]]
    predict([str(data), *usual, "--split", "valid", "--out", str(tmp_path / "x.tsv")])
    lines = (tmp_path / "x.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in lines[:4]] == [*list(LABELS.values())[:3], "tab and line"]
