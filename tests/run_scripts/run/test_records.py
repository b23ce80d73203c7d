"""Lines of results: whole or not at all."""

import contextlib
import multiprocessing
import subprocess

import pytest

from preprocess.errors import InputError
from run_scripts.run.records import append_record, held, read_records


@pytest.mark.parametrize("torn", [b'{"run": "b", "te', b"\x00\x00"])
def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path, capsys, torn):
    append_record(tmp_path, {"run": "a"})
    with open(tmp_path / "results.jsonl", "ab") as file:
        file.write(torn)
    assert read_records(tmp_path) == [{"run": "a"}]
    assert "torn" in capsys.readouterr().err
    append_record(tmp_path, {"run": "c"})
    assert [r["run"] for r in read_records(tmp_path)] == ["a", "c"]
    assert not capsys.readouterr().err


def test_a_whole_last_line_without_its_newline_is_a_record(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"run": "a"}\r\n{"run": "b"}')
    assert [record["run"] for record in read_records(tmp_path)] == ["a", "b"]
    append_record(tmp_path, {"run": "c"})
    assert path.read_bytes() == b'{"run": "a"}\r\n{"run": "b"}\n{"run": "c"}\n'


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
    append_record(tmp_path, {"run": "a0", "text": ""})  # the latest line of a run counts, in the place of its first
    found = read_records(tmp_path)
    assert len(found) == 100 and [record["run"] for record in found if not record["text"]] == ["a0"]


@pytest.mark.parametrize("inherit", [True, False])
def test_a_folder_is_held_by_one_and_by_an_orphan_that_has_inherited_it(tmp_path, inherit):
    with held(tmp_path, inherit=inherit):
        with pytest.raises(InputError, match="is in use"), held(tmp_path):
            pass
        orphan = subprocess.Popen(["sleep", "60"], close_fds=False)
    with contextlib.nullcontext() if not inherit else pytest.raises(InputError), held(tmp_path):
        pass
    orphan.kill()
    orphan.wait()
    with held(tmp_path):
        pass
