"""Steps, atomic files and child processes of the quick start."""

from __future__ import annotations

import sys

import pytest

from preprocess.errors import InputError
from preprocess.writing import write_text
from run_scripts.quickstart.files import (
    is_done,
    lock,
    read_json,
    record_of,
    run_logged,
    run_step,
    run_visible,
    tool,
    write_json,
)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_write_text_leaves_no_temporary(tmp_path):
    write_text(tmp_path / "new" / "a.txt", "é\n")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a.txt"]
    assert (tmp_path / "new" / "a.txt").read_bytes() == "é\n".encode()


def test_read_json_of_broken_file(tmp_path):
    (tmp_path / "cut.json").write_text('{"a": ')
    assert read_json(tmp_path / "cut.json") is None
    assert read_json(tmp_path / "absent.json") is None


def test_step_runs_again_only_for_other_settings(tmp_path):
    product, built = tmp_path / "product", []

    def build():
        built.append(1)
        product.write_text("made")

    for settings, expected in (({"n": 1}, 1), ({"n": 1}, 1), ({"n": 2}, 2), ({"n": 2}, 2)):
        run_step("step", product, settings, build)
        assert len(built) == expected
    product.unlink()
    run_step("step", product, {"n": 2}, build)
    assert len(built) == 3


def test_interrupted_step_is_not_done(tmp_path):
    product = tmp_path / "product"

    def build():
        product.write_text("half")
        raise KeyboardInterrupt

    write_json(record_of(product), {"n": 1})
    product.write_text("whole")
    assert is_done(product, {"n": 1})
    with pytest.raises(KeyboardInterrupt):
        run_step("step", product, {"n": 2}, build)
    assert not is_done(product, {"n": 1}) and not is_done(product, {"n": 2})


def test_run_logged_passes_lines_on(tmp_path):
    lines, log = [], tmp_path / "logs" / "child.log"
    for _ in range(2):
        run_logged(python("print('one'); print('two')"), log, lines.append)
    assert lines == ["one", "two"] * 2
    assert log.read_text() == "one\ntwo\n" * 2


def test_failed_child_is_explained_by_its_error_line(tmp_path):
    code = "import sys; print('before'); print('pkg.WrongThing'); raise ValueError('no such n')"
    with pytest.raises(InputError, match=r"exit status 1\): ValueError: no such n \(all of"):
        run_logged(python(code), tmp_path / "log", lambda line: None)


def test_killed_child_is_explained(tmp_path):
    code = "import os; print('last words', flush=True); os.kill(os.getpid(), 9)"
    with pytest.raises(InputError, match="killed by signal 9: last words"):
        run_logged(python(code), tmp_path / "log", lambda line: None)


def test_child_ends_with_us(tmp_path):
    """An interruption while lines are read must not leave the child at work."""

    def interrupt(line):
        raise KeyboardInterrupt

    late = tmp_path / "late"
    code = f"import time; print('x', flush=True); time.sleep(60); open({str(late)!r}, 'w')"
    with pytest.raises(KeyboardInterrupt):
        run_logged(python(code), tmp_path / "log", interrupt)
    assert not late.exists()


def test_run_visible_failure():
    with pytest.raises(InputError, match=r"pip download x failed \(exit status 3\)"):
        run_visible(python("raise SystemExit(3)"), "pip download x")


def test_missing_tool():
    with pytest.raises(InputError, match="fairseq-nothing not found"):
        tool("fairseq-nothing")


def test_one_quick_start_per_folder(tmp_path):
    pytest.importorskip("fcntl")
    lock(tmp_path / "out")
    with pytest.raises(InputError, match="another quick start is at work"):
        lock(tmp_path / "out")
