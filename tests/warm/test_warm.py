"""A process of the warm python is what the interpreter's would be."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.folders import ROOT


def started(python: str | Path, *words: str, **more) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NAME": "é"}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([str(python), *words], env=environment, text=True, **streams, **more)


@pytest.mark.parametrize("status", [0, 3])
@pytest.mark.parametrize("what", [["-m", "tests.warm.told"], [str(ROOT / "tests" / "warm" / "told.py")]])
def test_what_a_process_has(python, tmp_path, what, status):
    words = [*what, str(status), "a b"]
    said = []
    for which in (sys.executable, python):
        process = started(which, *words, cwd=tmp_path)
        output, errors = process.communicate("a line\nanother\n")
        assert process.returncode == status and errors == "an error\n"
        said.append(json.loads(output))
    assert [each.pop("warm") for each in said] == [False, True]
    assert said[0] == said[1] and said[1]["input"] == "a line\n"


def test_the_interpreter_answers_all_else(python):
    output, _ = started(python, "-c", "import sys; print(sys.executable, 'fairseq' in sys.modules)").communicate()
    assert output == f"{sys.executable} False\n"


@contextlib.contextmanager
def waiting(python: Path) -> Iterator[subprocess.Popen]:
    """A process that has begun to wait."""
    with started(python, "-m", "tests.warm.told", "wait") as process:
        process.stdin.write("\n")
        process.stdin.flush()
        try:
            assert process.stderr.readline() == "an error\n"
            yield process
        finally:
            process.kill()


def test_a_signal_reaches_it(python):
    with waiting(python) as process:
        process.terminate()
        assert process.wait(60) == -signal.SIGTERM


def test_it_does_not_outlive_its_client(python):
    with waiting(python) as process:
        process.kill()
        begin = time.monotonic()
        process.stderr.read()  # until nobody holds the other end of the pipe
        assert time.monotonic() - begin < 60


def test_without_an_answer_it_fails(tmp_path):
    client = [sys.executable, "-IS", str(ROOT / "tests" / "warm" / "client.py"), str(tmp_path / "socket")]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(client[-1])
        listener.listen()
        with started(*client, "-m", "tests.warm.told", "0") as process:
            server, _ = listener.accept()
            with server.makefile("rb") as request:
                request.read(int.from_bytes(request.read(4), "big"))
            server.close()
            assert process.wait(60) == 1 and process.stderr.read() == "the server of the warm python is gone\n"
