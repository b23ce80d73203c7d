"""Lines of results: whole or not at all."""

from __future__ import annotations

import errno
import multiprocessing
import os

import pytest

from preprocess.errors import InputError
from run_scripts.run import records
from run_scripts.run.records import append_record, check_place, failure, only_one, read_records


def test_the_latest_line_of_a_run_counts(tmp_path):
    for run, value in (("a", 1), ("b", 2), ("a", 3)):
        append_record(tmp_path, {"run": run, "test": value})
    assert [(r["run"], r["test"]) for r in read_records(tmp_path)] == [("a", 3), ("b", 2)]


def test_a_run_with_two_scores_is_told(tmp_path, capsys):
    """Of two machines that have both made it."""
    done = {"run": "a", "status": "done", "test": 71.0}
    for record in ({"run": "a", "status": "failed", "test": None}, done, {**done, "transfer": {}}):
        append_record(tmp_path, record)
    assert len(read_records(tmp_path)) == 1 and not capsys.readouterr().err
    append_record(tmp_path, {**done, "test": 71.2})
    assert [record["test"] for record in read_records(tmp_path)] == [71.2]
    said = "results.jsonl line 4: run a has test 71.2, and 71.0 above: the last line counts\n"
    assert capsys.readouterr().err.endswith(said)
    append_record(tmp_path, {**done, "test": "\x1b[31m"})
    assert read_records(tmp_path) and "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("torn", [b'{"run": "b", "te', b'{"run": "b"', b"\x00\x00"])
def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path, capsys, torn):
    append_record(tmp_path, {"run": "a"})
    with open(tmp_path / "results.jsonl", "ab") as file:
        file.write(torn)
    assert read_records(tmp_path) == [{"run": "a"}]
    assert "torn" in capsys.readouterr().err
    append_record(tmp_path, {"run": "c"})
    assert [r["run"] for r in read_records(tmp_path)] == ["a", "c"]
    assert not capsys.readouterr().err


def test_a_whole_last_line_without_its_newline_is_a_record(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    for first in (b"", b'{"run": "a"}\n'):
        path.write_bytes(first + b'{"run": "b"}')
        before = [record["run"] for record in read_records(tmp_path)]
        append_record(tmp_path, {"run": "c"})
        assert [record["run"] for record in read_records(tmp_path)] == [*before, "c"] and before[-1] == "b"
    assert path.read_bytes() == b'{"run": "a"}\n{"run": "b"}\n{"run": "c"}\n' and not capsys.readouterr().err


def test_a_whole_last_line_before_zeros_is_a_record(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"run": "a"}\r\n{"run": "b"}\0\0')
    assert [record["run"] for record in read_records(tmp_path)] == ["a", "b"]
    append_record(tmp_path, {"run": "c"})
    assert path.read_bytes() == b'{"run": "a"}\r\n{"run": "b"}\n{"run": "c"}\n'


def test_a_damaged_line_in_the_middle_is_refused(tmp_path):
    (tmp_path / "results.jsonl").write_text('{"run": "a"}\nnonsense\n{"run": "b"}\n')
    with pytest.raises(InputError, match="results.jsonl line 2 is damaged"):
        read_records(tmp_path)


def _append(folder, name):
    for i in range(50):
        append_record(folder, {"run": f"{name}{i}", "text": "x" * 5000})


def test_several_writers(tmp_path):
    writers = [multiprocessing.get_context("fork").Process(target=_append, args=(tmp_path, n)) for n in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(read_records(tmp_path)) == 100


def test_a_folder_is_held_by_one(tmp_path):
    with only_one(tmp_path):
        with pytest.raises(InputError, match="is in use by process"), only_one(tmp_path):
            pass
    with only_one(tmp_path):
        pass


def refuse(number):
    def refusing(*_, **__):
        raise OSError(number, os.strerror(number))

    return refusing


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_place_that_takes_nothing_is_found_before_the_work(tmp_path, monkeypatch, number):
    check_place(tmp_path / "new" / "results")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(records.tempfile, "TemporaryFile", refuse(number))
    with pytest.raises(InputError, match="--results .*results cannot be written to .*: make room or name another"):
        check_place(tmp_path / "new" / "results")


def test_a_full_disk_is_said_to_be_that_of_the_results(tmp_path, monkeypatch):
    monkeypatch.setattr(records.os, "fsync", refuse(errno.ENOSPC))
    with pytest.raises(OSError) as raised:
        append_record(tmp_path, {"run": "a"})
    assert raised.value.filename == str(tmp_path / "results.jsonl")


def test_a_folder_does_not_say_why_a_run_failed():
    said = "fairseq-train ended with status 1: {} (log: /results/diverged/out of memory/train.log)"
    assert failure(said.format("KeyError: 3"))["reason"] is None
    assert failure(said.format("the run has diverged"))["reason"] == "diverged"
    assert failure("data /data/diverged/CR-bin has no labels of valid: name another")["reason"] is None
    assert failure(said.format("CUDA out of memory"))["reason"] == "out of memory"
