"""The HTTP server, which answers all that it has accepted before it ends."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

WAIT = 30.0  # seconds for a request to come whole, and for an answer to be read on
QUIET, ROUNDS = 0.2, 10  # seconds in which no request has begun; how often these are waited for
SHORT = 1e-3  # a timer's: 0 would come back before the loop looks at its sockets
FILES = 8192  # a file descriptor for each connection


class Connection(H11Protocol):
    """uvicorn's connection; it ends after ``WAIT`` seconds without a whole request, or if nobody reads the answer."""

    deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        option = socket.TCP_USER_TIMEOUT, round(WAIT * 1000)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, *option)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.deadline is not None:
            self.deadline.cancel()

    def _watch(self) -> None:
        """Start the clock while a request is awaited, and stop it once one is whole."""
        waits = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if waits and self.deadline is None:
            self.deadline = self.loop.call_later(WAIT, self.transport.close)
        elif not waits and self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None


class HttpServer(uvicorn.Server):
    """uvicorn's server; it answers all connections before it ends, and calls ``ending`` when no more will come."""

    def __init__(self, app: ASGIApp, ending: Callable[[], None]):
        options: Any = dict.fromkeys(("access_log", "server_header", "proxy_headers"), False)
        logs: Any = {"log_config": None, "log_level": "warning"}
        config = uvicorn.Config(app, http=Connection, ws="none", loop="asyncio", lifespan="off", **logs, **options)
        super().__init__(config)
        self.ending = ending
        with contextlib.suppress(ValueError, OSError):
            soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            wanted = FILES if most == resource.RLIM_INFINITY else min(FILES, most)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), most))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        connections: Any = self.server_state.connections
        begun = -1
        # Wait until every connection has begun a request, or none has begun for a while.
        for _ in range(ROUNDS):
            before, begun = begun, self.server_state.total_requests + len(self.server_state.tasks)
            if before == begun and all(connection.cycle for connection in connections):
                break
            await asyncio.sleep(QUIET)
        self.ending()
        await asyncio.sleep(SHORT)  # the loop accepts what the kernel still holds: close() would reset it
        await super().shutdown(sockets)
