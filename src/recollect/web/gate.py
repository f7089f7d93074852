"""Access control: every request is checked here before a route, and every answer gets its headers here.

Any web page in a browser on this machine can send requests to a local port, and any name can resolve to
it (DNS rebinding). So Host with its port, Origin and Sec-Fetch-Site must be ours on every route, the
client must hold the cookie of this launch, and a change also needs its token.

It knows no routes beyond the open ones, and decides nothing about their content.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from recollect.web.answers import refusal

AsgiScope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
App = Callable[[AsgiScope, Receive, Send], Awaitable[None]]

TOKEN_HEADER = b"x-recollect-token"
LOGIN = "/api/login"
# Whose request it is, in its scope; the server's request log finds the member by this name.
TOKEN_NAME = "recollect.token"  # noqa: S105 - the name of a member of the scope
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self';"
    " connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    b"content-security-policy": _PAGE_POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=()",
    b"cache-control": b"no-store",
}


class LaunchKeys:
    """The secrets of one launch: a single-use key, the cookie it is exchanged for, and the token.

    ``cookie``: that of earlier launches, where it is to outlive this one.
    """

    def __init__(self, cookie: str | None = None) -> None:
        self._lock = threading.Lock()
        self._key: str | None = secrets.token_urlsafe(32)
        self._cookie = cookie or secrets.token_urlsafe(32)
        self.token = secrets.token_urlsafe(32)

    @property
    def key(self) -> str:
        """The key for the address; a new one after the last was used."""
        with self._lock:
            self._key = self._key or secrets.token_urlsafe(32)
            return self._key

    def exchanged(self, key: str) -> str | None:
        """The cookie for a key, once."""
        with self._lock:
            if self._key is None or not _same(key, self._key):
                return None
            self._key = None
            return self._cookie

    def is_cookie(self, value: str) -> bool:
        """Whether this is the cookie of this launch."""
        return _same(value, self._cookie)

    def is_token(self, value: str) -> bool:
        return _same(value, self.token)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


class PageGate:
    """The application behind the checks."""

    def __init__(self, app: App, keys: LaunchKeys, port: int) -> None:
        self._app, self._keys, self._port = app, keys, port
        names = ("127.0.0.1", "localhost")
        self._hosts = {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())

    @property
    def cookie_name(self) -> str:
        """Cookies ignore ports, so the name has the port: two launches must not overwrite each other."""
        return cookie_name(self._port)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answering = guarded(send)
        refused = self._refusal(scope)
        if refused is None:
            await self._app(scope, receive, answering)
            return
        status, error, hint = refused
        await refusal(status, error, hint)(scope, receive, answering)

    def _refusal(self, scope: AsgiScope) -> tuple[int, str, str] | None:
        headers = RequestHeaders(scope["headers"])
        method, path = scope["method"], scope["path"]
        return (
            self._host(headers)
            or self._origin(headers)
            or fetch_site(headers, method)
            or method_refusal(method)
            or self._cookie(headers, method, path)
            or self._token(headers, method, path)
        )

    def _host(self, headers: RequestHeaders) -> tuple[int, str, str] | None:
        if headers.only(b"host") in self._hosts:
            return None
        return 421, "this host name is not served here", "open the address that `recollect web` printed"

    def _origin(self, headers: RequestHeaders) -> tuple[int, str, str] | None:
        if not headers.count(b"origin") or headers.only(b"origin") == f"http://{headers.only(b'host')}":
            return None
        return 403, "the request comes from another page", "use the page that is served here"

    def _cookie(self, headers: RequestHeaders, method: str, path: str) -> tuple[int, str, str] | None:
        if is_open(method, path) or any(
            self._keys.is_cookie(value) for value in headers.cookies(self.cookie_name)
        ):
            return None
        return 401, "this browser has no access", "open the address that `recollect web` printed"

    def _token(self, headers: RequestHeaders, method: str, path: str) -> tuple[int, str, str] | None:
        if method in ("GET", "HEAD"):
            return None
        if headers.only(b"content-type").partition(";")[0].strip().lower() != "application/json":
            return 415, "the body is not JSON", "send Content-Type: application/json"
        if path == LOGIN or self._keys.is_token(headers.only(TOKEN_HEADER)):
            return None
        return 403, "the token of the page is missing", "send X-Recollect-Token; GET /api/me shows it"


def cookie_name(port: int) -> str:
    return f"recollect_{port}"


def is_open(method: str, path: str) -> bool:
    """What is answered without a cookie: the built page, its description, and the login."""
    if path == LOGIN:
        return method == "POST"
    return method in ("GET", "HEAD") and not path.startswith("/api/") and path != "/api"


def fetch_site(headers: RequestHeaders, method: str) -> tuple[int, str, str] | None:
    """Refuse requests from pages of other sites."""
    allowed = ("same-origin", "none") if method in ("GET", "HEAD") else ("same-origin",)
    if not headers.count(b"sec-fetch-site") or headers.only(b"sec-fetch-site") in allowed:
        return None
    return 403, "the request comes from another site", "use the page that is served here"


def method_refusal(method: str) -> tuple[int, str, str] | None:
    """Refuse methods other than GET, HEAD and POST."""
    if method in ("GET", "HEAD", "POST"):
        return None
    return 405, f"{method[:20]!a}: this method is not allowed", "use GET, or POST to change something"


class RequestHeaders:
    """The headers of a request; a repeated header that must be unique counts as missing."""

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._pairs = [(name.lower(), value) for name, value in pairs]

    def count(self, name: bytes) -> int:
        """How often it was sent."""
        return sum(one == name for one, _ in self._pairs)

    def only(self, name: bytes) -> str:
        """The value, if it was sent exactly once."""
        values = [value for one, value in self._pairs if one == name]
        return values[0].decode("latin-1") if len(values) == 1 else ""

    def cookies(self, name: str) -> list[str]:
        """Every cookie of that name."""
        found = []
        for header in (value for one, value in self._pairs if one == b"cookie"):
            for part in header.decode("latin-1").split(";"):
                key, _, value = part.strip().partition("=")
                if key == name:
                    found.append(value)
        return found


def guarded(send: Send) -> Send:
    """Add the security headers to every answer; a route may set stricter ones."""

    async def sending(message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            own = list(message.get("headers", ()))
            names = {name.lower() for name, _ in own}
            message["headers"] = [*own, *((n, v) for n, v in _HEADERS.items() if n not in names)]
        await send(message)

    return sending
