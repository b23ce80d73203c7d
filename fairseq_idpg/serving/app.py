"""Routes of the server, its counters, and the status and JSON of each answer."""

import asyncio
import logging
import time
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import prometheus_client as prometheus
from starlette.applications import Starlette
from starlette.datastructures import URL, Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from preprocess.errors import one_line

from ..errors import InputError, ModelFault
from .batching import Batcher, Unavailable
from .questions import read_question

logger = logging.getLogger(__name__)

PAGE = {"/": "text/html", "/page.js": "text/javascript", "/page.css": "text/css"}
PREDICT, TASKS, HEALTH, METRICS = "/predict", "/tasks", "/health", "/metrics"
PATHS = (PREDICT, TASKS, HEALTH, METRICS, *PAGE)
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
GONE = 499  # for the counters: the client has hung up
SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
TEXTS = tuple(2**power for power in range(13))


class Metrics:
    """Counters of one server, as Prometheus reads them."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self.registry)
        counter, histogram = prometheus.Counter, prometheus.Histogram
        on: Any = {"namespace": "fairseq_idpg", "registry": self.registry}
        self.requests = counter("requests", "requests", ["path", "status"], **on)
        self.seconds = histogram("predict_seconds", "of predictions", buckets=SECONDS, **on)
        self.texts = counter("texts", "texts answered", **on)
        self.together = histogram("together_texts", "texts answered together", buckets=TEXTS, **on)
        self.queue = prometheus.Gauge("queue_texts", "texts that wait", **on)

    def answered(self, texts: int) -> None:
        self.texts.inc(texts)
        self.together.observe(texts)


def build_app(
    batcher: Batcher, metrics: Metrics, most_bytes: int, most_texts: int, hosts: set[str] | None = None
) -> "Front":
    """Return the routes behind a ``Front``, with limits of a request; ``hosts``: the server's names, None for any."""
    metrics.queue.set_function(lambda: batcher.waiting)

    async def predict(request: Request) -> Response:
        submitted = batcher.submit(read_question(await read_body(request, most_bytes), most_texts))
        answer, hang_up = asyncio.wrap_future(submitted), asyncio.ensure_future(disconnected(request))
        # the answer, or the end of the connection, whichever comes first
        both: set[Any] = {answer, hang_up}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        hang_up.cancel()
        if not answer.done():
            submitted.cancel()  # now: answer.cancel() waits for the loop, and the model may take it meanwhile
            return Response(status_code=GONE)
        return JSONResponse({"predictions": answer.result()})

    async def tasks(request: Request) -> Response:
        return JSONResponse({"tasks": batcher.ready().described()})

    async def health(request: Request) -> Response:
        batcher.ready()
        return JSONResponse({"status": "ready"})

    async def counters(request: Request) -> Response:
        media = {"Content-Type": prometheus.CONTENT_TYPE_LATEST}
        return Response(prometheus.generate_latest(metrics.registry), headers=media)

    routes = [Route(PREDICT, predict, methods=["POST"])]
    routes += [Route(TASKS, tasks), Route(HEALTH, health), Route(METRICS, counters)]
    for path, media in PAGE.items():
        content = files(__package__).joinpath(path[1:] or "page.html").read_bytes()
        routes.append(Route(path, Response(content, media_type=media), methods=["GET"]))
    kinds: Any = (InputError, Unavailable, HTTPException, ClientDisconnect, Exception)
    app = Starlette(routes=routes, exception_handlers=dict.fromkeys(kinds, failed))
    app.router.redirect_slashes = False
    return Front(app, metrics, hosts)


@dataclass
class Front:
    """Around the routes: counts, adds ``HEADERS``, and refuses requests that call the server by another name.

    A stranger's page can have its own name point to 127.0.0.1, and would then pass for a page of this server.
    """

    app: ASGIApp
    metrics: Metrics
    hosts: set[str] | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, status, app = time.perf_counter(), 500, self.app
        host = Headers(scope=scope).get("host", "")
        if self.hosts is not None and host_name(host) not in self.hosts:
            app = json_error(421, f"this server is not called {host:.60}: give it the name with --allowed-host")

        async def send_with_headers(event: Message) -> None:
            nonlocal status
            if event["type"] == "http.response.start":
                status = event["status"]
                MutableHeaders(scope=event).update(HEADERS)
            await send(event)

        try:
            await app(scope, receive, send_with_headers)
        finally:
            path = scope["path"] if scope["path"] in PATHS else "other"
            self.metrics.requests.labels(path, status).inc()
            if (path, status) == (PREDICT, 200):
                self.metrics.seconds.observe(time.perf_counter() - start)


def host_name(host: str) -> str | None:
    """``localhost:8000`` -> ``localhost``; None for other text."""
    try:
        return URL(f"http://{host}").hostname
    except ValueError:
        return None


async def read_body(request: Request, most: int) -> bytes:
    """Return the body of a request; raise HTTPException unless it is JSON of at most ``most`` bytes."""
    # Pages of other sites can send other types without this server's consent.
    media = request.headers.get("content-type", "none")
    if media.partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, f"Content-Type {media:.60}: give application/json, in UTF-8")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise HTTPException(413, f"the body has more than {most} bytes: give fewer texts at a time")
    return bytes(body)


async def disconnected(request: Request) -> None:
    """End when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def json_error(status: int, message: str, headers: Any = None) -> Response:
    return JSONResponse({"error": one_line(message)}, status, headers)


async def failed(request: Request, error: Exception) -> Response:
    """Return the answer to a request that failed, also to one for an unknown path or method."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=GONE)
    if isinstance(error, Unavailable):
        return json_error(503, f"{error}: ask again", {"Retry-After": "1"})
    if isinstance(error, HTTPException):
        message = error.detail
        if error.status_code in (404, 405):
            wrong = f"{request.method:.20} {request.url.path:.60}"
            message = f"{wrong} is unknown: ask POST {PREDICT}, or GET {', '.join(PATHS[1:])}"
        return json_error(error.status_code, message, error.headers)
    if isinstance(error, ModelFault):  # starlette logs other exceptions itself
        logger.error(one_line(str(error)))
    elif isinstance(error, InputError):
        return json_error(400, str(error))
    return json_error(500, "the server failed at this request: its log says how")
