"""The application: all routes, the built page, and the gate around both.

Documents are made in threads, a bounded number at a time, and even fewer searches. An internal error is
answered without paths or texts; every other error is described.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from inspect import isasyncgenfunction
from types import FrameType
from typing import Annotated, Any, get_origin

import anyio
import anyio.to_thread
import uvicorn
from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from recollect.errors import Busy, RecollectError, UsageError
from recollect.share.typed_http import Media, Schema, TypedRoute, answer, as_written, openapi
from recollect.web import actions, answers, events, lists, messages, search, session
from recollect.web.answers import BuiltFiles, ErrorDocument, StreamSlots, log_in_single_lines
from recollect.web.desk import PageBackend
from recollect.web.events import MOST_STREAMS
from recollect.web.gate import LOGIN, TOKEN_NAME, LaunchKeys, PageGate, cookie_name
from recollect.web.page import ExportFormat, Page
from recollect.web.parameters import Short

ROUTES = tuple(
    route for handlers in (lists, search, session, messages, actions, events) for route in handlers.routes
)
JSON = "application/json"
_LARGEST_BODY = 64 << 10
_BODY_SECONDS = 10.0
_THREADS = 6
_SEARCHES = 2
_MOST_WAITING = 64
_REMEMBERED_SECONDS = 180 * 86_400


class LoginDocument(Struct, frozen=True):
    """The token that every change must be sent with."""

    token: str


def described(
    routes: Iterable[TypedRoute],
    version: str,
    *,
    title: str = "recollect, the local page",
    cookie: str = "recollect_PORT",
) -> Schema:
    """The description of a page in OpenAPI."""
    security = {
        "cookie": {"type": "apiKey", "in": "cookie", "name": cookie},
        "token": {"type": "apiKey", "in": "header", "name": "X-Recollect-Token"},
    }
    return openapi(routes, {"title": title, "version": version}, security, ErrorDocument, as_written)


def document_of(route: TypedRoute) -> Any:
    """The type of the JSON document that a route answers with; None for a file or a stream."""
    if get_origin(route.answer) is not Annotated:
        return route.answer
    return next((one.kind for one in route.answer.__metadata__ if one.type == JSON), None)


class RouteRunner:
    """Runs routes on a page, a bounded number at a time; one for all pages of a server."""

    def __init__(
        self,
        threads: int = _THREADS,
        searches: int = _SEARCHES,
        streams: StreamSlots | None = None,
    ) -> None:
        self._threads = anyio.CapacityLimiter(threads)
        self._searches = anyio.CapacityLimiter(searches)
        self._streams = streams or StreamSlots(MOST_STREAMS, MOST_STREAMS)

    async def answered(self, page: Page, route: TypedRoute, request: Request) -> Response:
        arguments = await arguments_of(route, request)
        if isasyncgenfunction(route.run):
            if "session" in arguments:
                # While a status can still be sent: a stream can only stay empty.
                await anyio.to_thread.run_sync(
                    page.backend.reading, arguments["session"], limiter=self._threads
                )
            give_back = None
            if not self._streams.is_full():
                give_back = self._streams.taken(request.scope.get(TOKEN_NAME, ""))
            if give_back is None:
                return answers.refusal(503, "too many streams at once", "close other tabs of this page")
            return answers.EventResponse(route.run(page, **arguments), give_back)
        limiter = self._searches if route.path == "/api/search" else self._threads
        if limiter.statistics().tasks_waiting >= _MOST_WAITING:
            return answers.refusal(503, "too many requests at once", "wait a moment and try again")
        return await anyio.to_thread.run_sync(_response, page, route, arguments, limiter=limiter)


class ServedPage:
    """A page that can be served: the application, the secrets of its launch, and its end."""

    def __init__(
        self,
        backend: PageBackend,
        port: int,
        version: str,
        exports: Mapping[str, ExportFormat],
        built: BuiltFiles,
        *,
        cookie: str | None = None,
    ) -> None:
        self.keys, self.port = LaunchKeys(cookie), port
        self.page = Page(backend, self.keys.token, version, exports)
        self.page.is_remembered = cookie is not None
        self._built = built
        self._runner = RouteRunner()
        self.app = PageGate(self._application(), self.keys, port)

    @property
    def address(self) -> str:
        """The address to open; the key is in the fragment, which browsers never send."""
        return f"http://127.0.0.1:{self.port}/#key={self.keys.key}"

    def stop(self) -> None:
        """End streams and background work."""
        self.page.stopping.set()

    def _application(self) -> Starlette:
        routes = [Route(route.path, self._endpoint(route), methods=[route.method]) for route in ROUTES]
        routes += [
            Route(route.path, self._open_endpoint(route), methods=[route.method]) for route in OPEN_ROUTES
        ]
        routes.append(Route("/{path:path}", self._file, methods=["GET"]))
        return Starlette(routes=routes, exception_handlers=PROBLEMS, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """While it is served; the index is brought up to date before the first request."""
        self.page.backend.index.refresh()
        yield
        self.stop()

    # ---- endpoints ---------------------------------------------------------------------------------------

    def _endpoint(self, route: TypedRoute) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return await self._runner.answered(self.page, route, request)

        return endpoint

    def _open_endpoint(self, route: TypedRoute) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return answer(route.run(self, **await arguments_of(route, request)))

        return endpoint

    async def _file(self, request: Request) -> Response:
        return built_file(self._built, request.path_params["path"])


def login(served: ServedPage, key: Short) -> Annotated[Response, Media(JSON, LoginDocument)]:
    """Exchange the key of the address for a cookie, once."""
    cookie = served.keys.exchanged(key)
    if cookie is None:
        return answers.refusal(
            403,
            "this key is not valid, or was used before",
            "end `recollect web` and start it again for a new one",
        )
    response = answer(LoginDocument(served.keys.token))
    response.set_cookie(
        cookie_name(served.port),
        cookie,
        max_age=_REMEMBERED_SECONDS if served.page.is_remembered else None,
        path="/",
        httponly=True,
        samesite="strict",
    )
    return response


def description(served: ServedPage) -> dict[str, Any]:
    """This description."""
    return described([*OPEN_ROUTES, *ROUTES], served.page.version)


OPEN_ROUTES = (
    TypedRoute("POST", LOGIN, login, in_body=True, security=[]),
    TypedRoute("GET", "/openapi.json", description, security=[]),
)


def built_file(built: BuiltFiles, path: str) -> Response:
    """A file of the built page; a route inside the page is the page itself."""
    found = None if path == "api" or path.startswith("api/") else built.found(path)
    if found is None:
        raise HTTPException(404)
    return Response(found.data, media_type=found.media_type, headers={"Cache-Control": found.caching})


def _response(page: Page, route: TypedRoute, arguments: Mapping[str, Any]) -> Response:
    """The answer, encoded in the same thread: a large one must not block the others."""
    try:
        return answer(route.run(page, **arguments))
    finally:
        if route.method == "POST":
            page.backend.changed()


async def arguments_of(route: TypedRoute, request: Request) -> dict[str, Any]:
    """What a handler is called with; the body within limits."""
    body = await _body_of(request) if route.method == "POST" else None
    return route.arguments(request.path_params, request.query_params.multi_items(), request.headers, body)


async def _body_of(request: Request) -> bytes:
    data = b""
    try:
        with anyio.fail_after(_BODY_SECONDS):
            async for piece in request.stream():
                data += piece
                if len(data) > _LARGEST_BODY:
                    raise HTTPException(413)
    except TimeoutError:
        raise HTTPException(408) from None
    except ClientDisconnect:  # no one will read the answer
        raise HTTPException(400) from None
    return data


# ---- errors ----------------------------------------------------------------------------------------------

_WORDS = {
    404: ("not found", "/openapi.json lists all addresses"),
    405: ("this method is not allowed here", "/openapi.json lists the methods"),
    408: ("the body came too slowly", "send it again"),
    413: ("the body is too large", "64 KiB is the limit"),
}


async def _failed(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, RecollectError)  # noqa: S101 - what it was registered for
    return answers.failure(problem)


async def _refused(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)  # noqa: S101 - what it was registered for
    error, hint = _WORDS.get(problem.status_code, ("refused", "/openapi.json describes valid requests"))
    return answers.refusal(problem.status_code, error, hint)


async def _broken(_: Request, problem: Exception) -> Response:
    if isinstance(problem, OSError):
        return answers.refusal(
            507, f"file system error: {problem.strerror}", "check the disk and its permissions"
        )
    return answers.refusal(500, "internal error in recollect", "see its terminal; please report it")


PROBLEMS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    RecollectError: _failed,
    HTTPException: _refused,
    Exception: _broken,
}


LOOPBACK = "127.0.0.1"
HEADER_SECONDS = 10.0


def bound(port: int = 0) -> socket.socket:
    """A loopback socket on the given port, or on a free one."""
    if port and not 1 <= port <= 65_535:
        raise UsageError(f"port {port}: not a valid port", hint="give 1 to 65535, or leave it out")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as cause:
        listening.close()
        hint = "leave out --port for a free one"
        raise Busy(f"port {port} of {LOOPBACK}: {cause.strerror or cause}", hint=hint) from cause
    listening.listen(128)
    return listening


class TimedProtocol(H11Protocol):
    """Closes a connection on which no request is open for ten seconds, though something of one may have come.

    Otherwise other programs of this machine could hold connections open without end.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        else:
            self._start_timer()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class PageServer(uvicorn.Server):
    """Ends its streams at once on exit, so that shutdown does not wait for a browser."""

    def __init__(self, served: ServedPage) -> None:
        super().__init__(
            uvicorn.Config(
                served.app,
                log_config=None,
                http=TimedProtocol,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                lifespan="on",
                timeout_graceful_shutdown=3,
            )
        )
        self._served = served

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._served.stop()
        super().handle_exit(sig, frame)


def serve(served: ServedPage, listening: socket.socket) -> None:
    log_in_single_lines("uvicorn.error")
    server = PageServer(served)
    try:
        server.run(sockets=[listening])
    finally:
        served.stop()
        listening.close()
