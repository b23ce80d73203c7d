"""Routes of the server: what is asked, and in which status and JSON it is answered."""

import asyncio
import logging
import time
from importlib.resources import files
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
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
from .metrics import Metrics
from .questions import read_question

logger = logging.getLogger(__name__)

PAGE = {"/": "text/html", "/page.js": "text/javascript", "/page.css": "text/css"}
PREDICT, TASKS, HEALTH, METRICS = "/predict", "/tasks", "/health", "/metrics"
PATHS = (PREDICT, TASKS, HEALTH, METRICS, *PAGE)
OWN = "'self'"
ALLOWED = {"default-src": "'none'", "script-src": OWN, "style-src": OWN, "connect-src": OWN}
ALLOWED.update(dict.fromkeys(("base-uri", "form-action", "frame-ancestors"), "'none'"))
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{what} {where}" for what, where in ALLOWED.items()),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
AGAIN = {"Retry-After": "1"}
GONE = 499  # for the counters: whoever asked does not wait any more


def build_app(
    batcher: Batcher, metrics: Metrics, most_bytes: int, most_texts: int, hosts: set[str] | None = None
) -> "Front":
    """The routes, asked of ``batcher``, behind a ``Front``.

    Args:
        most_bytes: of the body of a request.
        most_texts: of a request.
        hosts: names by which the server may be called; None for any.
    """

    async def predict(request: Request) -> Response:
        check_type(request.headers)
        question = read_question(await read_body(request, most_bytes), most_texts)
        asked = batcher.submit(question)
        answer = asyncio.wrap_future(asked)
        gone = asyncio.ensure_future(disconnected(request))
        both: set[Any] = {answer, gone}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not answer.done():
            asked.cancel()  # answer.cancel() would do so once the loop comes to it, when the model may have taken it
            return Response(status_code=GONE)
        return JSONResponse({"predictions": answer.result()})

    async def tasks(request: Request) -> Response:
        return JSONResponse({"tasks": batcher.ready().described()})

    async def health(request: Request) -> Response:
        batcher.ready()
        return JSONResponse({"status": "ready"})

    async def counters(request: Request) -> Response:
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    routes = [Route(PREDICT, predict, methods=["POST"])]
    routes += [Route(TASKS, tasks), Route(HEALTH, health), Route(METRICS, counters)]
    routes += [Route(path, page_file(path, media)) for path, media in PAGE.items()]
    handlers: dict[Any, Any] = {InputError: malformed, ModelFault: faulty, HTTPException: refused, Unavailable: busy}
    handlers.update({ClientDisconnect: gone_away, Exception: failed})
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return Front(app, metrics, hosts)


class Front:
    """Around the routes: counts, adds ``HEADERS``, and refuses requests that call the server by another's name.

    A page of somebody else's can have its own name point to 127.0.0.1, and would then pass for a page of this server.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, hosts: set[str] | None):
        self.app = app
        self.metrics = metrics
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        start, status = time.perf_counter(), 500

        async def noted(event: Message) -> None:
            nonlocal status
            if event["type"] == "http.response.start":
                status = event["status"]
                MutableHeaders(scope=event).update(HEADERS)
            await send(event)

        try:
            await (self.refusal(Headers(scope=scope).get("host", "")) or self.app)(scope, receive, noted)
        finally:
            path = scope["path"] if scope["path"] in PATHS else "other"
            self.metrics.requests.labels(path, status).inc()
            if (path, status) == (PREDICT, 200):
                self.metrics.seconds.observe(time.perf_counter() - start)

    def refusal(self, host: str) -> Response | None:
        """Of a request with this header; None for one that is let in."""
        if self.hosts is None or host_name(host) in self.hosts:
            return None
        return json_error(421, f"this server is not called {host:.60}: give it the name with --allowed-host")


def host_name(host: str) -> str | None:
    """``localhost:8000`` -> ``localhost``; None where it is no such thing."""
    try:
        return URL(f"http://{host}").hostname
    except ValueError:
        return None


def page_file(path: str, media: str) -> Any:
    content = files(__package__).joinpath(path[1:] or "page.html").read_bytes()

    async def page(request: Request) -> Response:
        return Response(content, media_type=media)

    return page


# --- the body of a request -----------------------------------------------------------------------


def check_type(headers: Headers) -> None:
    """Raise HTTPException for another body than JSON, which pages of other sites can send without being asked."""
    given = headers.get("content-type", "none")
    if given.partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, f"Content-Type {given:.60}: give application/json, in UTF-8")


async def read_body(request: Request, most: int) -> bytes:
    """All of it.

    Raises:
        HTTPException: it has more than ``most`` bytes.
    """
    too_long = HTTPException(413, f"the body has more than {most} bytes: give fewer texts at a time")
    if int(request.headers.get("content-length", "0")) > most:
        raise too_long
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise too_long
    return bytes(body)


async def disconnected(request: Request) -> None:
    """End when whoever asked has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


# --- answers that are none -----------------------------------------------------------------------


def json_error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": one_line(message)}, status, headers)


async def malformed(request: Request, error: Exception) -> Response:
    return json_error(400, str(error))


async def faulty(request: Request, error: Exception) -> Response:
    logger.error(one_line(str(error)))
    return await failed(request, error)


async def busy(request: Request, error: Exception) -> Response:
    return json_error(503, f"{error}: ask again", AGAIN)


async def refused(request: Request, error: Exception) -> Response:
    """Also for paths and methods that are not there."""
    assert isinstance(error, HTTPException)
    message = error.detail
    if error.status_code in (404, 405):
        asked = f"{request.method:.20} {request.url.path:.60}"
        message = f"{asked} is not here: ask POST {PREDICT}, or GET {', '.join(PATHS[1:])}"
    return json_error(error.status_code, message, dict(error.headers or {}))


async def gone_away(request: Request, error: Exception) -> Response:
    return Response(status_code=GONE)


async def failed(request: Request, error: Exception) -> Response:
    return json_error(500, "the server failed at this request: its log says how")
