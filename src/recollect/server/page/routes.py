"""The page for members of a team: the same page and routes, read-only, authenticated by the server.

Each member has a page of their own, because the server decides what each may see (``server/page/members.py``).

A member signs in with a token, or at the organisation's identity provider. The browser gets a session of its own, in a
cookie that scripts cannot read, that other sites' requests do not carry, and that is sent only below /api/. It is
checked again with every request and every few seconds of a stream, and determines the organisation: no route takes its
name. Only a sign-in that is under way has a cookie that comes back from another site.

Host, Origin and Sec-Fetch-Site are compared with the public address. A link from elsewhere may open the
page itself, which holds no data.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from functools import partial
from hashlib import sha256
from html import escape
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec import Meta, Struct
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from recollect.ask.resume import Resumption
from recollect.errors import RecollectError, UsageError
from recollect.model.cost.report import CostReport
from recollect.model.lines.json_text import encode_json
from recollect.server.database.records import Unavailable
from recollect.server.page import access
from recollect.server.page.listing import TeamSessions
from recollect.server.page.members import MirrorBackend, MirrorBackends, resume_command, resume_line
from recollect.server.page.reports import cost_report, search_document
from recollect.server.refusals import RequestRefused
from recollect.server.service import Service
from recollect.server.tenancy import PAGE_SCHEME, Caller
from recollect.share.sync.wire import SignInOffer, ends_soon
from recollect.share.typed_http import Media, TypedRoute, answer
from recollect.web import answers, lists
from recollect.web import search as local_search
from recollect.web import session as local_session
from recollect.web.answers import BuiltFiles, ErrorDocument, StreamSlots
from recollect.web.app import (
    JSON,
    PROBLEMS,
    ROUTES,
    LoginDocument,
    RouteRunner,
    arguments_of,
    built_file,
    described,
)
from recollect.web.gate import (
    LOGIN,
    TOKEN_HEADER,
    TOKEN_NAME,
    AsgiScope,
    Receive,
    RequestHeaders,
    Send,
    fetch_site,
    guarded,
    method_refusal,
)
from recollect.web.lists import IndexProgress, MeDocument, MemberDocument
from recollect.web.page import ExportFormat, Page
from recollect.web.parameters import CostQuery, Name, SearchQuery
from recollect.web.search import PageSearchDocument
from recollect.web.session import SessionHead

LOGOUT, DESCRIPTION, OFFER = "/api/logout", "/api/openapi.json", "/api/sign-in"
# Outside of /api: a browser comes here by links and from the identity provider.
START, CALLBACK = "/oidc/start", "/oidc/callback"
_OPEN = frozenset(
    ((LOGIN, "POST"), (DESCRIPTION, "GET"), (DESCRIPTION, "HEAD"), (OFFER, "GET"), (OFFER, "HEAD"))
)
_PENDING_SECONDS = 600
# Other routes change something or concern one person's machine, or would need every transcript.
_OF_ONE_MACHINE = frozenset(("/api/health", "/api/marks", "/api/directories"))
_OF_TRANSCRIPTS = frozenset(("/api/stats", "/api/stats/sessions", "/api/edits"))
_POSTED = frozenset(("/api/sessions/{session}/export", "/api/index/refresh"))
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MEMBER, _SECRET = "recollect.member", "recollect.secret"
_MOST_PAGES, _MOST_MEMBERS = 128, 4_096
_THREADS, _SEARCHES = 12, 4
_STREAMS, _STREAMS_EACH = 256, 16
_ASK_AGAIN_SECONDS = 5.0
_LONGEST_SECRET = 200
# A database that does not answer: how long a member is still one, and for how long it is not asked again.
_NO_ANSWER, _GRACE_SECONDS, _SILENT_SECONDS = 503, 900.0, 5.0


class PublicAddress(NamedTuple):
    """The public address of the page."""

    origin: str
    hosts: frozenset[str]
    cookie: str
    is_secure: bool
    # Of a sign-in that is under way. A name with __Host- cannot be set from another host.
    pending: str = ""


def address_of(url: str) -> PublicAddress:
    """The public address; refused where tokens would be sent unencrypted."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    if (
        parts.scheme not in ("http", "https")
        or not host
        or parts.path.strip("/")
        or parts.query
        or parts.username
    ):
        raise UsageError(
            f"page {url[:80]!a}: not a valid page address", hint="write https://recollect.example.org"
        )
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise UsageError(
            f"page {url[:80]!a}: tokens would be sent unencrypted",
            hint="give its https:// address",
        )
    is_secure = parts.scheme == "https"
    usual = 443 if is_secure else 80
    name = f"[{host}]" if ":" in host else host
    port = port or usual
    hosts = {f"{name}:{port}"} | ({name} if port == usual else set())
    origin = f"{parts.scheme}://{name if port == usual else f'{name}:{port}'}"
    # A browser accepts a cookie of that name only over https. Cookies ignore ports, so the name has the port.
    cookie = "__Secure-recollect" if is_secure else f"recollect_team_{port}"
    pending = "__Host-recollect-sign-in" if is_secure else f"recollect_sign_in_{port}"
    return PublicAddress(origin, frozenset(hosts), cookie, is_secure, pending)


