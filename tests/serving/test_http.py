"""``fairseq_idpg.serving.http``: what a server that ends still answers, and for whom it does not wait."""

import asyncio
import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from fairseq_idpg.serving import http as http_module
from fairseq_idpg.serving.http import HttpServer
from tests.command_line import until


async def greet(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


def answer(client: socket.socket) -> bytes:
    response = http.client.HTTPResponse(client)
    response.begin()
    return response.read()


@contextlib.contextmanager
def serving(app) -> Iterator[SimpleNamespace]:
    """A server in a thread, and where it listens; it must end."""
    server = HttpServer(app, lambda: None)
    with socket.create_server(("127.0.0.1", 0), backlog=100) as bound:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        until(lambda: server.started)
        yield SimpleNamespace(server=server, address=bound.getsockname())
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def test_a_client_that_has_connected_may_take_its_time_to_ask():
    with serving(greet) as running, socket.create_connection(running.address, 60) as client:
        until(lambda: bool(running.server.server_state.connections))
        running.server.should_exit = True
        time.sleep(3 * http_module.QUIET)
        client.sendall(ASK)
        assert answer(client) == b"hello"


ASK = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
HALF = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\nhalf"


async def read_and_send_much(scope, receive, send) -> None:
    """More than the kernel keeps for a client that does not read."""
    while scope["method"] == "POST" and (event := await receive())["type"] != "http.disconnect":
        if not event["more_body"]:
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": bytes(1 << 26)})


async def greet_late(scope, receive, send) -> None:
    await asyncio.sleep(1.5)
    await greet(scope, receive, send)


@pytest.mark.parametrize(
    ("app", "sent"),
    [(greet, ASK[:9]), (read_and_send_much, HALF), (read_and_send_much, ASK)],
    ids=["half a head", "half a body", "does not read"],
)
def test_a_connection_that_stands_still_is_ended(app, sent, monkeypatch):
    monkeypatch.setattr(http_module, "WAIT", 0.5)
    with serving(app) as running, socket.create_connection(running.address, 60) as client:
        until(lambda: bool(running.server.server_state.connections))
        client.sendall(sent)
        until(lambda: not running.server.server_state.connections)


def test_an_answer_may_take_longer_than_a_request(monkeypatch):
    monkeypatch.setattr(http_module, "WAIT", 0.5)
    with serving(greet_late) as running, socket.create_connection(running.address, 60) as client:
        client.sendall(ASK)
        assert answer(client) == b"hello"
