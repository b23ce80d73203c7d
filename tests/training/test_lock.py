"""One training at a time in a --save-dir."""

import contextlib
import errno
import fcntl
import os
import shutil
import signal
from pathlib import Path

import pytest

from fairseq_idpg.training import lock


@pytest.fixture(autouse=True)
def released():
    yield
    lock._leave_to_parent()


@contextlib.contextmanager
def another_process(folder: Path, works_for: bool = False):
    """A process that holds ``folder``; with ``works_for``, one of its children as well goes on running."""
    ready, told = os.pipe()
    process = os.fork()
    if not process:
        with contextlib.suppress(BaseException):
            lock.hold(str(folder))
            if works_for and not os.fork():
                os.write(told, str(os.getpid()).encode())
                signal.pause()
            if not works_for:
                os.write(told, b"0")
            signal.pause()
        os._exit(1)
    child = int(os.read(ready, 20))
    try:
        yield process
    finally:
        for running in (process, child):
            if running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(running, signal.SIGKILL)
        os.waitpid(process, 0)


@pytest.mark.parametrize("worker", [False, True])
def test_a_kill_releases_it_even_if_a_worker_lives_on(tmp_path, worker):
    with another_process(tmp_path, works_for=worker) as process:
        os.kill(process, signal.SIGKILL)
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
        lock.hold(str(tmp_path))


def test_one_process_trains_twice_by_two_names_of_the_folder(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    lock.hold(str(tmp_path / "real"))
    lock.hold(str(tmp_path / "link"))
    assert len(lock._held) == 1


def test_a_folder_made_again(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lock.hold(str(folder))
    shutil.rmtree(folder)
    folder.mkdir()
    lock.hold(str(folder))
    assert (folder / lock.NAME).read_text()
    with open(folder / lock.NAME) as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_file_system_without_locks_is_a_warning(tmp_path, monkeypatch, caplog):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    lock.hold(str(tmp_path))
    assert "cannot be locked (No locks available)" in caplog.text and not lock._held
