"""The application: every request is counted, bounded and authenticated here before a route sees it.

``ROUTES`` is the only table of routes and their scopes. The application, the OpenAPI document and the
tests of refusals are made from it, so no route can bypass these checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.errors import UsageError
from recollect.server.database.records import now_ms
from recollect.server.metrics import RequestLine, RequestSpans
from recollect.server.refusals import (
    PROBLEMS,
    RequestRefused,
    invalid,
    is_done,
    not_found,
    refusal_of,
    too_many,
)
from recollect.server.routes import admin, sessions, team
from recollect.server.service import ServerRequest, Service
from recollect.server.tenancy import (
    ADMIN,
    ANY,
    COST,
    DELETE,
    METRICS,
    READ,
    WRITE,
    Caller,
    for_programs,
    token_prefix,
)
from recollect.share.sync.wire import NDJSON, ORGANIZATION, REQUEST_ID, Problem
from recollect.share.typed_http import Media, TypedRoute, answer, openapi
from recollect.version import __version__
from recollect.web.answers import problem_of

if TYPE_CHECKING:
    from recollect.server.page.routes import MembersApp

_ORGANIZATION, _REQUEST_ID = ORGANIZATION.lower().encode(), REQUEST_ID.lower().encode()
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_METHODS = frozenset(("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"))
# In the scope of a request: the id of the token that was admitted.
_TOKEN = "recollect.token"  # noqa: S105 - a name
_SWEEP_EVERY, GRACE_MS = 3_600.0, 7 * 86_400_000
_log = logging.getLogger("recollect.server")


class Endpoint(TypedRoute):
    """One route. ``scope`` None: no token needed. ``is_stream``: lasts until the reader disconnects."""

    def __init__(
        self,
        method: str,
        path: str,
        run: Callable[..., Awaitable[object]],
        scope: str | None,
        *,
        is_stream: bool = False,
        **more: Any,
    ) -> None:
        if scope is None:
            more["security"] = []
        super().__init__(method, path, run, **more)
        self.scope, self.is_stream = scope, is_stream


async def _openapi(ask: ServerRequest) -> dict[str, Any]:
    """This document."""
    info = {
        "title": "recollect team server",
        "version": __version__,
        "description": "Logs of coding-agent sessions: appended exactly once, returned byte for byte."
        f" A body has at most {ask.service.limits.body_bytes} bytes. See docs/design/server.md.",
    }
    schemes = {"token": {"type": "http", "scheme": "bearer"}}
    return openapi(ROUTES, info, schemes, Problem, security=[{"token": []}])


_READY = {status: {"description": "the answer"} for status in ("200", "503")}
_LINES = Media(NDJSON, {"type": "string", "pattern": "^[^\\n]+\\n$"})
_BYTES = Media("application/octet-stream", {"type": "string", "format": "binary"})
_SESSION, _USER, _TEAM = "/v1/sessions/{session_id}", "/v1/users/{user_id}", "/v1/teams/{team_id}"
ROUTES = (
    Endpoint("PUT", f"{_SESSION}/log", sessions.append, WRITE, takes=_LINES),
    Endpoint("GET", f"{_SESSION}/log", sessions.read, READ, is_stream=True),
    Endpoint("HEAD", f"{_SESSION}/log", sessions.read, READ, operationId="head"),
    Endpoint("GET", "/healthz", admin.health, None),
    Endpoint("GET", "/readyz", admin.ready, None, responses=_READY),
    Endpoint("GET", "/openapi.json", _openapi, None),
    Endpoint("GET", "/v1/sign-in", admin.offer, None),
    Endpoint("POST", "/v1/sign-in/device", admin.start_device, None),
    Endpoint("POST", "/v1/sign-in/device/token", admin.device_token, None, status=201),
    Endpoint("POST", "/v1/token/rotate", admin.rotate, ANY, status=201),
    Endpoint("GET", "/v1/whoami/tokens", admin.own_tokens, ANY),
    Endpoint("DELETE", "/v1/whoami/tokens/{token_id}", admin.revoke_own, ANY),
    Endpoint("GET", "/metrics", admin.metrics, METRICS),
    Endpoint("GET", "/v1/heads", sessions.heads, READ),
    Endpoint("GET", "/v1/sessions", sessions.sessions, READ),
    Endpoint("GET", _SESSION, sessions.session, READ),
    Endpoint("PATCH", _SESSION, sessions.describe, WRITE),
    Endpoint("DELETE", _SESSION, sessions.delete, DELETE),
    Endpoint("PUT", f"{_SESSION}/file", sessions.put_file, WRITE, takes=_BYTES),
    Endpoint("GET", f"{_SESSION}/file", sessions.read_file, READ),
    Endpoint("DELETE", f"{_SESSION}/file", sessions.delete_file, DELETE),
    Endpoint("GET", "/v1/cost", team.cost, COST),
    Endpoint("GET", "/v1/search", team.search, READ),
    Endpoint("GET", "/v1/whoami", admin.whoami, COST),
    Endpoint("GET", "/v1/org", admin.org, COST),
    Endpoint("PATCH", "/v1/org", admin.change_org, ADMIN),
    Endpoint("GET", "/v1/users", admin.users, ADMIN),
    Endpoint("POST", "/v1/users", admin.add_user, ADMIN, status=201),
    Endpoint("PATCH", _USER, admin.change_user, ADMIN),
    Endpoint("GET", f"{_USER}/erasure", admin.plan_erasure, ADMIN),
    Endpoint("POST", f"{_USER}/erasure", admin.erase, ADMIN),
    Endpoint("GET", "/v1/whoami/export", admin.export_own, READ, is_stream=True),
    Endpoint("GET", "/v1/teams", admin.teams, ADMIN),
    Endpoint("POST", "/v1/teams", admin.add_team, ADMIN, status=201),
    Endpoint("PATCH", _TEAM, admin.change_team, ADMIN),
    Endpoint("DELETE", _TEAM, admin.remove_team, ADMIN),
    Endpoint("GET", "/v1/tokens", admin.tokens, ADMIN),
    Endpoint("POST", "/v1/tokens", admin.add_token, ADMIN, status=201),
    Endpoint("DELETE", "/v1/tokens/{token_id}", admin.revoke_token, ADMIN),
    Endpoint("GET", "/v1/audit", admin.audit, ADMIN),
)


# What is the server's, beside /v1; everything else is the page's.
_OWN_PATHS = frozenset(endpoint.path for endpoint in ROUTES if not endpoint.path.startswith("/v1/"))


def make_app(service: Service, *, is_owner: bool = True, page: MembersApp | None = None) -> ASGIApp:
    """The application. ``is_owner``: it opens and closes the database. ``page``: it gets all other paths."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ROUTES:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.closing.clear()
        if is_owner:
            await service.database.open()
        if page is not None:
            page.start()
        jobs = [asyncio.create_task(_sweep_forever(service, page))]
        if service.mover is not None and service.mover.is_working:
            jobs.append(asyncio.create_task(service.mover.run()))
        try:
            yield
        finally:
            service.closing.set()
            if page is not None:
                page.stop()
            for job in jobs:
                job.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await job
            if is_owner:
                await service.database.close()

    routes = [
        Route(path, _dispatch(service, by_method), methods=list(by_method))
        for path, by_method in paths.items()
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_problem},
    )
    app.router.redirect_slashes = False
    return _RequestMiddleware(app, service, page)


