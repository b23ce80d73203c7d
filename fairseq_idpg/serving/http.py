"""The server of HTTP, which answers before it ends what it has accepted."""

import asyncio
import contextlib
import resource
import socket
from typing import Callable, List, Optional

import uvicorn
from starlette.types import ASGIApp

QUIET, ROUNDS = 0.2, 10  # seconds in which no request has begun; how often these are waited for
SHORT = 1e-3  # a timer's: 0 would come back before the loop looks at its sockets
FILES = 8192  # a file descriptor for each connection


class HttpServer(uvicorn.Server):
    """uvicorn's, which at its end still reads what was sent on connections made until then.

    ``ending`` is called when no more will come.
    """

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]):
        super().__init__(config)
        self.ending = ending

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
        await super().shutdown(sockets)


def http_server(app: ASGIApp, ending: Callable[[], None]) -> HttpServer:
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
    )
