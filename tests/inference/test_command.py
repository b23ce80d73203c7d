"""``python -m fairseq_idpg.predict``: what the library says, in files and on standard output; see test_refusals.py."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest

from fairseq_idpg import load
from fairseq_idpg.predict import main
from tests.folders import ROOT, write_backbone, write_folder, write_questions
from tests.inference.conftest import inputs
from tests.inference.saved import write_checkpoint


def predict(*options: object) -> None:
    main([*map(str, options), "--cpu"])


def table(text: str, separator: str = "\t") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter=separator, quoting=csv.QUOTE_NONE))


def test_pairs_in_files_and_of_a_folder(idpg, folders, tmp_path, capsys):
    texts, path = inputs("scores"), tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in texts))
    lines = tmp_path / "pairs.jsonl"
    lines.write_text("".join(json.dumps({"sentence1": a, "sentence2": b}) + "\n" for a, b in texts))
    expected = pytest.approx([p.score for p in load(idpg("scores"), device="cpu").predict(texts)], abs=2e-5)
    usual = ["--path", idpg("scores"), "--batch-size", 3]
    predict(*usual, "--text", path, "--pairs", "tab", "--out", tmp_path / "o.csv")
    predict(*usual, "--text", lines, "--out", tmp_path / "o.jsonl")
    predict(*usual, "--text", lines, "--out", tmp_path / "o", "--format", "tsv")
    assert f"{tmp_path / 'o'}: 16 predictions of {lines} in" in capsys.readouterr().out
    by_json = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    for rows in (table((tmp_path / "o.csv").read_text(), ","), by_json, table((tmp_path / "o").read_text())):
        assert [(row["sentence1"], row["sentence2"]) for row in rows] == texts
        assert [float(row["score"]) for row in rows] == expected
    predict(folders["scores"], *usual, "--split", "valid", "--out", tmp_path / "scores.tsv")
    assert np.loadtxt(tmp_path / "scores.tsv") == expected


@pytest.mark.parametrize("form", ["tsv", "jsonl"])
def test_line_n_answers_line_n(form, idpg, tmp_path, capfd):
    """Also where the first line is blank, from which a table has no columns to take."""
    path, out = tmp_path / "pairs", tmp_path / f"out.{form}"
    path.write_text("\nred\tcat\n \nblue\tdog\n\n")
    predict("--path", idpg("pairs"), "--text", path, "--pairs", "tab", "--out", out)
    said = capfd.readouterr()
    assert said.err.splitlines()[-1] == "3 blank lines have no answer" and "2 predictions" in said.out
    lines = out.read_text().splitlines()
    rows = [json.loads(line) for line in lines] if form == "jsonl" else table(out.read_text())
    assert [row["sentence1"] for row in rows] == ["", "red", "", "blue", ""]
    for number, row in enumerate(rows):
        assert bool(row["label"]) == bool(row["probability"]) == bool(number % 2)


@pytest.mark.parametrize("level", [[], ["--log-level", "info"]])
def test_standard_input_is_answered_as_it_comes(level, idpg, python):
    command = [python, "-m", "fairseq_idpg.predict", "--cpu", "--path", idpg("singles"), "--text", "-", *level]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([str(part) for part in command], cwd=ROOT, text=True, **pipes) as process:
        found = ""
        # whole lines do not wait for one that is not finished; a blank one has a row, so that rows keep their numbers
        for begun, answers in (("red cat\nblue", 2), (" dog\nbl", 1)):
            process.stdin.write(begun)
            process.stdin.flush()
            found += "".join(process.stdout.readline() for _ in range(answers))
        rest, said = process.communicate("ue\n\nred")
    sentences = [line.split("\t")[2] for line in (found + rest).splitlines()]
    assert process.returncode == 0 and sentences == ["sentence", "red cat", "blue dog", "blue", "", "red"]
    *log, line = said.splitlines()
    assert line == "1 blank line has no answer"
    assert any("method m-idpg-phm: " in each for each in log) if level else not log


def test_standard_output_is_utf_8_whatever_the_locale(idpg, tmp_path, monkeypatch):
    """The file of predictions too, and its name need not be of the locale's characters."""
    text, bytes_out = tmp_path / "x.txt", io.BytesIO()
    text.write_text("rot \u2192 grün\n", encoding="utf-8")
    named = ["--path", idpg("singles"), "--text", text]
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_out, encoding="latin-1"))
    predict(*named, "--out", tmp_path / "\u2192.tsv")
    predict(*named)
    sys.stdout.flush()
    report, *found = bytes_out.getvalue().decode().splitlines()
    assert f"{tmp_path}/\\u2192.tsv: 1 predictions of " in report
    assert found == (tmp_path / "\u2192.tsv").read_text(encoding="utf-8").splitlines() and "\u2192 grün" in found[1]


def test_texts_that_are_too_long_are_cut_on_request(tmp_path):
    out = tmp_path / "out.tsv"
    checkpoint = write_checkpoint(tmp_path / "x.pt", write_folder(tmp_path / "data"), write_backbone(tmp_path / "b.pt"))
    usual = ["--path", checkpoint, "--split", "valid", "--out", out]
    long = write_folder(tmp_path / "long", longest=90, splits={"valid": 13})
    with pytest.raises(SystemExit, match="--truncate"):
        predict(long, *usual)
    assert not out.exists()
    predict(long, *usual, "--truncate")
    assert len(out.read_text().splitlines()) == 13


def test_one_answer_of_each_question_is_chosen(tmp_path):
    folder = write_folder(tmp_path / "data", splits={"train": 24, "valid": 12})
    checkpoint = write_checkpoint(tmp_path / "x.pt", folder, write_backbone(tmp_path / "model.pt"))
    write_questions(folder, "valid", [row % 4 for row in range(12)])
    predict(folder, "--path", checkpoint, "--split", "valid", "--out", tmp_path / "out", "--choose")
    rows = [line.split("\t") for line in (tmp_path / "out").read_text().splitlines()]
    of_one = [float(row[2]) for row in rows]
    for question in range(4):
        of_question = range(question, 12, 4)
        assert [rows[row][0] for row in of_question].count("1") == 1
        assert rows[max(of_question, key=of_one.__getitem__)][0] == "1"


def test_several_tasks(idpg, tmp_path, capsys, monkeypatch):
    """By names and without, all at once or one by one, in more chunks than one."""
    monkeypatch.setattr("fairseq_idpg.predict.CHUNK", 5)
    texts, path = inputs("pairs"), tmp_path / "x.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in texts))
    paths = [f"same={idpg('pairs')}", idpg("scores")]
    expected = load({"same": idpg("pairs"), "scores": idpg("scores")}, device="cpu").predict(texts)
    predict("--path", *paths, "--text", path, "--pairs", "tab")
    printed = capsys.readouterr().out
    predict("--path", paths[0], "--path", paths[1], "--text", path, "--pairs", "tab", "--out", tmp_path / "o.jsonl")
    assert list(table(printed)[0]) == ["same.label", "same.probability", "scores.score", "sentence1", "sentence2"]
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert found[0]["tasks"]["same"].keys() == {"label", "probability", "probabilities"}
    for row, by_json, answer in zip(table(printed), found, expected, strict=True):
        assert row["same.label"] == by_json["tasks"]["same"]["label"] == answer["same"].label
        assert float(row["scores.score"]) == pytest.approx(answer["scores"].score, abs=2e-5)
        assert by_json["sentence1"] == row["sentence1"] == answer["same"].text[0]
