"""Commands in forks of a process that has imported everything: a fork takes milliseconds, importing torch seconds.

``python -m tests.robustness.server SOCKET CODE`` listens on a socket. Each connection brings one ``Request`` as a line
of JSON; a fork runs the command as ``python -m`` or fairseq's installed script would, another one watches over it, and
the status goes back when it has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Iterator

MEMORY = 8 << 30  # bytes of address space: a damaged length must not fill the machine
HUNG = "hung"
POLL = 0.001
PRELOADED = (
    *("fairseq_cli.train", "fairseq_cli.validate", "sklearn.metrics", "scipy.stats", "torch._dynamo", "matplotlib"),
    *("fairseq_idpg", "fairseq_idpg.analysis.__main__", "preprocess.build", "preprocess.few_shot"),
    *("run_scripts.run.preflight", "run_scripts.report.figures", "yaml", "safetensors.torch"),
)


@dataclass(frozen=True)
class Aim:
    """When to kill: ``delay`` seconds after the ``change``-th change (counted from 1) of the files in ``folder``."""

    folder: str
    change: int
    delay: float


@dataclass(frozen=True)
class Request:
    """``tool``: a module, a script's path, or fairseq_cli.X; what it prints goes to the files ``out`` and ``err``."""

    tool: str
    arguments: tuple[str, ...]
    folder: str
    out: str
    err: str
    limit: float
    aim: Aim | None = None


# --- the server ----------------------------------------------------------------------------------


def serve(path: str, code: str) -> None:
    """Answers connections until the process that started it has ended."""
    sys.path.insert(0, code)
    for name in PRELOADED:
        import_module(name)
    import torch

    import fairseq_idpg

    assert Path(code) in Path(fairseq_idpg.__file__).parents, fairseq_idpg.__file__
    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those who watch are not waited for
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{path}.new")
        server.listen()
        os.rename(f"{path}.new", path)  # whoever finds it may ask at once
        server.settimeout(5)
        parent = os.getppid()
        while os.getppid() == parent:
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                server.close()
                _answer(connection)
                os._exit(0)
            connection.close()


def _answer(connection: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection, connection.makefile("rw") as line:
        fields = json.loads(line.readline())
        request = Request(**{**fields, "aim": Aim(**fields["aim"]) if fields["aim"] else None})
        line.write(json.dumps(_watched(request)) + "\n")


def _watched(request: Request) -> int | str:
    """The status of the command in a fork; negative: the signal that ended it."""
    child = os.fork()
    if child == 0:
        os._exit(_command(request))
    deadline, watch = time.monotonic() + request.limit, _Watch(request.aim)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        late = time.monotonic() > deadline
        if late or watch.due():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            return HUNG if late else status
        time.sleep(POLL)


class _Watch:
    """Looks at a folder and says when the moment of an ``Aim`` has come."""

    def __init__(self, aim: Aim | None):
        self.aim = aim
        self.changes, self.seen, self.at = 0, self._look(), None

    def _look(self) -> dict[str, tuple[int, int]]:
        found = {}
        if self.aim is not None and os.path.isdir(self.aim.folder):
            for entry in os.scandir(self.aim.folder):
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    found[entry.name] = (status.st_size, status.st_ino)
        return found

    def due(self) -> bool:
        if self.aim is None:
            return False
        if self.at is None:
            now = self._look()
            self.changes += now != self.seen
            self.seen = now
            if self.changes >= self.aim.change:
                self.at = time.monotonic() + self.aim.delay
        return self.at is not None and time.monotonic() >= self.at


def _command(request: Request) -> int:
    """What the interpreter does with a command; returns the status."""
    os.setsid()
    for stream, file in enumerate((os.devnull, request.out, request.err)):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if stream else 0)), stream)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.chdir(request.folder)
    status = 0
    try:
        _run(request.tool, list(request.arguments))
    except SystemExit as stopped:
        if isinstance(stopped.code, str):
            print(stopped.code, file=sys.stderr)
        status = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    return status


def _run(tool: str, arguments: list[str]) -> None:
    sys.argv = [tool, *arguments]
    if tool.startswith("fairseq_cli."):
        import_module(tool).cli_main()
    elif tool.endswith(".py"):
        sys.path.insert(0, os.path.dirname(tool))
        runpy.run_path(tool, run_name="__main__")
    else:
        runpy.run_module(tool, run_name="__main__", alter_sys=True)


# --- who asks it ---------------------------------------------------------------------------------


@contextlib.contextmanager
def server(folder: Path, code: Path) -> Iterator[Path]:
    """A running server of the code in ``code``; gives the socket."""
    path = folder / "server"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.robustness.server", str(path), str(code)]
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        while not path.exists():
            if process.poll() is not None:
                raise RuntimeError(f"the server could not start: {(folder / 'server.log').read_text()}")
            time.sleep(0.05)
        yield path
    finally:
        process.kill()
        process.wait()


def ask(path: Path, request: Request) -> int | str:
    """The status of a command: an exit status, minus a signal's number, or ``HUNG``."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        with connection.makefile("rw") as line:
            line.write(json.dumps(asdict(request)) + "\n")
            line.flush()
            return json.loads(line.readline())


if __name__ == "__main__":
    serve(*sys.argv[1:])
