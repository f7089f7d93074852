"""The page for members of a team: the same page and routes, read-only, authenticated by the server.

Each member has a page of their own, because the server decides what each may see (``services/page/members.py``).

A member signs in with a token, or at the organisation's identity provider. The browser gets a session of its own, in a
cookie that scripts cannot read, that other sites' requests do not carry, and that is sent only below /api/. It is
checked again with every request and every few seconds of a stream, and determines the organisation: no route takes its
name. Only a sign-in that is under way has a cookie that comes back from another site.

Host, Origin and Sec-Fetch-Site are compared with the public address. A link from elsewhere may open the
page itself, which holds no data.
"""

from __future__ import annotations

import contextlib
import hmac
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from functools import cache, partial
from hashlib import sha256
from html import escape
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from recollect.errors import RecollectError, UsageError
from recollect.services.documents import page as documents
from recollect.services.documents.conversation import SessionHeadDocument
from recollect.services.documents.cost.report import CostDocument
from recollect.services.documents.encoding import encoded
from recollect.services.documents.parts import PageResumeDocument
from recollect.services.documents.search import PageSearchDocument
from recollect.services.page.members import (
    AccessDenial,
    Member,
    MirrorBackend,
    MirrorBackends,
    resume_command,
    resume_line,
)
from recollect.services.page.session import head_document
from recollect.services.page.stream_slots import StreamSlots
from recollect.services.page.team.listing import TeamSessionList
from recollect.services.page.team.reports import TeamCostQuery, TeamSearch, cost_document, search_document
from recollect.sync.wire import SignInOffer, ends_soon
from recollect.web import answers
from recollect.web.app import PROBLEMS, RouteRunner, body_of, built_file
from recollect.web.built_files import BuiltFiles
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
from recollect.web.operations import Operation, from_body, openapi, text
from recollect.web.page import ExportFormat, Page, Values, bounds_of, filter_of
from recollect.web.routes import OPERATIONS

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


class MemberAuthenticator(Protocol):
    """Decides whether a token is valid."""

    def start(self) -> None:
        """Called on the event loop, before any request."""

    async def admitted(self, secret: str, address: str) -> Member | AccessDenial:
        """The member of a session, or why access is denied."""

    async def opened(self, token: str, address: str) -> str | AccessDenial:
        """The secret of a new session for the owner of a token."""

    async def closed(self, member: Member) -> None:
        """End a session."""

    async def token_end(self, member: Member) -> int | None:
        """When the token that opened a session ends."""

    def offer(self) -> SignInOffer:
        """Whether there is an identity provider."""

    async def begun(self, organisation: str, place: str, address: str) -> tuple[str, str] | AccessDenial:
        """Where to sign in, and the value of the cookie until then."""

    async def finished(
        self, cookie: str, query: dict[str, str], address: str
    ) -> tuple[str, str] | AccessDenial:
        """The secret of a new session, and where on the page the person was."""


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
    listed: TeamSessionList

    def __init__(
        self, backend: MirrorBackend, version: str, exports: Mapping[str, ExportFormat], origin: str
    ) -> None:
        super().__init__(backend, "", version, exports)
        self.backend, self.listed = backend, TeamSessionList(backend)
        self._origin = origin

    def search(self, values: Values) -> PageSearchDocument:
        """The server's own search, by session; of one session that of its copy."""
        if values["session"]:
            self.backend.session(values["session"])
            return super().search(values)
        since, until = bounds_of(values)
        query = replace(filter_of(values), project=values["project"])
        asked = TeamSearch(
            text=values["q"],
            how=values["how"],
            kinds=values["kinds"],
            among=self.listed.ids(query),
            since=since,
            until=until,
            rank=bool(values["rank"]),
            limit=values["limit"],
            width=values["width"],
        )
        return search_document(self.backend.team, asked, partial(resume_line, self._origin))

    def cost(self, values: Values) -> CostDocument:
        """The server's own report."""
        by = tuple(key for key in values["by"].split(",") if key)
        more = {
            name: values[name] for name in TeamCostQuery.__struct_fields__ if name not in ("by", "explain")
        }
        return cost_document(self.backend.team, TeamCostQuery(by=by, explain=bool(values["explain"]), **more))

    def head(self, values: Values) -> SessionHeadDocument:
        """The summary of a session, with its owner; what it cost is what the server says."""
        listed = self.backend.team.listed()
        document = head_document(self.backend, self.listed, values["session"], self.listed.spending)
        remote = listed.sessions.get(document.id)
        damaged = len(self.backend.reading(document.id).log.damage())
        return replace(document, person=None if remote is None else remote.person, damaged=damaged)

    def refresh_index(self, _: Values) -> documents.IndexStateDocument:
        """Read the list again."""
        self.backend.team.forget()
        return documents.IndexStateDocument(self.backend.index.state)

    def resume(self, values: Values) -> PageResumeDocument:
        """How to continue it on the member's machine; nothing is looked up on this one."""
        session = self.backend.reading(values["session"])
        line = resume_line(self._origin, session.id)
        return PageResumeDocument(
            session=session.id,
            title=session.title,
            cwd=session.cwd,
            cwd_exists=True,
            command=line,
            argv=resume_command(self._origin, session.id),
            nearby=(),
            line=line,
        )

    def about(self, member: Member, token: str, token_end: int | None) -> documents.MeDocument:
        """Token, version and rights, for the page's first request."""
        team = self.backend.team
        listed = team.listed()
        about = documents.MemberDocument(
            name=member.name,
            role=member.role,
            organization=member.organization_name,
            sealed=listed.sealed,
            left_out=listed.left_out + len(self.backend.mirror.left_out),
            not_current_since=team.not_current_since,
            ends=member.ends,
            token_ends=token_end,
        )
        return replace(self.me({}), token=token, homes=[], is_read_only=True, member=about)


