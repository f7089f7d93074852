"""The application: every request is counted, bounded and authenticated here before a route sees it. Only a small append of a
caller who is remembered is made without it (quick_appends.py).

``ROUTES`` is the only table of routes and their scopes. The application, the OpenAPI document and the
tests of refusals are made from it, so no route can bypass these checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from recollect.server.database.contract import BodyLost, BodyUnavailable, Unavailable
from recollect.server.database.sql_base import now_ms
from recollect.server.jobs import is_done
from recollect.server.quick_appends import NOTE, PROBLEM, TOKEN
from recollect.server.refusals import (
    RequestRefused,
    body_lost,
    busy,
    forbidden,
    not_found,
    object_store_down,
    too_many,
    unauthorized,
)
from recollect.server.request_notes import RequestNote, method_name
from recollect.server.routes import admin, people, sign_in, team
from recollect.server.routes import log as routes_log
from recollect.server.routes import sessions as routes_sessions
from recollect.server.service import ServerRequest, Service, answer
from recollect.server.tenancy import (
    ADMIN,
    ANY,
    COST,
    DELETE,
    METRICS,
    READ,
    WRITE,
    Caller,
    RefusedToken,
    for_programs,
    token_prefix,
)
from recollect.server.tracing import RequestSpans
from recollect.services.page.log_lines import problem_of
from recollect.sync.wire import ORGANIZATION

Handler = Callable[[ServerRequest], Awaitable[Response]]
_ORGANIZATION = ORGANIZATION.lower().encode()
_SWEEP_EVERY, GRACE_MS = 3_600.0, 7 * 86_400_000
_log = logging.getLogger("recollect.server")


class Endpoint(NamedTuple):
    """One route. ``scope`` None: no token needed. ``is_stream``: lasts until the reader disconnects."""

    method: str
    path: str
    handler: Handler
    scope: str | None
    is_stream: bool = False


class PageApp(Protocol):
    """A page for members, served beside the routes of this table with its own access checks."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def start(self) -> None:
        """Called on the event loop, before any request."""

    async def tidy(self) -> None:
        """Once an hour: drop copies of what was deleted."""

    def stop(self) -> None:
        """End all open streams."""


async def _openapi(ask: ServerRequest) -> Response:
    from recollect.server.openapi import document

    return answer(document(ask.service.limits))


_LOG, _FILE = routes_log.ROUTE, "/v1/sessions/{session_id}/file"
# Routes are matched in this order, so the busiest come first.
ROUTES = (
    Endpoint("PUT", _LOG, routes_log.append, WRITE),
    Endpoint("GET", _LOG, routes_log.read, READ, is_stream=True),
    Endpoint("HEAD", _LOG, routes_log.read, READ),
    Endpoint("GET", "/healthz", admin.health, None),
    Endpoint("GET", "/readyz", admin.ready, None),
    Endpoint("GET", "/openapi.json", _openapi, None),
    Endpoint("GET", "/v1/sign-in", sign_in.offer, None),
    Endpoint("POST", "/v1/sign-in/device", sign_in.start_device, None),
    Endpoint("POST", "/v1/sign-in/device/token", sign_in.device_token, None),
    Endpoint("POST", "/v1/token/rotate", sign_in.rotate, ANY),
    Endpoint("GET", "/v1/whoami/tokens", sign_in.own_tokens, ANY),
    Endpoint("DELETE", "/v1/whoami/tokens/{token_id}", sign_in.revoke_own, ANY),
    Endpoint("GET", "/metrics", admin.metrics, METRICS),
    Endpoint("GET", "/v1/sessions/{session_id}/events", routes_log.follow, READ, is_stream=True),
    Endpoint("GET", "/v1/heads", routes_log.heads, READ),
    Endpoint("GET", "/v1/sessions", routes_sessions.sessions, READ),
    Endpoint("GET", "/v1/sessions/{session_id}", routes_sessions.session, READ),
    Endpoint("PATCH", "/v1/sessions/{session_id}", routes_sessions.describe, WRITE),
    Endpoint("DELETE", "/v1/sessions/{session_id}", routes_sessions.delete, DELETE),
    Endpoint("PUT", _FILE, routes_sessions.put_file, WRITE),
    Endpoint("GET", _FILE, routes_sessions.read_file, READ),
    Endpoint("DELETE", _FILE, routes_sessions.delete_file, DELETE),
    Endpoint("GET", "/v1/cost", team.cost, COST),
    Endpoint("GET", "/v1/search", team.search, READ),
    Endpoint("GET", "/v1/whoami", team.whoami, COST),
    Endpoint("GET", "/v1/org", admin.org, COST),
    Endpoint("PATCH", "/v1/org", admin.change_org, ADMIN),
    Endpoint("GET", "/v1/users", admin.users, ADMIN),
    Endpoint("POST", "/v1/users", admin.add_user, ADMIN),
    Endpoint("PATCH", "/v1/users/{user_id}", admin.change_user, ADMIN),
    Endpoint("GET", "/v1/users/{user_id}/erasure", people.plan_erasure, ADMIN),
    Endpoint("POST", "/v1/users/{user_id}/erasure", people.erase, ADMIN),
    Endpoint("GET", "/v1/whoami/export", people.export_own, READ, is_stream=True),
    Endpoint("GET", "/v1/teams", admin.teams, ADMIN),
    Endpoint("POST", "/v1/teams", admin.add_team, ADMIN),
    Endpoint("PATCH", "/v1/teams/{team_id}", admin.change_team, ADMIN),
    Endpoint("DELETE", "/v1/teams/{team_id}", admin.remove_team, ADMIN),
    Endpoint("GET", "/v1/tokens", admin.tokens, ADMIN),
    Endpoint("POST", "/v1/tokens", admin.add_token, ADMIN),
    Endpoint("DELETE", "/v1/tokens/{token_id}", admin.revoke_token, ADMIN),
    Endpoint("GET", "/v1/audit", admin.audit, ADMIN),
)


