"""Commands end in a fork as they would in a process of their own."""

from __future__ import annotations

import signal

import pytest

from tests.folders import ROOT

from .server import HUNG, Aim, Request, ask, server


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(script, ...) -> (status, what it printed, its errors)."""
    place = tmp_path_factory.mktemp("server")

    def command(script: str, *arguments: str, limit: float = 60.0, aim: Aim | None = None):
        (place / "script.py").write_text(script)
        out, err = place / "out", place / "err"
        request = Request(str(place / "script.py"), arguments, str(place), str(out), str(err), limit, aim)
        return ask(socket, request), out.read_text(), err.read_text()

    with server(place, ROOT) as socket:
        yield command


def test_ends(run):
    assert run("import sys; print(sys.argv[1:], __name__)", "a", "b") == (0, "['a', 'b'] __main__\n", "")
    assert run("raise SystemExit('one line')") == (1, "", "one line\n")
    assert run("raise SystemExit(3)")[0] == 3
    status, _, error = run("{}['key']")
    assert status == 1 and "Traceback" in error and "KeyError: 'key'" in error
    assert run("import os; os.abort()")[0] == -signal.SIGABRT


def test_limits(run):
    assert run("import time; time.sleep(60)", limit=0.5)[0] == HUNG
    assert "MemoryError" in run("bytes(1 << 40)")[2]


def test_a_kill_at_a_change(run, tmp_path):
    script = """
import sys, time
for number in range(500):
    open(f"{sys.argv[1]}/{number}", "w").close()
    time.sleep(0.2)
"""
    assert run(script, str(tmp_path), aim=Aim(str(tmp_path), 3, 0.01))[0] == -signal.SIGKILL
    assert 3 <= len(list(tmp_path.iterdir())) < 500
