"""``python -m tests.warm.server ADDRESS PYTHON``: a process for each client, until its standard input ends."""

import gc
import json
import logging
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

from tests.warm import ROOT

AWHILE = 0.02  # seconds
PRELOADED = ("fairseq.tasks", "sklearn.metrics", "scipy.stats", "hydra.experimental")


def preload() -> None:
    """What most commands import, nothing of this repository; fairseq finds logging set up, and so leaves it alone."""
    somebody = logging.NullHandler()
    logging.getLogger().addHandler(somebody)
    for name in PRELOADED:
        import_module(name)
    logging.getLogger().removeHandler(somebody)
    gc.freeze()  # no process looks for garbage among that, nor copies it for that


def forked(listener: socket.socket) -> tuple[Any, list[int]]:
    """In a new process for each client: its request, and its standard streams."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who waits for a process is the one beside it
    while listener in select.select([sys.stdin, listener], [], [])[0]:
        client, _ = listener.accept()
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            size, streams, _, _ = socket.recv_fds(client, 4, 3)
            with client.makefile("rb") as lines:
                request = json.loads(lines.read(int.from_bytes(size, "big")))
            process = os.fork()
            if not process:
                client.close()
                return request, streams
            accompany(process, client)
        client.close()
    sys.exit()


def accompany(process: int, client: socket.socket) -> None:
    """Hands signals on to a process, and says how it ended; it does not outlive its client."""
    ended, status = os.waitpid(process, os.WNOHANG)
    while not ended:
        if select.select([client], [], [], AWHILE)[0]:
            heard = client.recv(1)
            os.kill(process, heard[0] if heard else signal.SIGKILL)
        ended, status = os.waitpid(process, os.WNOHANG)
    with suppress(BrokenPipeError):
        client.send(status.to_bytes(4, "big"))
    os._exit(0)


def become(request: Any, streams: list[int], python: str) -> list[str]:
    """Takes on what a process of the client would have; returns its arguments."""
    arguments, folder, environment = request
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, closefd=False)
    at_once = "PYTHONUNBUFFERED" in environment
    sys.stdout = open(1, "w", buffering=1 if at_once or os.isatty(1) else -1, closefd=False)
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    first = folder if arguments[0] in ("-m", "-c") else os.path.dirname(os.path.realpath(arguments[0]))
    places = environment.get("PYTHONPATH", "").split(os.pathsep)
    kept = [place for place in sys.path if place != str(ROOT)]
    sys.path[:] = [*([] if "PYTHONSAFEPATH" in environment else [first]), *filter(None, places), *kept]
    sys.executable = python
    return arguments


def main() -> None:
    """What is left of it in a forked process ends as any other: with its status, and what it does at its exit."""
    address, python = sys.argv[1:]
    preload()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        request, streams = forked(listener)
    arguments = become(request, streams, python)
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv[:] = ["-c", *arguments[2:]]
        exec(arguments[1], {"__name__": "__main__"})
    else:
        sys.argv[:] = arguments
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
