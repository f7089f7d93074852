"""The door: every request comes through here, is counted and bounded, and gets its caller before a route sees it.

``ROUTES`` is the one table of what there is and which scope it takes; the application, the OpenAPI document and the
tests of refusals are made from it, so that no route can be added beside the door.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.server import routes_admin, routes_log, routes_sessions, routes_team
from recollect.server.database import Unavailable
from recollect.server.refusals import Refused, busy, forbidden, not_found, too_many, unauthorized
from recollect.server.service import Ask, Service, answer
from recollect.server.sql import now_ms
from recollect.server.tenancy import ADMIN, DELETE, METRICS, READ, WRITE, Caller
from recollect.sync.wire import ORGANIZATION, REQUEST_ID

Handler = Callable[[Ask], Awaitable[Response]]
_SWEEP_EVERY, GRACE_MS = 3_600.0, 7 * 86_400_000
_log = logging.getLogger("recollect.server")


class Endpoint(NamedTuple):
    """One thing the server does. ``scope`` None: for everybody. ``is_stream``: lasts as long as the reader likes."""

    method: str
    path: str
    handler: Handler
    scope: str | None
    is_stream: bool = False


async def _openapi(ask: Ask) -> Response:
    """GET /openapi.json."""
    from recollect.server.openapi import document

    return answer(document(ask.service.limits))


_LOG, _FILE = "/v1/sessions/{session_id}/log", "/v1/sessions/{session_id}/file"
# The first ones are found first.
ROUTES = (
    Endpoint("PUT", _LOG, routes_log.append, WRITE),
    Endpoint("GET", _LOG, routes_log.read, READ, is_stream=True),
    Endpoint("HEAD", _LOG, routes_log.read, READ),
    Endpoint("GET", "/healthz", routes_admin.health, None),
    Endpoint("GET", "/readyz", routes_admin.ready, None),
    Endpoint("GET", "/openapi.json", _openapi, None),
    Endpoint("GET", "/metrics", routes_admin.metrics, METRICS),
    Endpoint("GET", "/v1/sessions/{session_id}/events", routes_log.follow, READ, is_stream=True),
    Endpoint("GET", "/v1/heads", routes_log.heads, READ),
    Endpoint("GET", "/v1/sessions", routes_sessions.sessions, READ),
    Endpoint("GET", "/v1/sessions/{session_id}", routes_sessions.session, READ),
    Endpoint("PATCH", "/v1/sessions/{session_id}", routes_sessions.describe, WRITE),
    Endpoint("DELETE", "/v1/sessions/{session_id}", routes_sessions.delete, DELETE),
    Endpoint("PUT", _FILE, routes_sessions.put_file, WRITE),
    Endpoint("GET", _FILE, routes_sessions.read_file, READ),
    Endpoint("DELETE", _FILE, routes_sessions.delete_file, DELETE),
    Endpoint("GET", "/v1/cost", routes_team.cost, READ),
    Endpoint("GET", "/v1/search", routes_team.search, READ),
    Endpoint("GET", "/v1/whoami", routes_team.whoami, READ),
    Endpoint("GET", "/v1/org", routes_admin.org, READ),
    Endpoint("PATCH", "/v1/org", routes_admin.change_org, ADMIN),
    Endpoint("GET", "/v1/users", routes_admin.users, ADMIN),
    Endpoint("POST", "/v1/users", routes_admin.add_user, ADMIN),
    Endpoint("PATCH", "/v1/users/{user_id}", routes_admin.change_user, ADMIN),
    Endpoint("GET", "/v1/tokens", routes_admin.tokens, ADMIN),
    Endpoint("POST", "/v1/tokens", routes_admin.add_token, ADMIN),
    Endpoint("DELETE", "/v1/tokens/{token_id}", routes_admin.revoke_token, ADMIN),
    Endpoint("GET", "/v1/audit", routes_admin.audit, ADMIN),
)


def make_app(service: Service, *, is_owner: bool = True) -> ASGIApp:
    """The application. ``is_owner``: opens and closes the database with its own life."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in ROUTES:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.closing.clear()
        if is_owner:
            await service.database.open()
        sweeping = asyncio.create_task(_sweep_forever(service))
        try:
            yield
        finally:
            service.closing.set()
            sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sweeping
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
    return _Entrance(app, service)