class MemberPage(Page):
    """The page of one member, without information about the server's machine."""

    backend: MirrorBackend
    listed: TeamSessions

    def __init__(
        self, backend: MirrorBackend, version: str, exports: Mapping[str, ExportFormat], origin: str
    ) -> None:
        super().__init__(backend, "", version, exports)
        self.backend, self.listed = backend, TeamSessions(backend)
        self.origin = origin

    def about(self, member: Caller, token: str, token_end: int | None) -> MeDocument:
        """Token, version and rights, for the page's first request."""
        team = self.backend.team
        listed = team.listed()
        about = MemberDocument(
            name=member.user.name,
            role=member.user.role,
            organization=member.org.name,
            sealed=listed.sealed,
            left_out=listed.left_out + len(self.backend.mirror.left_out),
            not_current_since=team.not_current_since,
            ends=member.token.expires,
            token_ends=token_end,
        )
        return replace(lists.me(self), token=token, homes=[], is_read_only=True, member=about)


# ---- handlers of its own ---------------------------------------------------------------------------------


def search_sessions(page: MemberPage, query: SearchQuery) -> PageSearchDocument:
    """Matching messages, by session. The server's own search; of one session that of its copy."""
    if query.session:
        page.backend.session(query.session)
        return local_search.search_sessions(page, query)
    among = page.listed.ids(replace(query, since=None, until=None))
    return search_document(page.backend.team, query, among, partial(resume_line, page.origin))


def cost(page: MemberPage, query: CostQuery) -> CostReport:
    """What `recollect team cost` reports."""
    return cost_report(page.backend.team, query)


def head(page: MemberPage, session: Name) -> SessionHead:
    """The summary of a session, with its owner; what it cost is what the server says."""
    listed = page.backend.team.listed()
    document = local_session.head(page, session)
    remote = listed.sessions.get(document.id)
    damaged = len(page.backend.reading(document.id).log.damage())
    return replace(document, person=None if remote is None else remote.person, damaged=damaged)


def refresh_index(page: MemberPage) -> IndexProgress:
    """Read the list again."""
    page.backend.team.forget()
    return IndexProgress.of(page.backend.index)


def resume(page: MemberPage, session: Name) -> Resumption:
    """How to continue it on the member's machine; nothing is looked up on this one."""
    opened = page.backend.reading(session)
    argv = resume_command(page.origin, opened.id)
    line = shlex.join(argv)
    return Resumption(opened.id, opened.title, opened.cwd, True, argv, line=line)


class SignedOutDocument(Struct, frozen=True):
    """The session has ended, and its cookie was removed."""

    signed_out: bool


Secret = Annotated[str, Meta(max_length=_LONGEST_SECRET)]


async def sign_in(request: Request, token: Secret) -> Annotated[Response, Media(JSON, LoginDocument)]:
    """Exchange a token that may read for a session."""
    app = _app(request)
    secret = await access.open_session(app.service, token.strip(), _client(request.scope))
    response = answer(LoginDocument(form_token(secret)))
    app.set_cookie(response, secret)
    return response


async def sign_in_offer(request: Request) -> SignInOffer:
    """Whether there is an identity provider to sign in with."""
    return _app(request).service.offer()


async def sign_out(request: Request) -> Annotated[Response, Media(JSON, SignedOutDocument)]:
    """End the session."""
    app, member = _app(request), request.scope[_MEMBER]
    app.forget(request.scope[_SECRET])
    with contextlib.suppress(Unavailable):
        await app.service.database.revoke_token(member.org.id, member.token.id, member.author)
    response = answer(SignedOutDocument(signed_out=True))
    app.set_cookie(response, "", max_age=0)
    return response


