"""Whole processes, and when each line of their output came."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from preprocess.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Output:
    """A finished process: its lines with the seconds from its start to each, and the seconds to its end."""

    lines: list[tuple[float, str]]
    seconds: float

    def all(self, pattern: str) -> list[tuple[float, re.Match[str]]]:
        """The lines that contain a match."""
        matches = ((stamp, re.search(pattern, line)) for stamp, line in self.lines)
        return [(stamp, match) for stamp, match in matches if match]

    def first(self, pattern: str) -> tuple[float, re.Match[str]]:
        """The first line that matches. Raises InputError where none does."""
        found = self.all(pattern)
        if not found:
            raise InputError(f"no line of its output matches {pattern!r}: does this fairseq log otherwise?")
        return found[0]


def output_lines(command: list[str], environment: dict[str, str]) -> Iterator[str]:
    """The lines of stdout and stderr as they come. A process that is not read to its end is killed.

    Raises:
        InputError: the exit status is not 0.
    """
    last: deque[str] = deque(maxlen=40)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                last.append(line)
                yield line
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise InputError(reason(list(last)) or f"exit status {process.returncode}")


def reason(last: list[str]) -> str:
    """Of a failure: the last line, which is how bad input is reported; a traceback before it is passed on."""
    text = "".join(last).strip()
    start = text.rfind(TRACEBACK)
    if start >= 0:
        print(text[start:], file=sys.stderr)
    return text.rpartition("\n")[2]


def call(command: list[str], threads: int) -> Output:
    """Runs a process of ``threads`` threads to its end."""
    steady = {"OMP_WAIT_POLICY": "PASSIVE", "PYTHONUNBUFFERED": "1"}  # lines come when they are written
    environment = {**os.environ, **steady, "OMP_NUM_THREADS": str(threads)}
    start = time.perf_counter()
    lines = [(time.perf_counter() - start, line) for line in output_lines(command, environment)]
    return Output(lines, time.perf_counter() - start)
