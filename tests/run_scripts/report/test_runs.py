"""Results that are damaged, old, or edited by hand: one line, and never a wrong number."""

from __future__ import annotations

import json
import re

import pytest

from preprocess.errors import InputError
from run_scripts.publish import main as publish
from run_scripts.report.__main__ import main
from run_scripts.report.runs import architecture, read_results
from run_scripts.report.scope import Choice, take_runs
from run_scripts.sweep import __main__ as sweep

from . import made

NAN, INFINITE = float("nan"), float("inf")


def error(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([*map(str, arguments)])
    assert isinstance(stopped.value.code, str) and "\n" not in stopped.value.code
    return stopped.value.code


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key in ("dev", "test") for value in ("abc", NAN, INFINITE, None, True, [1], 1e300, 10**400)]
    + [("seed", value) for value in ([1], "1", -1, 1.5, None, True)]
    + [("lr", value) for value in (0, -1, "x", NAN, None, [0.1])]
    + [("status", value) for value in ("maybe", None, ["done"], 1)]
    + [("k", value) for value in ("100", 100, [1])]  # 100: in the full setting
    + [("task", value) for value in (["CR"], None, "C\0R", "CRR", {})]
    + [("row", value) for value in ("", None, 3, "a\nb", "a\x1b[2J")]
    + [("setting", "half"), ("setting", []), ("selection", "none"), ("metric", "bleu"), ("metric", [])]
    + [("position", "0"), ("prompt_length", [5]), ("supplementary_position", {}), ("trainable", "many")]
    + [("backbone", 3), ("backbone", {"path": 1, "sha256": "x"}), ("backbone", {}), ("options", [1])]
    + [("seconds_per_update", value) for value in ("1", -1, NAN, [1])]
    + [
        ("peak_mib", "big"),
        ("method", 5),
        ("examples", [1]),
        ("examples", {"dev": 1}),
        ("examples", {"dev": 1, "test": -1}),
    ]
    + [("command", "x"), ("command", [1]), ("given_options", [["--fp16"]]), ("predictions", 5), ("max_update", "x")],
)
@pytest.mark.parametrize("what", [["--table", "1"], [], ["--figure", "9"]], ids=["table", "overview", "figure"])
def test_a_value_of_another_kind(tmp_path, key, value, what):
    record = made.run("adapter", "CR")
    made.write(tmp_path, [made.run("adapter", "MR"), {**record, key: value}])
    said = error(tmp_path, *what)
    assert "results.jsonl" in said and record["run"] in said and key in said
    assert said.endswith((": repeat it or remove its line", ": remove its line"))


@pytest.mark.parametrize("split", ["dev", "test"])
def test_a_score_that_is_not_that_of_its_parts(tmp_path, split):
    """One table reads the one, another table the other."""
    scores = {name: {"accuracy": 70.0, "f1": 80.0, "acc_and_f1": 75.0} for name in ("dev", "test")}
    whole = made.run("adapter", "MRPC", dev=75.0, test=75.0, scores=scores)
    made.write(tmp_path, [whole])
    assert read_results(tmp_path).runs
    made.write(tmp_path, [{**whole, split: 0.75}])
    assert f"{split} 0.75 is not the acc_and_f1 75.0 of its scores: repeat it" in error(tmp_path, "--table", 1)


@pytest.mark.parametrize("key", ["row", "task", "seed", "lr", "selection", "setting"])
def test_a_failed_run_knows_what_it_was(tmp_path, key):
    made.write(tmp_path, [made.run("adapter", "CR"), {**made.failed("adapter", "CR", 2), key: None}])
    assert key in error(tmp_path, "--table", 1)


