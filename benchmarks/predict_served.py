"""Predictions through ``python -m fairseq_idpg.serve``, asked for by several connections at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from preprocess.errors import InputError

ROOT = Path(__file__).resolve().parents[1]


class Server:
    """A server of one checkpoint on a free port, in a process of its own."""

    def __init__(self, checkpoint: Path, threads: int, log: Path, *options: str):
        command = [sys.executable, "-m", "fairseq_idpg.serve", "--path", str(checkpoint.resolve()), "--cpu"]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self.log, self.place = log, ""
        with open(log, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                [*command, "--port", "0", *options],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        self.said = self.process.stdout

    def wait(self) -> None:
        """Until it answers.

        Raises:
            InputError: it has ended.
        """
        first, *_ = [*self.said.readline().split(), ""]
        if not first:
            _, *last = ["", *self.log.read_text(encoding="utf-8").splitlines()]
            raise InputError(f"the server has ended: {last[-1] if last else 'it said nothing'} (or give --no-served)")
        self.place = urlsplit(first).netloc

    def cpu_seconds(self) -> float:
        """That all its threads have computed so far."""
        return time.clock_gettime(~self.process.pid << 3 | 2)  # what clock_getcpuclockid(3) makes of a process

    def ask(self, texts: list[str], connections: int) -> list[dict[str, Any]]:
        """A prediction for each text, each in a request of its own."""

        def each(start: int) -> list[dict[str, Any]]:
            connection = HTTPConnection(self.place, timeout=600)
            try:
                return [answer(connection, text) for text in texts[start::connections]]
            finally:
                connection.close()

        with ThreadPoolExecutor(connections) as threads:
            parts = list(threads.map(each, range(connections)))
        return [parts[number % connections][number // connections] for number in range(len(texts))]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.said.close()


def answer(connection: HTTPConnection, text: str) -> dict[str, Any]:
    """The server's prediction of a text.

    Raises:
        InputError: it gives none.
    """
    body = json.dumps({"texts": [text]}).encode()
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    found = response.read()
    if response.status != 200:
        raise InputError(f"the server answered {response.status}: {found.decode(errors='replace')[:200]}")
    return json.loads(found)["predictions"][0]
