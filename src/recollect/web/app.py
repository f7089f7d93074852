"""The application: the routes of the table, the built page, and the gate around both.

Documents are made in threads, a bounded number at a time, and even fewer searches. An internal error is
answered without paths or texts; every other error is described.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cache, partial
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from recollect.errors import RecollectError, UsageError
from recollect.services.documents.encoding import encoded
from recollect.services.documents.page import LoginDocument
from recollect.services.page.desk import PageBackend
from recollect.services.page.stream_slots import StreamSlots
from recollect.web import answers
from recollect.web.built_files import BuiltFiles
from recollect.web.events import MOST_STREAMS
from recollect.web.gate import LOGIN, TOKEN_NAME, LaunchKeys, PageGate, cookie_name
from recollect.web.operations import Operation, from_body, from_query, openapi, text
from recollect.web.page import ExportFormat, Page
from recollect.web.routes import OPERATIONS

_LARGEST_BODY = 64 << 10
_BODY_SECONDS = 10.0
_THREADS = 6
_SEARCHES = 2
_MOST_WAITING = 64
_REMEMBERED_SECONDS = 180 * 86_400

_PageEndpoint = Callable[[Request], Awaitable[Response]]


def _login() -> None:
    """Placeholder in the OpenAPI document for a route that the gate answers."""


def _description() -> None:
    """Placeholder in the OpenAPI document for the document itself."""


OPEN_OPERATIONS = (
    Operation(
        "POST",
        LOGIN,
        "Exchange the key of the address for a cookie, once",
        _login,
        answers=LoginDocument,
        body=(text("key", 200, is_required=True),),
        is_open=True,
    ),
    Operation("GET", "/openapi.json", "This description", _description, answers=dict[str, Any], is_open=True),
)


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

    async def answered(self, page: Page, one: Operation, request: Request) -> Response:
        values = dict(request.path_params)
        values |= from_query(request.query_params.multi_items(), one.query)
        if one.method == "POST":
            values |= from_body(await body_of(request), one.body)
        if one.streams:
            if "session" in values:
                # While a status can still be sent: a stream can only stay empty.
                await anyio.to_thread.run_sync(page.backend.reading, values["session"], limiter=self._threads)
            return self._stream(page, one, values, request.scope.get(TOKEN_NAME, ""))
        limiter = self._searches if one.run is Page.search else self._threads
        if limiter.statistics().tasks_waiting >= _MOST_WAITING:
            return answers.refusal(503, "too many requests at once", "wait a moment and try again")
        made = await anyio.to_thread.run_sync(lambda: _made(page, one, values), limiter=limiter)
        return made if isinstance(made, Response) else Response(made, media_type="application/json")

    def _stream(self, page: Page, one: Operation, values: dict[str, object], token: str) -> Response:
        give_back = None if self._streams.is_full() else self._streams.taken(token)
        if give_back is None:
            return answers.refusal(503, "too many streams at once", "close other tabs of this page")
        return answers.EventResponse(one.run(page, values), give_back)


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
        self.keys, self._port = LaunchKeys(cookie), port
        self.page = Page(backend, self.keys.token, version, exports)
        self.page.is_remembered = cookie is not None
        self._built = built
        self._answering = RouteRunner()
        # Made when it is asked for: that takes longer than the rest of the start.
        self._description = cache(partial(openapi, (*OPEN_OPERATIONS, *OPERATIONS), version))
        self.app = PageGate(self._application(), self.keys, port)

    @property
    def address(self) -> str:
        """The address to open; the key is in the fragment, which browsers never send."""
        return f"http://127.0.0.1:{self._port}/#key={self.keys.key}"

    def stop(self) -> None:
        """End streams and background work."""
        self.page.stopping.set()

    def _application(self) -> Starlette:
        routes = [Route(one.path, self._endpoint(one), methods=[one.method]) for one in OPERATIONS]
        routes += [
            Route(LOGIN, self._logged_in, methods=["POST"]),
            Route("/openapi.json", self._described, methods=["GET"]),
            Route("/{path:path}", self._file, methods=["GET"]),
        ]
        return Starlette(routes=routes, exception_handlers=PROBLEMS, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """While it is served, keep the index fresh; prepare the list before the first request."""
        threading.Thread(target=self.page.look_ahead, name="recollect-look", daemon=True).start()
        yield
        self.stop()

    # ---- endpoints ---------------------------------------------------------------------------------------

    def _endpoint(self, one: Operation) -> _PageEndpoint:
        async def endpoint(request: Request) -> Response:
            return await self._answering.answered(self.page, one, request)

        return endpoint

    async def _logged_in(self, request: Request) -> Response:
        values = from_body(await body_of(request), OPEN_OPERATIONS[0].body)
        cookie = self.keys.exchanged(values["key"])
        if cookie is None:
            return answers.refusal(
                403,
                "this key is not valid, or was used before",
                "end `recollect web` and start it again for a new one",
            )
        response = answers.answer(LoginDocument(self.keys.token))
        response.set_cookie(
            cookie_name(self._port),
            cookie,
            max_age=_REMEMBERED_SECONDS if self.page.is_remembered else None,
            path="/",
            httponly=True,
            samesite="strict",
        )
        return response

    async def _described(self, _: Request) -> Response:
        return answers.answer(self._description())

    async def _file(self, request: Request) -> Response:
        return built_file(self._built, request.path_params["path"])


def built_file(built: BuiltFiles, path: str) -> Response:
    """A file of the built page; a route inside the page is the page itself."""
    found = None if path == "api" or path.startswith("api/") else built.found(path)
    if found is None:
        raise HTTPException(404)
    return Response(found.data, media_type=found.media_type, headers={"Cache-Control": found.caching})


def _made(page: Page, one: Operation, values: dict[str, object]) -> Response | bytes:
    """The answer, encoded in the same thread: a large one must not block the others."""
    try:
        document = one.run(page, values)
    finally:
        if one.method == "POST":
            page.backend.changed()
    return document if isinstance(document, Response) else encoded(document)


async def body_of(request: Request) -> dict[str, object]:
    """The JSON object in the body, within limits."""
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
    try:
        return msgspec.json.decode(data or b"{}", type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError("the body is not a JSON object", hint="send an object, as in {}") from problem


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