def make_app(service: Service, *, is_owner: bool = True, page: PageApp | None = None) -> ASGIApp:
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
            ask.admitted(await _admit(service, ask, endpoint.scope))
        if endpoint.method == "PUT" or endpoint.is_stream:
            return await endpoint.handler(ask)  # a body and a reader have limits of their own
        async with asyncio.timeout(service.limits.request_seconds):
            return await endpoint.handler(ask)
    except RequestRefused as refused:
        target = f"{ask.scope['method'][:20]} {ask.scope['path']}"
        await service.refused.note(refused, ask.attempt, f"{endpoint.method} {endpoint.path}", target)
        return refused.response()
    except TimeoutError:
        return busy("the request took too long").response()
    except BodyLost as lost:
        _log.error("bodies", extra={"fields": {"problem": str(lost)}})
        return body_lost(lost.name, lost.what).response()
    except BodyUnavailable as problem:
        _log.warning("bodies", extra={"fields": {"problem": str(problem)[:200]}})
        return object_store_down().response()
    except Unavailable as problem:
        _log.warning("database", extra={"fields": {"problem": str(problem)[:200]}})
        return busy("the database is not available", 2).response()


async def _admit(service: Service, ask: ServerRequest, scope: str) -> Caller:
    """Authenticate by the header only, which no browser sends by itself."""
    address = (ask.scope.get("client") or ("",))[0]
    authorization = for_programs(ask.headers.get(b"authorization"))
    # An append that was begun is handed over with its token: it was taken from the rate then.
    caller = await _believed(service, authorization, address, is_counted=TOKEN in ask.scope)
    ask.scope[TOKEN] = caller.token.id
    named = ask.header(_ORGANIZATION)
    if named is not None and named.strip().lower() != caller.org.id:
        raise not_found().attributed(caller.org.id, caller.author)
    return _allowed(caller, scope)


async def admitted(
    service: Service, authorization: str, address: str, scope: str, *, is_fresh: bool = False
) -> Caller:
    """The authenticated caller of a page. ``is_fresh``: without cached tokens."""
    try:
        return _allowed(await _believed(service, authorization, address, is_fresh=is_fresh), scope)
    except RequestRefused as refused:
        await service.refused.note(refused, None, "page", "page")
        raise