def _signed_in() -> None:
    """Placeholder in the OpenAPI document for the login route."""


def _signed_out() -> None:
    """Placeholder in the OpenAPI document for the logout route."""


def _offered() -> None:
    """Placeholder in the OpenAPI document for the route that says how to sign in."""


def _description() -> None:
    """Placeholder in the OpenAPI document for the document itself."""


LOGIN_OPERATION = Operation(
    "POST",
    LOGIN,
    "Exchange a token that may read for a session",
    _signed_in,
    answers=documents.LoginDocument,
    body=(text("token", _LONGEST_SECRET, is_required=True),),
    is_open=True,
)
OFFER_OPERATION = Operation(
    "GET",
    OFFER,
    "Whether there is an identity provider to sign in with",
    _offered,
    answers=documents.SignInDocument,
    is_open=True,
)
LOGOUT_OPERATION = Operation(
    "POST", LOGOUT, "End the session", _signed_out, answers=documents.SignedOutDocument
)
OFFERED = tuple(
    one
    for one in OPERATIONS
    if (one.method == "GET" and one.path not in _OF_ONE_MACHINE | _OF_TRANSCRIPTS) or one.path in _POSTED
)
REFUSED = tuple(one for one in OPERATIONS if one not in OFFERED)


class MembersApp:
    """An ASGI application: the page of a team server."""

    def __init__(
        self,
        authenticator: MemberAuthenticator,
        backends: MirrorBackends,
        address: PublicAddress,
        *,
        version: str,
        exports: Mapping[str, ExportFormat],
        built: BuiltFiles,
    ) -> None:
        self._authenticator, self._backends, self._address = authenticator, backends, address
        self._version, self._exports, self._built = version, exports, built
        self._lock = threading.Lock()
        # By organisation and member, with the retention it was made for.
        self._pages: OrderedDict[tuple[str, str], tuple[int | None, MemberPage]] = OrderedDict()
        # Who was admitted, and when; by a hash of the cookie.
        self._members: OrderedDict[str, tuple[float, Member]] = OrderedDict()
        self._silent_until = 0.0
        self._answering = RouteRunner(_THREADS, _SEARCHES, StreamSlots(_STREAMS, _STREAMS_EACH))
        self._stopping = threading.Event()
        described = (
            LOGIN_OPERATION,
            OFFER_OPERATION,
            LOGOUT_OPERATION,
            Operation(
                "GET", DESCRIPTION, "This description", _description, answers=dict[str, Any], is_open=True
            ),
            *OFFERED,
        )
        self._description = cache(  # made when it is asked for, as the local page's
            partial(
                openapi, described, version, title="recollect, the page for members", cookie=address.cookie
            )
        )
        self._app = self._application()

    def start(self) -> None:
        self._authenticator.start()

    async def tidy(self) -> None:
        """Drop copies of deleted sessions."""
        with contextlib.suppress(OSError):  # tried again in an hour
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
        refused = self._refusal(scope) or await self._stranger(scope)
        await (refused or self._app)(scope, receive, guarded(send))

    def _refusal(self, scope: AsgiScope) -> Response | None:
        """Refuse requests that do not come from the page itself."""
        headers, method = RequestHeaders(scope["headers"]), scope["method"]
        is_page = method in ("GET", "HEAD") and not _is_below_api(scope["path"])
        is_link = is_page and headers.only(b"sec-fetch-mode") == "navigate"
        problem = (
            self._host(headers)
            or self._origin(headers)
            or (None if is_link else fetch_site(headers, method))
            or method_refusal(method)
            or _content_type(headers, method)
        )
        return None if problem is None else answers.refusal(*problem)

    def _host(self, headers: RequestHeaders) -> tuple[int, str, str] | None:
        if headers.only(b"host").lower() in self._address.hosts:
            return None
        return 421, "this host name is not served here", f"open {self._address.origin}"

    def _origin(self, headers: RequestHeaders) -> tuple[int, str, str] | None:
        if not headers.count(b"origin") or headers.only(b"origin") == self._address.origin:
            return None
        return 403, "the request comes from another page", f"open {self._address.origin}"

    async def _stranger(self, scope: AsgiScope) -> Response | None:
        """Refuse requests without a valid member; the member is added to the scope."""
        method, path = scope["method"], scope["path"]
        if not _is_below_api(path) or (path, method) in _OPEN:
            return None
        headers = RequestHeaders(scope["headers"])
        secrets = headers.cookies(self._address.cookie)
        if len(secrets) != 1 or not secrets[0]:
            return _sign_in(AccessDenial(401, "not signed in", "sign in with a token that may read"))
        found = await self._member(secrets[0][:_LONGEST_SECRET], _client(scope))
        if isinstance(found, AccessDenial):
            return _sign_in(found)
        if method == "POST" and not _is_same(headers.only(TOKEN_HEADER), form_token(secrets[0])):
            return answers.refusal(
                403, "the token of the page is missing", "send X-Recollect-Token; GET /api/me shows it"
            )
        scope[_MEMBER], scope[_SECRET] = found, secrets[0]
        scope[TOKEN_NAME] = found.opened_by or found.token
        return None

    async def _member(self, secret: str, address: str) -> Member | AccessDenial:
        """The member of a session. While the database cannot be asked, those who were members a short while ago still read what
        was read before."""
        place, now = form_token(secret), time.monotonic()
        known = self._members.get(place)
        is_recent = known is not None and now - known[0] < _GRACE_SECONDS and not _is_over(known[1])
        if known is not None and is_recent and now < self._silent_until:
            return known[1]
        found = await self._authenticator.admitted(secret, address)
        if isinstance(found, Member):
            self._silent_until = 0.0
            self._members[place] = now, found
            self._members.move_to_end(place)
            while len(self._members) > _MOST_MEMBERS:
                self._members.popitem(last=False)
        elif found.status == _NO_ANSWER and known is not None and is_recent:
            self._silent_until = time.monotonic() + _SILENT_SECONDS
            return known[1]
        elif found.status != _NO_ANSWER:
            self._members.pop(place, None)
        return found

    # ---- routes ------------------------------------------------------------------------------------------

    def _application(self) -> Starlette:
        routes = [
            Route("/api/me", self._me, methods=["GET"]),
            Route(LOGIN, self._login, methods=["POST"]),
            Route(LOGOUT, self._logout, methods=["POST"]),
            Route(OFFER, self._offer, methods=["GET"]),
            Route(START, self._start, methods=["GET"]),
            Route(CALLBACK, self._callback, methods=["GET"]),
            Route(DESCRIPTION, self._described, methods=["GET"]),
            *(
                Route(one.path, self._endpoint(one), methods=[one.method])
                for one in OFFERED
                if one.path != "/api/me"
            ),
            *(
                Route(
                    one.path,
                    _not_known if one.path in _OF_TRANSCRIPTS else _not_offered,
                    methods=[one.method],
                )
                for one in REFUSED
            ),
            Route("/{path:path}", self._file, methods=["GET"]),
        ]
        return Starlette(routes=routes, exception_handlers=PROBLEMS)

    def _endpoint(self, one: Operation) -> Any:
        async def endpoint(request: Request) -> Response:
            page = await self._page(request)
            # An override in the page of a member has the same name.
            own = one._replace(run=getattr(MemberPage, one.run.__name__, one.run))
            try:
                answered = await self._answering.answered(page, own, request)
            except RecollectError as problem:
                answered = answers.failure(problem)
            if isinstance(answered, StreamingResponse) and one.streams:
                answered.body_iterator = self._watched(request, answered.body_iterator)
            elif answered.media_type == "application/json" and not isinstance(answered, StreamingResponse):
                _without_place(answered, page)
            return answered

        return endpoint

    async def _watched(self, request: Request, events: Any) -> AsyncIterator[bytes]:
        """A stream for as long as its reader is a member."""
        values = time.monotonic()
        with contextlib.suppress(RecollectError):  # the browser reconnects by itself
            async for piece in events:
                if time.monotonic() - values > _ASK_AGAIN_SECONDS:
                    values = time.monotonic()
                    found = await self._member(request.scope[_SECRET], _client(request.scope))
                    if isinstance(found, AccessDenial):
                        return
                yield piece

    async def _me(self, request: Request) -> Response:
        member, secret = request.scope[_MEMBER], request.scope[_SECRET]
        page = await self._page(request)
        end = await self._authenticator.token_end(member)
        told = end if ends_soon(end, time.time_ns() // 1_000_000) else None
        document = await anyio.to_thread.run_sync(page.about, member, form_token(secret), told)
        response = answers.answer(document)
        _without_place(response, page)
        return response

    async def _login(self, request: Request) -> Response:
        values = from_body(await body_of(request), LOGIN_OPERATION.body)
        opened = await self._authenticator.opened(str(values["token"]).strip(), _client(request.scope))
        if isinstance(opened, AccessDenial):
            return _sign_in(opened)
        response = answers.answer(documents.LoginDocument(form_token(opened)))
        self._set_cookie(response, opened)
        return response

    async def _logout(self, request: Request) -> Response:
        self._members.pop(form_token(request.scope[_SECRET]), None)
        await self._authenticator.closed(request.scope[_MEMBER])
        response = answers.answer(documents.SignedOutDocument(signed_out=True))
        self._set_cookie(response, "", max_age=0)
        return response

    async def _offer(self, _: Request) -> Response:
        offer = self._authenticator.offer()
        return answers.answer(documents.SignInDocument(offer.is_offered, offer.organisation))

    async def _start(self, request: Request) -> Response:
        """To the identity provider."""
        asked = request.query_params
        organisation, place = asked.get("organisation", "")[:200], asked.get("to", "")[:600]
        begun = await self._authenticator.begun(organisation, place, _client(request.scope))
        if isinstance(begun, AccessDenial):
            return _not_signed_in(begun)
        response = RedirectResponse(begun[0], 303)
        self._set_pending(response, begun[1], _PENDING_SECONDS)
        return response

    async def _callback(self, request: Request) -> Response:
        """Back from the identity provider."""
        cookies = RequestHeaders(request.scope["headers"]).cookies(self._address.pending)
        cookie = cookies[0] if len(cookies) == 1 else ""
        query = {name: value[:4_096] for name, value in request.query_params.items()}
        done = await self._authenticator.finished(cookie, query, _client(request.scope))
        if isinstance(done, AccessDenial):
            refused = _not_signed_in(done)
            self._set_pending(refused, "", 0)
            return refused
        response = RedirectResponse(f"/{done[1]}", 303)
        self._set_pending(response, "", 0)
        self._set_cookie(response, done[0])
        return response

    def _set_pending(self, response: Response, value: str, max_age: int) -> None:
        response.set_cookie(
            self._address.pending,
            value,
            max_age=max_age,
            path="/",
            secure=self._address.is_secure,
            httponly=True,
            # The provider's answer is a link from another site.
            samesite="lax",
        )

    def _set_cookie(self, response: Response, value: str, max_age: int | None = None) -> None:
        response.set_cookie(
            self._address.cookie,
            value,
            max_age=max_age,
            path="/api",
            secure=self._address.is_secure,
            httponly=True,
            samesite="strict",
        )

    async def _described(self, _: Request) -> Response:
        return answers.answer(self._description())

    async def _file(self, request: Request) -> Response:
        return built_file(self._built, request.path_params["path"])

    # ---- members -----------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> MemberPage:
        member: Member = request.scope[_MEMBER]
        with self._lock:
            known = self._pages.get((member.organization, member.id))
            if known is not None:
                self._pages.move_to_end((member.organization, member.id))
        if known is not None and known[0] == member.retention_days:
            return known[1]
        return await anyio.to_thread.run_sync(self._opened, member)

    def _opened(self, member: Member) -> MemberPage:
        place = member.organization, member.id
        # Not under the lock, which the event loop takes too: a copy that is being fetched waits for the event loop.
        page = MemberPage(self._backends.desk(member), self._version, self._exports, self._address.origin)
        page.stopping = self._stopping
        with self._lock:
            known = self._pages.get(place)
            if known is not None and known[0] == member.retention_days:
                return known[1]
            self._pages[place] = (member.retention_days, page)
            while len(self._pages) > _MOST_PAGES:  # streams of that member go on with what they have
                self._pages.popitem(last=False)
        return page


def form_token(secret: str) -> str:
    """The token for every POST, derived from the cookie's secret; the same on every server."""
    return sha256(b"recollect page\0" + secret.encode("utf-8", "replace")).hexdigest()


def _is_over(member: Member) -> bool:
    return member.ends is not None and time.time_ns() // 1_000_000 >= member.ends


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


def _is_below_api(path: str) -> bool:
    return path == "/api" or path.startswith("/api/")


def _client(scope: AsgiScope) -> str:
    return str((scope.get("client") or ("",))[0])


def _content_type(headers: RequestHeaders, method: str) -> tuple[int, str, str] | None:
    kind = headers.only(b"content-type").partition(";")[0].strip().lower()
    if method != "POST" or kind == "application/json":
        return None
    return 415, "the body is not JSON", "send Content-Type: application/json"


def _sign_in(denied: AccessDenial) -> Response:
    """A refusal that asks to sign in."""
    response = answers.answer(
        documents.ErrorDocument(denied.error, denied.hint, sign_in=denied.status in (401, 403)), denied.status
    )
    if denied.retry_after is not None:
        response.headers["Retry-After"] = denied.retry_after
    return response


def _not_signed_in(denied: AccessDenial) -> Response:
    """A refusal for a person, who came here by a link."""
    shown = (
        "<!doctype html><meta charset=utf-8><title>Not signed in</title>"
        f"<h1>Not signed in</h1><p>{escape(denied.error)}.</p><p>{escape(denied.hint)}.</p>"
        "<p><a href=/>Back to the page</a></p>"
    )
    return HTMLResponse(shown, denied.status)


async def _not_offered(_: Request) -> Response:
    return answers.refusal(
        403,
        "this page is read-only",
        "pull the session and change it on your own machine: recollect sync pull",
    )


async def _not_known(_: Request) -> Response:
    return answers.refusal(
        403,
        "this needs every transcript, and the team's page reads only those that are opened",
        "pull the sessions and ask your own machine: recollect sync pull",
    )


def _without_place(response: Response, page: MemberPage) -> None:
    """Remove the mirror's path on this machine."""
    files = page.backend.mirror.files
    for place in (files.home, files.root):
        text = encoded(str(place))[1:-1]
        if text in response.body:
            response.body = bytes(response.body).replace(text, b"")
            response.headers["content-length"] = str(len(response.body))