def _app(request: Request) -> MembersApp:
    app: MembersApp = request.app.state.members
    return app


async def description(request: Request) -> dict[str, Any]:
    """This description."""
    app = _app(request)
    title, cookie = "recollect, the page for members", app.address.cookie
    return described((*OWN_ROUTES, *OFFERED), app.version, title=title, cookie=cookie)


OWN_ROUTES = (
    TypedRoute("POST", LOGIN, sign_in, in_body=True, security=[]),
    TypedRoute("GET", OFFER, sign_in_offer, security=[]),
    TypedRoute("POST", LOGOUT, sign_out, security=[{"cookie": [], "token": []}]),
    TypedRoute("GET", DESCRIPTION, description, security=[]),
)
_OWN = {run.__name__: run for run in (search_sessions, cost, head, refresh_index, resume)}


def _is_offered(route: TypedRoute) -> bool:
    is_read = route.method == "GET" and route.path not in _OF_ONE_MACHINE | _OF_TRANSCRIPTS
    return is_read or route.path in _POSTED


OFFERED = tuple(
    TypedRoute(
        route.method,
        route.path,
        _OWN.get(route.run.__name__, route.run),
        in_body=bool(route.members),
        **route.more,
    )
    for route in filter(_is_offered, ROUTES)
)
REFUSED = tuple(route for route in ROUTES if not _is_offered(route))