async def _believed(
    service: Service, authorization: str, address: str, *, is_fresh: bool = False, is_counted: bool = False
) -> Caller:
    """The only way to a caller that is not remembered: the token is valid and does not exceed its rate. A valid token is
    never held up by refused ones, whatever address they come from. ``is_counted``: this one was taken from the rate."""
    caller: Caller | RefusedToken | None = None if is_fresh else service.doorkeeper.remembered(authorization)
    if caller is None:
        caller = await service.doorkeeper.caller(authorization)
    if isinstance(caller, RefusedToken):
        service.metrics.count("refused_tokens")
        # The same answer for every bad token; one that was valid once is noted where it belongs.
        names = (address, f"{address} {token_prefix(authorization)}")
        wait = max(map(service.failures.wait, names))
        refused = too_many(wait) if wait else unauthorized()
        raise refused if caller.by is None else refused.attributed(*caller.by)
    wait = 0.0 if is_counted else service.rates.wait(caller.token.id)
    if wait:
        raise too_many(wait)
    return caller


def _allowed(caller: Caller, scope: str) -> Caller:
    if not caller.may(scope):
        refused = forbidden(f"the token lacks the scope {scope!a}, or the role does not allow it")
        raise refused.attributed(caller.org.id, caller.author)
    return caller


async def _http_problem(_: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    headers = getattr(problem, "headers", None)
    if status == 405:
        return RequestRefused(
            405, "method", "the route does not support this method", "see /openapi.json", headers=headers
        ).response()
    return not_found().response()


async def _sweep_forever(service: Service, page: PageApp | None) -> None:
    """Retention and purges, every hour. Every server does them: each session has a transaction of its own, and what
    another server removed meanwhile is passed over."""
    while True:
        await asyncio.sleep(_SWEEP_EVERY)
        if not await is_done("sweep", _sweep_once(service, page)):
            service.metrics.count("sweep_failures")


async def _sweep_once(service: Service, page: PageApp | None) -> None:
    started = time.monotonic()
    done = await service.database.sweep(now_ms(), GRACE_MS)
    seconds = time.monotonic() - started
    service.metrics.swept(done, seconds)
    _log.info("sweep", extra={"fields": {**done._asdict(), "seconds": round(seconds, 3)}})
    if page is not None:
        await page.tidy()


class _RequestMiddleware:
    """Gives every request an id, counts it, and logs it.

    Appends are the most frequent requests and are dispatched here: route matching would cost as much
    again as the append.
    """

    def __init__(self, app: ASGIApp, service: Service, page: PageApp | None = None) -> None:
        self._app, self._service, self._page = app, service, page
        self._spans = RequestSpans()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        session = routes_log.appended_to(scope)
        note: RequestNote = scope.get(NOTE) or self._service.notes.begin()
        try:
            if self._spans.is_on:
                method = method_name(scope["method"])
                with self._spans.start(method, scope["headers"]) as span:
                    try:
                        await self._pass_on(scope, receive, send, session, note)
                    finally:
                        route = _route_name(scope) if session is None else _LOG
                        self._spans.end(span, method, route, note.status)
            else:
                await self._pass_on(scope, receive, send, session, note)
        finally:
            if session is None:
                note.route = _route_name(scope)
            self._service.notes.end(note, method_name(scope["method"]), scope.get(TOKEN))

    async def _pass_on(
        self, scope: Scope, receive: Receive, send: Send, session: str | None, note: RequestNote
    ) -> None:
        if session is None:
            app = self._app if self._page is None or _is_ours(scope["path"]) else self._page
            await app(scope, receive, note.marking(send))
            return
        note.route = _LOG
        ask = ServerRequest(self._service, scope, receive, session)
        problem = scope.get(PROBLEM)
        endpoint = _APPEND if problem is None else _failed_append(problem)
        response = await _answered(self._service, endpoint, ask)
        await note.send(response, send)


_APPEND = ROUTES[0]


def _failed_append(problem: BaseException) -> Endpoint:
    """An append of an admitted caller that failed where it was begun."""

    async def fail(_: ServerRequest) -> Response:
        raise problem

    return _APPEND._replace(handler=fail, scope=None)


_OWN_PATHS = frozenset(endpoint.path for endpoint in ROUTES if not endpoint.path.startswith("/v1/"))


def _is_ours(path: str) -> bool:
    """Whether a path belongs to the server and not to the page."""
    return path in _OWN_PATHS or path == "/v1" or path.startswith("/v1/")


def _route_name(scope: Scope) -> str:
    """The route as in the table: session ids are not logged."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "other"


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
