"""The processes of benchmarks/epoch.py without the seconds that importing torch and fairseq takes.

They are forked from a process that has imported both, run the same commands and write the same output, to a pipe.
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Iterator

from epoch_process import reason

from preprocess.errors import InputError
from tests.command_line import FORKS, ROOT, uncaught


def command_in_fork(command: list[str], pipe: str) -> None:
    """The body of a forked process: a tool of fairseq, or python -m or -c, all output going to the pipe."""
    output = os.open(pipe, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.chdir(ROOT)
    if command[0] != sys.executable:
        sys.argv = command
        with uncaught():
            import_module(Path(command[0]).name.replace("fairseq-", "fairseq_cli.")).cli_main()
        return
    _, kind, what, *arguments = command
    sys.argv = [what, *arguments]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        with uncaught():
            exec(what, {})


def forked_output_lines(command: list[str], environment: dict[str, str]) -> Iterator[str]:
    """``epoch_process.output_lines`` without the start of a process."""
    last = deque(maxlen=40)
    with tempfile.TemporaryDirectory() as folder:
        pipe = os.path.join(folder, "output")
        os.mkfifo(pipe)
        process = FORKS.Process(target=command_in_fork, args=(command, pipe))
        process.start()
        with open(pipe, encoding="utf-8") as lines:
            for line in lines:
                last.append(line)
                yield line
        process.join()
    if process.exitcode:
        raise InputError(reason(list(last)))
