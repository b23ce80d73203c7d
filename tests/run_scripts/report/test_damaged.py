"""Results and predictions that are damaged, old, or edited by hand: one line, or a note, and never a wrong number."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_scripts.report.__main__ import main
from run_scripts.report.scores import Votes, rows_of
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
    + [("command", "x"), ("command", [1]), ("given_options", [["--fp16"]]), ("predictions", 5), ("max_update", "x")],
)
@pytest.mark.parametrize("what", [["--table", "1"], [], ["--figure", "9"]], ids=["table", "overview", "figure"])
def test_a_value_of_another_kind(tmp_path, key, value, what):
    record = made.run("adapter", "CR")
    made.write(tmp_path, [made.run("adapter", "MR"), {**record, key: value}])
    said = error(tmp_path, *what)
    assert "results.jsonl" in said and record["run"] in said and key in said
    assert said.endswith((": repeat it or remove its line", ": remove its line"))


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
    with pytest.raises(SystemExit, match="line 1 is damaged"):
        sweep.missing({}, tmp_path)
    assert path.read_bytes() == content


def test_results_that_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "results.jsonl").mkdir()
    assert "results.jsonl is a folder" in error(tmp_path)
    with pytest.raises(SystemExit, match="results.jsonl: Is a directory"):
        sweep.missing({}, tmp_path)
    (tmp_path / "file").write_text("")
    assert "does not exist" in error(tmp_path / "file" / "x")


def test_runs_of_different_versions_are_not_mixed(tmp_path):
    old, new = made.run("adapter", "CR"), made.run("adapter", "CR", 2, protocol=2)
    made.write(tmp_path, [old, new])
    assert "made with different versions of the settings (protocol 1 and 2)" in error(tmp_path, "--table", 1)


def saved(folder, *seeds):
    return [made.save_predictions(folder, made.run("a", "CR", seed), [1, 0, 1], [1, 0, 0]) for seed in seeds]


def voted(folder, runs):
    votes = Votes(folder)
    return votes.of(rows_of(runs)["a"]), votes.notes


NOT_THERE = (["no vote, as predictions are not there or damaged: a on CR"],)


@pytest.mark.parametrize(
    "arrays",
    [
        {"test": np.array([1, 0, 1])},
        {"test": np.array([1, 0]), "test_targets": np.array([1, 0, 0])},
        {"test": np.array([[1, 0, 1]]), "test_targets": np.array([[1, 0, 0]])},
        {"test": np.array([1, 0, np.nan]), "test_targets": np.array([1, 0, 0])},
        {"test": np.array(["a", "b", "c"]), "test_targets": np.array(["a", "b", "c"])},
        {"test": np.array([]), "test_targets": np.array([])},
        {"test": np.array(1), "test_targets": np.array(1)},
    ],
    ids=["lacking", "shorter", "nested", "NaN", "texts", "empty", "number"],
)
def test_predictions_of_something_else_have_no_vote(tmp_path, arrays):
    runs = saved(tmp_path, 1, 2)
    for record in runs:
        np.savez_compressed(tmp_path / record["predictions"], **arrays)
    assert voted(tmp_path, runs) == ({}, *NOT_THERE)


def test_predictions_run_nothing(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    runs = saved(tmp_path, 1)
    path = tmp_path / runs[0]["predictions"]
    path.write_bytes(pickle.dumps(Evil()))
    assert voted(tmp_path, runs) == ({}, *NOT_THERE)
    array = np.empty(3, dtype=object)
    array[:] = [Evil()] * 3
    np.savez(path, test=array, test_targets=array, allow_pickle=True)
    assert voted(tmp_path, runs) == ({}, *NOT_THERE)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("test.npy", pickle.dumps(Evil()))
        archive.writestr("test_targets.npy", b"")
    assert voted(tmp_path, runs) == ({}, *NOT_THERE)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("place", ["/dev/zero", "..", ".", "../x.npz", "a\0b"])
def test_predictions_elsewhere_are_not_read(tmp_path, place):
    results = tmp_path / "results"
    runs = [{**record, "predictions": place} for record in saved(results, 1)]
    np.savez(tmp_path / "x.npz", test=np.array([1, 0, 1]), test_targets=np.array([1, 0, 0]))
    assert voted(results, runs) == ({}, *NOT_THERE)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("votes")
    return folder, saved(folder, 1)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_damaged_predictions_have_no_vote_or_the_same(whole, data):
    """Bytes changed, or the end cut off."""
    folder, runs = whole
    packed = io.BytesIO()
    np.savez_compressed(packed, test=np.array([1, 0, 1]), test_targets=np.array([1, 0, 0]))
    content = bytearray(packed.getvalue())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[at] ^= data.draw(st.integers(1, 255))
    else:
        del content[at:]
    (folder / runs[0]["predictions"]).write_bytes(bytes(content))
    found, notes = voted(folder, runs)
    assert (found, notes) in (({}, *NOT_THERE), ({"CR": pytest.approx(200 / 3)}, []))


def test_records_with_unknown_keys_are_read(tmp_path, capsys):
    made.write(tmp_path, [{**made.run("adapter", "CR"), "new": {"a": [1]}}, made.failed("adapter", "CR", 2)])
    main([str(tmp_path), "--table", "1", "--tasks", "CR"])
    assert json.loads((tmp_path / "results.jsonl").read_text().splitlines()[0])["new"] == {"a": [1]}
