"""``python -m fairseq_idpg.predict --text``: what the library says, in files and on standard output."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest

from fairseq_idpg import load
from fairseq_idpg.predict import main
from preprocess.errors import command_line
from tests.folders import ROOT, train, write_backbone, write_folder, write_questions
from tests.inference.test_predictor import inputs


def predict(*options: object) -> None:
    main([*map(str, options), "--cpu"])


def table(text: str, separator: str = "\t") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter=separator, quoting=csv.QUOTE_NONE))


def test_sentences_on_standard_output(idpg, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fairseq_idpg.predict.CHUNK", 5)
    (tmp_path / "x.txt").write_text("".join(f"{text}\n" for text in inputs("singles")))
    predict("--path", idpg("singles"), "--text", tmp_path / "x.txt")
    found, expected = table(capsys.readouterr().out), load(idpg("singles"), device="cpu").predict(inputs("singles"))
    assert [row["sentence"] for row in found] == inputs("singles")
    assert [row["label"] for row in found] == [p.label for p in expected]
    assert [float(row["probability"]) for row in found] == pytest.approx([p.probability for p in expected], abs=2e-6)


def test_pairs_in_files(idpg, tmp_path, capsys):
    texts, path = inputs("scores"), tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in texts))
    lines = tmp_path / "pairs.jsonl"
    lines.write_text("".join(json.dumps({"sentence1": a, "sentence2": b}) + "\n" for a, b in texts))
    expected = [p.score for p in load(idpg("scores"), device="cpu").predict(texts)]
    usual = ["--path", idpg("scores"), "--batch-size", 3]
    predict(*usual, "--text", path, "--pairs", "tab", "--out", tmp_path / "o.csv")
    predict(*usual, "--text", lines, "--out", tmp_path / "o.jsonl")
    predict(*usual, "--text", lines, "--out", tmp_path / "o", "--format", "tsv")
    assert f"{tmp_path / 'o'}: 16 predictions of {lines} in" in capsys.readouterr().out
    by_json = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    for rows in (table((tmp_path / "o.csv").read_text(), ","), by_json, table((tmp_path / "o").read_text())):
        assert [(row["sentence1"], row["sentence2"]) for row in rows] == texts
        assert [float(row["score"]) for row in rows] == pytest.approx(expected, abs=2e-5)


def test_scores_of_a_folder_are_those_of_its_texts(idpg, folders, tmp_path):
    predict(folders["scores"], "--path", idpg("scores"), "--split", "valid", "--out", tmp_path / "scores.tsv")
    expected = [p.score for p in load(idpg("scores"), device="cpu").predict(inputs("scores"))]
    assert np.loadtxt(tmp_path / "scores.tsv") == pytest.approx(expected, abs=2e-5)


def test_standard_input_is_answered_as_it_comes(idpg):
    command = [sys.executable, "-m", "fairseq_idpg.predict", "--cpu", "--path", idpg("singles"), "--text", "-"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([str(part) for part in command], cwd=ROOT, text=True, **pipes) as process:
        process.stdin.write("red cat\n")
        process.stdin.flush()
        assert process.stdout.readline() == "label\tprobability\tsentence\n"
        assert process.stdout.readline().endswith("\tred cat\n")
        rest, said = process.communicate("\n")
    assert process.returncode == 1 and rest == ""
    assert said.splitlines()[-1] == "fairseq_idpg: standard input line 2: an empty sentence: mend the line"


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


def test_reports_of_what_the_locale_has_no_signs_for(tmp_path, monkeypatch):
    """Labels and names of files, as Python writes them; the same for all commands."""
    bytes_out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(bytes_out, encoding="latin-1"))
    with command_line("x"):
        print("gut\u2713, grün")
    sys.stdout.flush()
    assert bytes_out.getvalue() == "gut\\u2713, grün\n".encode("latin-1")


def test_json_lines_by_any_spelling_of_their_suffix(idpg, tmp_path, capsys):
    """A line that was taken for a sentence would be answered without a word."""
    for name, options in (("x.JSONL", []), ("x.Jsonl", []), ("x.json", ["--jsonl"])):
        (tmp_path / name).write_text('{"sentence": "red cat"}\n')
        predict("--path", idpg("singles"), "--text", tmp_path / name, *options)
        assert [row["sentence"] for row in table(capsys.readouterr().out)] == ["red cat"]


def test_results_take_the_place_of_nothing_that_a_model_reads(idpg, folders, place, tmp_path):
    (tmp_path / "x.txt").write_text("red cat\n")
    backbone, encoder = place / "backbone" / "model.pt", place / "vocab" / "vocab.bpe"
    before = backbone.read_bytes(), encoder.read_bytes()
    of_text = ["--text", tmp_path / "x.txt", "--format", "tsv"]
    for options, out, part in (
        (of_text, backbone, "backbone"),
        (of_text, encoder, "encoder"),
        ([folders["singles"], "--split", "valid"], backbone, "backbone"),
    ):
        with pytest.raises(SystemExit, match=f"--out {out} is the file of --path .*, its {part}, which it would repl"):
            predict(*options, "--path", idpg("singles"), "--out", out)
    assert (backbone.read_bytes(), encoder.read_bytes()) == before


def test_closed_streams(idpg, tmp_path, monkeypatch):
    (tmp_path / "x.txt").write_text("red cat\n")
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit, match="standard output is closed: name a file with --out"):
        predict("--path", "no.pt", "--text", tmp_path / "x.txt")
    monkeypatch.setattr(sys, "stderr", None)
    predict("--path", idpg("singles"), "--text", tmp_path / "x.txt", "--out", tmp_path / "o.tsv")
    assert len((tmp_path / "o.tsv").read_text().splitlines()) == 2


def test_paths_may_be_named_one_by_one(idpg, tmp_path, capsys):
    text, paths = tmp_path / "x.txt", [f"{name}={idpg('singles')}" for name in ("first", "second")]
    text.write_text("red cat\n")
    predict("--path", *paths, "--text", text)
    together = capsys.readouterr().out
    predict("--path", paths[0], "--path", paths[1], "--text", text)
    assert capsys.readouterr().out == together and "second.label" in together


def test_bad_input(idpg, folders, tmp_path, capsys):
    text, pair, folder = tmp_path / "x.txt", tmp_path / "x.jsonl", folders["singles"]
    text.write_text("red cat\n" + "cat " * 40 + "\n")
    pair.write_text('["a", "b"]\n')
    singles, out = ["--path", idpg("singles")], ["--out", tmp_path / "out.tsv"]
    of_text = [*singles, *out, "--text"]
    for options, message in (
        ([*of_text, text], f"{text} line 2 has 159 tokens, and this model takes [0-9]+ beside its prompt"),
        ([*of_text, pair], f"{pair} line 1 is a pair of sentences, and this model was trained on single"),
        ([*of_text, "no.txt"], "--text no.txt is not a file: name one with a sentence in each line, or give - and the"),
        ([*of_text, "A film of note. " * 20], "--text A film .* is not a file"),
        ([*of_text, text, "--out", "-"], "--out - is no file: leave it out, and what --text gives goes to standard"),
        ([*of_text, text, "--out", singles[1], "--format", "csv"], "is the file of --path, which it would replace"),
        ([folder, *singles, "--out", folder / "predictions.tsv"], "lies in the folder .*, which is read: name"),
        ([folder, *singles, *out, "--split", ""], "has no input0/.idx"),
        ([*of_text, text, "--out", "o.txt"], "--out o.txt: give it the suffix .tsv, .csv, .jsonl, or give --format"),
        ([*of_text, text, "--out", tmp_path], "is a folder: name a file"),
        ([*of_text, pair, "--out", pair], f"--out {pair} is the file of --text, which it would replace: name another"),
        ([*of_text, text, "--pairs", "tab", "--jsonl"], "two layouts: give one"),
        *(
            ([*of_text, f"x{end}"], f"x{end} is a table by its name, and a whole")
            for end in (".tsv", ".csv.gz", ".TAB")
        ),
        *(
            ([*of_text, f"x{end}"], f"x{end} is JSON by its name, and .*: give --jsonl,")
            for end in (".json", ".NDJSON")
        ),
        (["--path", f"mine={singles[1]}", *out, "--text", text], "a single checkpoint has no name: give "),
        ([*of_text, text, "--split", "test"], "--split goes with a binarized folder"),
        ([*of_text, text, "--batch-size", 0], "--batch-size 0"),
        ([*of_text, text, "--path", "no.pt"], "--path no.pt is not a file"),
        ([*of_text, text, "--path", idpg("pairs")], "was trained on pairs of sentences: give --pairs tab, or JSON"),
        ([folder, *of_text, text], "not both DATA-bin"),
        ([*singles, *out], "none was given"),
        ([folder, *singles], "--out is missing"),
        ([folder, *singles, *out, "--fp16"], "--fp16 goes with --text"),
    ):
        with pytest.raises(SystemExit, match=message):
            predict(*options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.jsonl", "x.txt"]
    predict(*singles, "--text", text, "--truncate")
    assert len(table(capsys.readouterr().out)) == 2


def test_examples_of_a_folder_that_are_too_long_are_cut_on_request(tmp_path):
    folder, out = write_folder(tmp_path / "data"), tmp_path / "out.tsv"
    train(folder, tmp_path / "run", "--backbone", write_backbone(tmp_path / "model.pt"), "--max-update", 2)
    usual = ["--path", tmp_path / "run" / "checkpoint_best.pt", "--split", "valid", "--out", out]
    long = write_folder(tmp_path / "long", longest=90, splits={"valid": 13})
    with pytest.raises(SystemExit, match=r"split valid are too long: .*truncate \(predict: --truncate\) or a shorter"):
        predict(long, *usual)
    assert not out.exists()
    predict(long, *usual, "--truncate")
    assert len(out.read_text().splitlines()) == 13


def test_one_answer_of_each_question_is_chosen(tmp_path):
    folder = write_folder(tmp_path / "data", splits={"train": 24, "valid": 12})
    train(folder, tmp_path / "run", "--backbone", write_backbone(tmp_path / "model.pt"), "--max-update", 2)
    usual = [folder, "--path", tmp_path / "run" / "checkpoint_best.pt", "--split", "valid", "--out", tmp_path / "out"]
    with pytest.raises(SystemExit, match="--choose: .*data has no question/valid.tsv: leave it out"):
        predict(*usual, "--choose")
    write_questions(folder, "valid", [row % 4 for row in range(12)])
    predict(*usual, "--choose")
    rows = [line.split("\t") for line in (tmp_path / "out").read_text().splitlines()]
    of_one = [float(row[2]) for row in rows]
    for question in range(4):
        of_question = range(question, 12, 4)
        assert [rows[row][0] for row in of_question].count("1") == 1
        assert rows[max(of_question, key=of_one.__getitem__)][0] == "1"
