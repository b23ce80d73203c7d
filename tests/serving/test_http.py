"""``fairseq_idpg.serving.http``: what a server that ends still answers."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading

from fairseq_idpg.serving.http import http_server


async def greet(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


def test_connections_that_the_kernel_took_while_the_server_was_busy_are_answered():
    """They come between the server's last look at its socket and its end: closing the socket would reset them."""
    server = http_server(greet, lambda: None)
    busy, may_end = threading.Event(), threading.Event()

    async def end_once_it_may(counter: int) -> bool:
        busy.set()
        return may_end.wait(60)  # the loop stands still

    server.on_tick = end_once_it_may
    with socket.create_server(("127.0.0.1", 0), backlog=100) as bound, contextlib.ExitStack() as opened:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        assert busy.wait(60)
        asked = [http.client.HTTPConnection(*bound.getsockname(), timeout=60) for _ in range(50)]
        for connection in asked:
            opened.enter_context(contextlib.closing(connection))
            connection.request("GET", "/")
        may_end.set()
        assert [connection.getresponse().read() for connection in asked] == [b"hello"] * 50
        thread.join(60)
        assert not thread.is_alive()