@pytest.mark.parametrize(
    "content",
    [b"\x89PNG\r\n\x1a\n\0\0", b"\xff\xfe\n", b"{}\n", b"null\n", b"5\n", b'{"run": 5}\n', b'{"run": "a\\u001b"}\n']
    + [b"[" * 100000 + b"\n", b'"run"\n', b'{"run": ["a"]}\n', b"\xff", b"nonsense"],
)
def test_files_of_something_else(tmp_path, content):
    """A sweep says it too, and leaves the file as it is."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    assert "results.jsonl line 1 is damaged: remove that line" in error(tmp_path)
    with pytest.raises(InputError, match="line 1 is damaged"):
        sweep.missing({}, tmp_path)
    assert path.read_bytes() == content


def test_results_that_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "results.jsonl").mkdir()
    assert "results.jsonl is a folder" in error(tmp_path)
    with pytest.raises(InputError, match="results.jsonl: Is a directory"):
        sweep.missing({}, tmp_path)
    (tmp_path / "file").write_text("")
    assert "does not exist" in error(tmp_path / "file" / "x")


def test_records_with_unknown_keys_are_read(tmp_path, capsys):
    made.write(tmp_path, [{**made.run("adapter", "CR"), "new": {"a": [1]}}, made.failed("adapter", "CR", 2)])
    main([str(tmp_path), "--table", "1", "--tasks", "CR"])
    assert json.loads((tmp_path / "results.jsonl").read_text().splitlines()[0])["new"] == {"a": [1]}


def test_reading_takes_the_latest_line_of_a_run_and_leaves_a_torn_one_out(tmp_path, capsys):
    run = made.run("a", "CR", test=1.0)
    made.write(tmp_path, [run, {**run, "test": 2.0}])
    with open(tmp_path / "results.jsonl", "a", encoding="utf-8") as file:
        file.write('{"run": "0123')
    results = read_results(tmp_path)
    assert [found["test"] for found in results.runs] == [2.0]
    assert "torn" in capsys.readouterr().err
    assert read_results(tmp_path / "results.jsonl").folder == tmp_path


def test_a_failed_run_may_know_the_path_of_its_backbone_alone(tmp_path):
    made.write(tmp_path, [made.run("a", "CR"), made.failed("a", "CR", 2, backbone="/models/x.pt", position=None)])
    results = read_results(tmp_path)
    assert results.runs[1]["backbone"] == {"path": "/models/x.pt", "sha256": ""}
    assert len(take_runs(results, Choice(backbones=("ab12",))).failed) == 1


@pytest.mark.parametrize("backbone", ["/models/x.pt", {"path": "/models/x.pt", "sha256": ""}])
def test_a_finished_run_knows_the_fingerprint_of_its_backbone(tmp_path, backbone):
    """Two of different backbones would be averaged."""
    made.write(tmp_path, [made.run("a", "CR"), made.run("a", "CR", 2, backbone=backbone)])
    assert "backbone /models/x.pt has no sha256: repeat it or remove its line" in error(tmp_path, "--table", 1)


def test_the_architecture_of_a_command_that_is_cut_short():
    for command in (["fairseq-train", "--arch"], [], None):
        assert architecture({"command": command, "arch": "roberta_idpg_base"}) == "roberta_idpg_base"
        assert architecture({"command": command}) == "unknown architecture"


def test_a_backbone_trained_for_others_is_of_no_table(tmp_path, capsys):
    """The split that such a run reports has chosen its checkpoint, though its record says clean, as others do."""
    lone = made.run("s-idpg-phm", "MNLI", supplementary=True)
    made.write(tmp_path, [lone])
    assert "holds no finished full run" in error(tmp_path, "--table", "methods", "--tasks", "MNLI")
    made.write(tmp_path, [made.run("s-idpg-phm", "MNLI", 2, test=70.0), made.run("s-idpg-phm", "CR", 2)])
    main([str(tmp_path), "--table", "methods", "--tasks", "MNLI"])
    assert re.search(r"^s-idpg-phm +70\.0 ", capsys.readouterr().out, re.MULTILINE)
    main([str(tmp_path)])
    assert "1 of supplementary training, which are of no table: s-idpg-phm" in capsys.readouterr().out
    publish([str(tmp_path), "--out", str(tmp_path / "out.jsonl")])
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])["run"] == lone["run"]


@pytest.mark.parametrize("key", ["lr", "trainable"])
def test_a_number_that_no_float_holds(tmp_path, key):
    with pytest.raises(InputError, match=f"{key} 10{{10}}"):
        read_results(made.write(tmp_path, [made.run("a", "CR", **{key: 10**400})]))