def _dispatch(service: Service, by_method: dict[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        endpoint = by_method.get(request.method) or by_method["GET"]
        return await _answered(service, endpoint, ServerRequest(service, request.scope, request.receive))

    return handle


async def _answered(service: Service, endpoint: Endpoint, ask: ServerRequest) -> Response:
    """The answer of a route, or the refusal."""
    try:
        if endpoint.scope is not None:
            ask.admitted = await _admit(service, ask, endpoint.scope)
        if endpoint.method == "PUT" or endpoint.is_stream:
            return await _run(endpoint, ask)  # a body and a reader have limits of their own
        async with asyncio.timeout(service.limits.request_seconds):
            return await _run(endpoint, ask)
    except PROBLEMS as problem:
        refused = refusal_of(problem)
    if refused.by is not None:
        ask.scope[_TOKEN] = refused.by[1].token
    target = f"{ask.scope['method'][:20]} {ask.scope['path']}"
    await service.refused.note(refused, ask.attempt, f"{endpoint.method} {endpoint.path}", target)
    return refused.response()


async def _run(route: TypedRoute, ask: ServerRequest) -> Response:
    """The handler's answer; what it does not take, or does not understand, is refused."""
    body = None if route.body is None else await ask.small_body() or b"null"
    headers = {
        sent: value
        for sent in route.headers.values()
        if (value := ask.header(sent.lower().encode())) is not None
    }
    try:
        query = QueryParams(ask.scope["query_string"]).multi_items()
        arguments = route.arguments(ask.scope["path_params"], query, headers, body)
        return answer(await route.run(ask, **arguments), route.status)
    except UsageError as problem:
        raise invalid(problem.message, problem.hint) from None


async def _admit(service: Service, ask: ServerRequest, scope: str) -> Caller:
    """Authenticate by the header only, which no browser sends by itself."""
    address = (ask.scope.get("client") or ("",))[0]
    authorization = for_programs(ask.headers.get(b"authorization"))
    caller = await admitted(service, authorization, address, scope)
    ask.scope[_TOKEN] = caller.token.id
    named = ask.header(_ORGANIZATION)
    if named is not None and named.strip().lower() != caller.org.id:
        raise not_found().attributed(caller.org.id, caller.author)
    return caller


async def admitted(service: Service, authorization: str, address: str, scope: str) -> Caller:
    """The only way to a caller: the token is valid, does not exceed its rate and has the scope. A valid token is never held up
    by refused ones, whatever address they come from."""
    caller, is_admitted = await service.doorkeeper.caller(authorization)
    if caller is None or not is_admitted:
        service.metrics.count("refused_tokens")
        # The same answer for every bad token; one that was valid once is noted where it belongs.
        names = (address, f"{address} {token_prefix(authorization)}")
        wait = max(map(service.failures.wait, names))
        refused = too_many(wait) if wait else RequestRefused("unauthorized", "a valid token is needed")
        raise refused if caller is None else refused.attributed(caller.org.id, caller.author)
    wait = service.rates.wait(caller.token.id)
    if wait:
        raise too_many(wait)
    if not caller.may(scope):
        message = f"the token lacks the scope {scope!a}, or the role does not allow it"
        raise RequestRefused("forbidden", message).attributed(caller.org.id, caller.author)
    return caller


async def _http_problem(_: Request, problem: Exception) -> Response:
    if getattr(problem, "status_code", 500) != 405:
        return not_found().response()
    refused = RequestRefused("method", "the route does not support this method")
    refused.headers |= getattr(problem, "headers", None) or {}
    return refused.response()


async def _sweep_forever(service: Service, page: MembersApp | None) -> None:
    """Retention and purges, every hour. Every server does them: each session has a transaction of its own, and what
    another server removed meanwhile is passed over."""
    while True:
        await asyncio.sleep(_SWEEP_EVERY)
        if not await is_done("sweep", _sweep_once(service, page)):
            service.metrics.count("sweep_failures")


async def _sweep_once(service: Service, page: MembersApp | None) -> None:
    started = time.monotonic()
    done = await service.database.sweep(now_ms(), GRACE_MS)
    seconds = time.monotonic() - started
    service.metrics.swept(done, seconds)
    _log.info("sweep", extra={"fields": {**done._asdict(), "seconds": round(seconds, 3)}})
    if page is not None:
        await page.tidy()


class _RequestMiddleware:
    """Gives every request an id, counts it, and logs it."""

    def __init__(self, app: ASGIApp, service: Service, page: MembersApp | None = None) -> None:
        self._app, self._service, self._page = app, service, page
        self._spans = RequestSpans()
        # Ids of this process: a random prefix and a number.
        self._word, self._numbers = secrets.token_hex(4), itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        line = RequestLine(
            f"{self._word}{next(self._numbers):08x}",
            scope["method"] if scope["method"] in _METHODS else "other",
        )

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                line.status = message["status"]
                own = [header for header in message.get("headers", ()) if header != _NO_SNIFFING]
                message["headers"] = [*own, (_REQUEST_ID, line.id.encode()), _NO_SNIFFING]
            elif message["type"] == "http.response.body":
                line.bytes += len(message.get("body", b""))
            await send(message)

        path = scope["path"]
        is_ours = path in _OWN_PATHS or path == "/v1" or path.startswith("/v1/")
        app = self._app if self._page is None or is_ours else self._page
        metrics, started = self._service.metrics, time.perf_counter()
        metrics.move("in_flight", 1)
        try:
            with self._spans.start(line.method, scope["headers"]) as span:
                try:
                    await app(scope, receive, send_marked)
                finally:
                    # As in the table: session ids are not logged.
                    line.route = getattr(scope.get("route"), "path", "other")
                    self._spans.end(span, line.method, line.route, line.status)
        finally:
            seconds = time.perf_counter() - started
            metrics.move("in_flight", -1)
            metrics.request(line.method, line.route, line.status, seconds)
            if self._service.request_log is not None:
                line.ms, line.token = int(seconds * 100_000) / 100, scope.get(_TOKEN)
                self._service.request_log.add(line)


class JsonLineFormatter(logging.Formatter):
    """One JSON object a line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = getattr(record, "fields", {})
        event = (record.getMessage().splitlines() or [""])[0][:200]
        line = {"at": now_ms(), "level": record.levelname.lower(), "event": event, **fields}
        problem = problem_of(record.exc_info)
        if problem is not None:
            line["problem"], line["where"] = problem
        return msgspec.json.encode(line, enc_hook=str).decode()