def _dispatch(service: Service, by_method: dict[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        endpoint = by_method.get(request.method) or by_method["GET"]
        try:
            ask = Ask(service, request)
            if endpoint.scope is not None:
                ask.admitted(await _admit(service, ask, endpoint.scope))
            if endpoint.method == "PUT" or endpoint.is_stream:
                return await endpoint.handler(ask)  # a body and a reader have limits of their own
            async with asyncio.timeout(service.limits.request_seconds):
                return await endpoint.handler(ask)
        except Refused as refused:
            return refused.response()
        except TimeoutError:
            return busy("the request took too long").response()
        except Unavailable as problem:
            _log.warning("database", extra={"fields": {"problem": str(problem)[:200]}})
            return busy("the database does not answer", 2).response()

    return handle


async def _admit(service: Service, ask: Ask, scope: str) -> Caller:
    """Who asks, if they may: the only way to a caller."""
    address = (ask.request.scope.get("client") or ("",))[0]
    if service.failures.is_empty(address):
        raise too_many(1.0)
    caller = await service.doorkeeper.caller(ask.headers.get("authorization"))
    if caller is None:
        service.metrics.count("refused_tokens")
        service.failures.wait(address)
        raise unauthorized()
    wait = service.rates.wait(caller.token.id)
    if wait:
        raise too_many(wait)
    ask.request.scope["recollect.token"] = caller.token.id
    named = ask.headers.get(ORGANIZATION.lower())
    if named is not None and named.strip().lower() != caller.org.id:
        raise not_found()
    if scope not in caller.scopes:
        raise forbidden(f"the token lacks the scope {scope!a}, or the role does not allow it")
    return caller


async def _http_problem(_: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    headers = getattr(problem, "headers", None)
    if status == 405:
        return Refused(
            405, "method", "the route does not do that", "see /openapi.json", headers=headers
        ).response()
    return not_found().response()


async def _sweep_forever(service: Service) -> None:
    """Retention and purges, an hour after the start and every hour; any server may do it, and none has to."""
    while True:
        await asyncio.sleep(_SWEEP_EVERY)
        try:
            deleted, purged = await service.database.sweep(now_ms(), GRACE_MS)
        except Unavailable:
            continue
        _log.info("sweep", extra={"fields": {"deleted": deleted, "purged": purged}})


class _Entrance:
    """Gives every request an id, counts it, and writes one line about it: never its query, headers or contents."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        metrics = self._service.metrics
        started, status, sent = time.perf_counter(), 500, 0
        request_id = secrets.token_hex(8)
        mark = (REQUEST_ID.lower().encode(), request_id.encode())

        async def marked(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    mark,
                    (b"x-content-type-options", b"nosniff"),
                ]
            elif message["type"] == "http.response.body":
                sent += len(message.get("body", b""))
            await send(message)

        metrics.move("in_flight", 1)
        try:
            await self._app(scope, receive, marked)
        finally:
            metrics.move("in_flight", -1)
            seconds = time.perf_counter() - started
            route = _route_name(scope)
            metrics.request(_method_name(scope["method"]), route, status, seconds)
            if _log.isEnabledFor(logging.INFO):
                _log.info(
                    "request",
                    extra={
                        "fields": {
                            "id": request_id,
                            "method": _method_name(scope["method"]),
                            "route": route,
                            "status": status,
                            "ms": round(seconds * 1000, 2),
                            "bytes": sent,
                            "token": scope.get("recollect.token"),
                        }
                    },
                )


_METHODS = frozenset(("GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"))


def _method_name(method: str) -> str:
    return method if method in _METHODS else "other"


def _route_name(scope: Scope) -> str:
    """The route as it is written in the table: session ids are nobody's business."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "other"


class JsonLines(logging.Formatter):
    """One JSON object a line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """As it is written."""
        fields: dict[str, object] = getattr(record, "fields", {})
        event = (record.getMessage().splitlines() or [""])[0][:200]
        told = {"at": now_ms(), "level": record.levelname.lower(), "event": event, **fields}
        if record.exc_info and record.exc_info[0] is not None:
            # The type and the place alone: a message or a traceback may hold somebody's words.
            told["problem"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])
            told["where"] = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-4:]]
        return msgspec.json.encode(told, enc_hook=str).decode()
