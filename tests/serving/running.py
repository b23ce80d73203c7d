"""Servers to ask: of the command in a process of its own, and of a model that is none in a thread."""

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from fairseq_idpg.errors import ModelFault, ModelLost
from fairseq_idpg.serving.app import Metrics, build_app
from fairseq_idpg.serving.batching import Batcher
from fairseq_idpg.serving.http import HttpServer
from tests.command_line import FORKS, uncaught

JSON = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    status: int
    headers: Any
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        assert list(self.value) == ["error"] and "\n" not in self.value["error"]
        return self.value["error"]


def ask(port: int, path: str, body: Any = None, method: str | None = None, **headers: str) -> Answer:
    """GET, or POST of a body: bytes as they are, anything else as JSON."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method or ("GET" if body is None else "POST"), path, data, {**JSON, **named})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())


def predict(port: int, texts: list, **more: Any) -> list[dict]:
    answer = ask(port, "/predict", {"texts": texts, **more})
    assert answer.status == 200, answer.body
    return answer.value["predictions"]


def counter(port: int, name: str) -> float:
    lines = ask(port, "/metrics").body.decode().splitlines()
    return float(next((line.split()[-1] for line in lines if line.startswith(f"fairseq_idpg_{name} ")), 0))


# --- the command ---------------------------------------------------------------------------------


def serve_command(output: Any, arguments: list[str]) -> None:
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
    with uncaught():
        from fairseq_idpg.serve import main

        main(arguments)


class Command:
    """The command in a process.

    Attributes:
        said: what it printed until it listened, or ended.
        port: where it listens; 0 if it does not.
    """

    def __init__(self, *options: object):
        reader, writer = FORKS.Pipe(duplex=False)
        arguments = [str(option) for option in (*options, "--cpu")]
        self.process = FORKS.Process(target=serve_command, args=(writer, arguments), daemon=True)
        self.process.start()
        writer.close()
        self.output = os.fdopen(os.dup(reader.fileno()))
        self.said, self.port = "", 0
        for line in self.output:
            self.said += line
            if line.startswith("http://"):
                self.port = int(line.split()[0].rpartition(":")[2])
                break

    def interrupt(self, number: int = signal.SIGTERM) -> None:
        os.kill(self.process.pid, number)

    def ended(self) -> int:
        """Its status, once it has ended; ``said`` is then all that it printed."""
        self.process.join(60)
        self.said += self.output.read()
        self.output.close()
        return self.process.exitcode


@contextlib.contextmanager
def command(*options: object) -> Iterator[Command]:
    """Of checkpoints, on a free port; it must end well."""
    running = Command("--port", 0, *options)
    try:
        assert running.port, running.said
        yield running
    finally:
        if running.process.is_alive():
            running.interrupt()
        status = running.ended()
    assert status == 0 and "Traceback" not in running.said, running.said


# --- a model that is none --------------------------------------------------------------------------


FAULTS = {"faulty": ModelFault, "lost": ModelLost}


class Stub:
    """Answers when it may, each text with itself; ``calls``: how many texts came together."""

    tasks = {"mr": None}

    def __init__(self, may_answer: bool = True):
        self.may_answer, self.asked = threading.Event(), threading.Event()
        self.calls: list[int] = []
        if may_answer:
            self.may_answer.set()

    def described(self) -> list[dict]:
        return [{"task": "mr", "labels": ["<b>bad</b>", "good"], "reads": ["sentence"], "prompts": True}]

    def check(self, question) -> None:
        pass

    def answer(self, question, batch_size: int) -> list[dict]:
        self.asked.set()
        assert self.may_answer.wait(60)
        self.calls.append(len(question.texts))
        for text in question.texts:
            if isinstance(text, str) and text.startswith("fail"):
                raise RuntimeError(text)
            if text in FAULTS:
                raise FAULTS[text](text)
        return [{"text": text, "prompts": question.prompts} for text in question.texts]


@contextlib.contextmanager
def in_thread(
    served, window: float = 0, limit: int = 8, wait: bool = True, **options: Any
) -> Iterator[SimpleNamespace]:
    """The server of a stub, or of what a function returns, in this process."""
    metrics, opened = Metrics(), threading.Event()
    open_model = served if callable(served) else lambda: served
    batcher = Batcher(open_model, 4, window, limit, metrics.answered)
    options = {"most_bytes": 1000, "most_texts": 5, "hosts": {"127.0.0.1"}, **options}
    server = HttpServer(build_app(batcher, metrics, **options), batcher.hurry)
    with socket.create_server(("127.0.0.1", 0), backlog=100) as bound:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        batcher.start(opened.set, lambda: None)
        try:
            assert not wait or opened.wait(60)
            yield SimpleNamespace(port=bound.getsockname()[1], batcher=batcher, opened=opened)
        finally:
            server.should_exit = True
            thread.join(60)
            batcher.close()