class MembersApp:
    """An ASGI application: the page of a team server."""

    def __init__(
        self,
        service: Service,
        backends: MirrorBackends,
        address: PublicAddress,
        *,
        version: str,
        exports: Mapping[str, ExportFormat],
        built: BuiltFiles,
    ) -> None:
        self.service, self._backends, self.address = service, backends, address
        self.version, self._exports, self._built = version, exports, built
        self._lock = threading.Lock()
        # By organisation, member, and the retention it was made for.
        self._pages: OrderedDict[tuple[str, str, int | None], MemberPage] = OrderedDict()
        # Who was admitted, and when; by a hash of the cookie.
        self._members: OrderedDict[str, tuple[float, Caller]] = OrderedDict()
        self._silent_until = 0.0
        self._answering = RouteRunner(_THREADS, _SEARCHES, StreamSlots(_STREAMS, _STREAMS_EACH))
        self._stopping = threading.Event()
        self._app = self._application()

    def start(self) -> None:
        """Remember the event loop; called on it."""
        self.service.loop = asyncio.get_running_loop()

    async def tidy(self) -> None:
        """Drop copies of deleted sessions."""
        await anyio.to_thread.run_sync(self._backends.tidy)

    def stop(self) -> None:
        """End streams and background work."""
        self._stopping.set()
        self._backends.stop()

    # ---- the gate ----------------------------------------------------------------------------------------

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refused = self._refusal(scope)
        if refused is None:
            try:
                refused = await self._stranger(scope)
            except RequestRefused as denied:
                refused = await _sign_in_first(Request(scope), denied)
        await (refused or self._app)(scope, receive, guarded(send))

    def _refusal(self, scope: AsgiScope) -> Response | None:
        """Refuse requests that do not come from the page itself."""
        headers, method = RequestHeaders(scope["headers"]), scope["method"]
        is_page = method in ("GET", "HEAD") and not _is_below_api(scope["path"])
        is_link = is_page and headers.only(b"sec-fetch-mode") == "navigate"
        problem: tuple[int, str, str] | None
        if headers.only(b"host").lower() not in self.address.hosts:
            problem = 421, "this host name is not served here", f"open {self.address.origin}"
        elif headers.count(b"origin") and headers.only(b"origin") != self.address.origin:
            problem = 403, "the request comes from another page", f"open {self.address.origin}"
        else:
            problem = None if is_link else fetch_site(headers, method)
            problem = problem or method_refusal(method) or _content_type(headers, method)
        return None if problem is None else answers.refusal(*problem)

    async def _stranger(self, scope: AsgiScope) -> Response | None:
        """Refuse requests without a valid member; the member is added to the scope."""
        method, path = scope["method"], scope["path"]
        if not _is_below_api(path) or (path, method) in _OPEN:
            return None
        headers = RequestHeaders(scope["headers"])
        secrets = headers.cookies(self.address.cookie)
        if len(secrets) != 1 or not secrets[0]:
            raise RequestRefused("unauthorized", "not signed in", "sign in with a token that may read")
        member = await self._member(secrets[0][:_LONGEST_SECRET], _client(scope))
        if method == "POST" and not hmac.compare_digest(
            headers.only(TOKEN_HEADER).encode("utf-8", "replace"), form_token(secrets[0]).encode()
        ):
            return answers.refusal(
                403, "the token of the page is missing", "send X-Recollect-Token; GET /api/me shows it"
            )
        scope[_MEMBER], scope[_SECRET] = member, secrets[0]
        scope[TOKEN_NAME] = member.token.parent or member.token.id
        return None

    async def _member(self, secret: str, address: str) -> Caller:
        """The member of a session. While the database cannot be asked, those who were members a short while ago still read what
        was read before."""
        place, now = form_token(secret), time.monotonic()
        known = self._members.get(place)
        ends = None if known is None else known[1].token.expires
        is_over = ends is not None and time.time_ns() // 1_000_000 >= ends
        is_recent = known is not None and now - known[0] < _GRACE_SECONDS and not is_over
        if known is not None and is_recent and now < self._silent_until:
            return known[1]
        try:
            member = await access.admit(self.service, f"{PAGE_SCHEME} {secret}", address)
        except RequestRefused as denied:
            if denied.status != _NO_ANSWER:
                self._members.pop(place, None)
            elif known is not None and is_recent:
                self._silent_until = time.monotonic() + _SILENT_SECONDS
                return known[1]
            raise
        self._silent_until = 0.0
        self._members[place] = now, member
        self._members.move_to_end(place)
        while len(self._members) > _MOST_MEMBERS:
            self._members.popitem(last=False)
        return member

    # ---- routes ------------------------------------------------------------------------------------------

    def _application(self) -> Starlette:
        routes = [
            Route("/api/me", self._me, methods=["GET"]),
            Route(START, self._start, methods=["GET"]),
            Route(CALLBACK, self._callback, methods=["GET"]),
            *(Route(route.path, self._own_endpoint(route), methods=[route.method]) for route in OWN_ROUTES),
        ]
        routes += [
            Route(route.path, self._endpoint(route), methods=[route.method])
            for route in OFFERED
            if route.path != "/api/me"
        ]
        routes += [Route(route.path, _not_offered, methods=[route.method]) for route in REFUSED]
        routes.append(Route("/{path:path}", self._file, methods=["GET"]))
        app = Starlette(routes=routes, exception_handlers={**PROBLEMS, RequestRefused: _sign_in_first})
        app.state.members = self
        return app

    def _endpoint(self, route: TypedRoute) -> Any:
        async def endpoint(request: Request) -> Response:
            page = await self._page(request)
            try:
                answered = await self._answering.answered(page, route, request)
            except RecollectError as problem:
                answered = answers.failure(problem)
            if isinstance(answered, StreamingResponse) and answered.media_type == "text/event-stream":
                answered.body_iterator = self._watched(request, answered.body_iterator)
            elif answered.media_type == "application/json" and not isinstance(answered, StreamingResponse):
                _without_place(answered, page)
            return answered

        return endpoint

    def _own_endpoint(self, route: TypedRoute) -> Any:
        async def endpoint(request: Request) -> Response:
            arguments = await arguments_of(route, request)
            return answer(await route.run(request, **arguments))

        return endpoint

    async def _watched(self, request: Request, events: Any) -> AsyncIterator[bytes]:
        """A stream for as long as its reader is a member."""
        checked = time.monotonic()
        with contextlib.suppress(RecollectError, RequestRefused):  # the browser reconnects by itself
            async for piece in events:
                if time.monotonic() - checked > _ASK_AGAIN_SECONDS:
                    checked = time.monotonic()
                    await self._member(request.scope[_SECRET], _client(request.scope))
                yield piece

    async def _me(self, request: Request) -> Response:
        member, secret = request.scope[_MEMBER], request.scope[_SECRET]
        page = await self._page(request)
        end = await access.token_end(self.service, member)
        shown = end if ends_soon(end, time.time_ns() // 1_000_000) else None
        document = await anyio.to_thread.run_sync(page.about, member, form_token(secret), shown)
        response = answer(document)
        _without_place(response, page)
        return response

    async def _start(self, request: Request) -> Response:
        """To the identity provider."""
        query = request.query_params
        organisation, place = query.get("organisation", "")[:200], query.get("to", "")[:600]
        try:
            address, pending = await access.begin(self.service, organisation, place, _client(request.scope))
        except RequestRefused as denied:
            return _not_signed_in(denied)
        response = RedirectResponse(address, 303)
        self.set_cookie(response, pending, _PENDING_SECONDS, is_pending=True)
        return response

    async def _callback(self, request: Request) -> Response:
        """Back from the identity provider."""
        cookies = RequestHeaders(request.scope["headers"]).cookies(self.address.pending)
        cookie = cookies[0] if len(cookies) == 1 else ""
        query = {name: value[:4_096] for name, value in request.query_params.items()}
        response: Response
        try:
            secret, place = await access.finish(self.service, cookie, query, _client(request.scope))
        except RequestRefused as denied:
            response = _not_signed_in(denied)
        else:
            response = RedirectResponse(f"/{place}", 303)
            self.set_cookie(response, secret)
        self.set_cookie(response, "", 0, is_pending=True)
        return response

    def forget(self, secret: str) -> None:
        """Who has this cookie is looked up again."""
        self._members.pop(form_token(secret), None)

    def set_cookie(
        self, response: Response, value: str, max_age: int | None = None, *, is_pending: bool = False
    ) -> None:
        """The cookie of a session; ``is_pending``: of a sign-in, which comes back by a link from the provider's site."""
        name, path = (self.address.pending, "/") if is_pending else (self.address.cookie, "/api")
        site: Literal["lax", "strict"] = "lax" if is_pending else "strict"
        secure = self.address.is_secure
        response.set_cookie(name, value, max_age, path=path, secure=secure, httponly=True, samesite=site)

    async def _file(self, request: Request) -> Response:
        return built_file(self._built, request.path_params["path"])

    # ---- members -----------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> MemberPage:
        member: Caller = request.scope[_MEMBER]
        return await anyio.to_thread.run_sync(self._opened, member)

    def _opened(self, member: Caller) -> MemberPage:
        place = member.org.id, member.user.id, member.org.retention_days
        page = self._pages.get(place)
        if page is None:
            # Not under the lock: a copy that is being fetched waits for the event loop.
            made = MemberPage(
                self._backends.backend(member), self.version, self._exports, self.address.origin
            )
            made.stopping = self._stopping
            with self._lock:
                page = self._pages.setdefault(place, made)
                while len(self._pages) > _MOST_PAGES:  # streams of that member go on with what they have
                    self._pages.popitem(last=False)
        return page


def form_token(secret: str) -> str:
    """The token for every POST, derived from the cookie's secret; the same on every server."""
    return sha256(b"recollect page\0" + secret.encode("utf-8", "replace")).hexdigest()


def _is_below_api(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")


def _client(scope: AsgiScope) -> str:
    return str((scope.get("client") or ("",))[0])


def _content_type(headers: RequestHeaders, method: str) -> tuple[int, str, str] | None:
    kind = headers.only(b"content-type").partition(";")[0].strip().lower()
    if method != "POST" or kind == "application/json":
        return None
    return 415, "the body is not JSON", "send Content-Type: application/json"


async def _sign_in_first(_: Request, denied: Any) -> Response:
    """A ``RequestRefused`` that asks to sign in."""
    is_stranger = denied.status in (401, 403)
    document = ErrorDocument(denied.message, denied.hint, sign_in=is_stranger)
    headers = {name: value for name, value in denied.headers.items() if name == "Retry-After"}
    return answer(document, denied.status, headers)


def _not_signed_in(denied: RequestRefused) -> Response:
    """A refusal for a person, who came here by a link."""
    shown = (
        "<!doctype html><meta charset=utf-8><title>Not signed in</title>"
        f"<h1>Not signed in</h1><p>{escape(denied.message)}.</p><p>{escape(denied.hint)}.</p>"
        "<p><a href=/>Back to the page</a></p>"
    )
    return HTMLResponse(shown, denied.status)


async def _not_offered(request: Request) -> Response:
    """A route that changes something, is about one person's machine, or needs every transcript."""
    if request.url.path in _OF_TRANSCRIPTS:
        error, hint = (
            "this needs every transcript, and the team's page reads only those that are opened",
            "ask",
        )
    else:
        error, hint = "this page is read-only", "change it on"
    return answers.refusal(403, error, f"pull the session and {hint} your own machine: recollect team pull")


def _without_place(response: Response, page: MemberPage) -> None:
    """Remove the mirror's path on this machine."""
    mirror = page.backend.mirror
    for place in (mirror.home, mirror.root):
        text = encode_json(str(place))[1:-1]
        if text in response.body:
            response.body = bytes(response.body).replace(text, b"")
            response.headers["content-length"] = str(len(response.body))
