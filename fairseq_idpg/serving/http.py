"""The server of HTTP, which answers before it ends what it has accepted."""

import asyncio
import contextlib
import logging
import resource
import socket
from typing import Callable, List, Optional

import uvicorn
from starlette.types import ASGIApp

logger = logging.getLogger(__name__)

QUIET, ROUNDS = 0.2, 10  # seconds in which no request has begun; how often these are waited for
PATIENCE = 50  # times QUIET in which no answer was due: clients that have not sent or read all by then are given up
SHORT = 1e-3  # a timer's: 0 would come back before the loop looks at its sockets
FILES = 8192  # a file descriptor for each connection


class HttpServer(uvicorn.Server):
    """uvicorn's, which at its end still reads what was sent on connections made until then.

    ``ending`` is called when no more will come; ``busy`` says whether an answer is due.
    """

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None], busy: Callable[[], bool]):
        super().__init__(config)
        self.ending = ending
        self.busy = busy

    async def shutdown(self, sockets: Optional[List[socket.socket]] = None) -> None:
        await asyncio.sleep(SHORT)  # the loop accepts what the kernel has: close() would reset it
        for server in self.servers:
            server.close()
        begun = -1
        for _ in range(ROUNDS):
            before, begun = begun, self.server_state.total_requests + len(self.server_state.tasks)
            if before == begun:
                break
            await asyncio.sleep(QUIET)
        self.ending()
        hanging_up = asyncio.ensure_future(self._hang_up())
        await super().shutdown(sockets)
        if self.force_exit:
            await hanging_up
            if self.server_state.tasks:
                await asyncio.wait(self.server_state.tasks, timeout=ROUNDS * QUIET)
        hanging_up.cancel()

    async def _hang_up(self) -> None:
        """Ends the connections whose clients keep it from its end; with ``force_exit`` all, at once."""
        waited = 0
        while waited < PATIENCE and not self.force_exit:
            await asyncio.sleep(QUIET)
            waited = 0 if self.busy() else waited + 1
        left = list(self.server_state.connections)
        if left and not self.force_exit:
            logger.warning(f"clients that had not sent all of a request, or read all of an answer, ended: {len(left)}")
        for connection in left:
            connection.transport.abort()  # close() would wait for what is to be sent


def http_server(app: ASGIApp, ending: Callable[[], None], busy: Callable[[], bool]) -> HttpServer:
    """A server of one process for many connections."""
    with contextlib.suppress(ValueError, OSError):
        soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = FILES if most == resource.RLIM_INFINITY else min(FILES, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), most))
    return HttpServer(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
        ),
        ending,
        busy,
    )
