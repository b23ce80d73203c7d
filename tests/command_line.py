"""fairseq's commands in forked processes that have imported fairseq, but not the plugin: --user-dir does that."""

import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
# A server that forks for each command: the same ``cli_main`` on the same arguments as the installed scripts, without
# the seconds that importing torch takes.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["fairseq_cli.train", "fairseq_cli.validate", "sklearn.metrics", "scipy.stats", "torch._dynamo"]
)


@contextlib.contextmanager
def uncaught() -> Iterator[None]:
    """What the interpreter does with an error that nobody catches; multiprocessing does something else."""
    try:
        yield
    except (Exception, KeyboardInterrupt):
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


def until(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.01)


def command_line(tool: str, arguments: list[str], output: str) -> None:
    """The body of one forked process: ``fairseq-TOOL arguments``, all output going to a file."""
    file = os.open(output, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.chdir(ROOT)
    sys.argv = [f"fairseq-{tool}", *arguments]
    with uncaught():
        import_module(f"fairseq_cli.{tool}").cli_main()
