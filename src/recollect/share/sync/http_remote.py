"""A team server as a remote, over one persistent connection.

It uses ``http.client``: the protocol needs one request at a time, bodies of bytes, and exact control
over retries, so an HTTP library would add a dependency and nothing else. Bodies are zstd. Redirects are
not followed and no proxy is used: a token goes only to its own address; over plain ``http`` only to
this machine, unless the caller insists.

Every request is repeatable. A broken connection, a timeout, 408, 429 and 5xx are retried with growing
pauses for as long as ``patience`` says. A truncated answer is never accepted: lines are counted and
hashed against the server's position.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import ssl
import time
from collections.abc import Iterator, Mapping
from email.message import Message
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import zstandard

from recollect.errors import Busy, DamagedData, NotFound, UsageError
from recollect.share.sync.wire import (
    ENCRYPTED,
    MACHINE,
    POSITION,
    PROJECT,
    REPOSITORY,
    AppendReply,
    DeviceSignIn,
    Head,
    IssuedToken,
    LineHits,
    OwnTokens,
    Position,
    PositionConflict,
    Problem,
    RemoteSession,
    RemoteSessions,
    SessionDescription,
    SessionDetail,
    SessionGone,
    SideFile,
    SideFileChanged,
    SignInOffer,
    WhoAmI,
    described,
    lines_of,
)

_REPEATED = frozenset((408, 425, 429, 500, 502, 503, 504))
_BROKEN = (OSError, http.client.HTTPException, msgspec.DecodeError)
_PIECE = 1 << 20
_SMALL = 512
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0
_LONGEST_ERROR = 300
# More than any line or list of the protocol.
_LARGEST = 64 << 20
# What every server accepts at once, unless it says otherwise.
LIMITS = {"body_bytes": 16 << 20, "lines": 50_000}
_LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))
Document = TypeVar("Document")


class HttpReply(NamedTuple):
    """A complete answer of the server."""

    status: int
    headers: Message
    body: bytes


class HttpRemote:
    """One server, as one member of an organisation sees it. Not thread-safe."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        patience: float = 60.0,
        timeout: float = 60.0,
        allow_plain: bool = False,
    ) -> None:
        self.url, self._host, self._port, self._path, self._is_tls = _address(url, allow_plain=allow_plain)
        # None: a stranger, who may only ask how to sign in.
        if token is not None and not (token.isascii() and token.isprintable() and token and " " not in token):
            raise UsageError(
                "token: is not valid", hint="it is one word, as `recollect team admin token add` shows it"
            )
        self._token = token
        self._patience, self._timeout = patience, timeout
        self._connection: http.client.HTTPConnection | None = None
        self._packer = zstandard.ZstdCompressor(level=1)
        self._limits: Mapping[str, int] | None = None

    # --- the remote -----------------------------------------------------------------------------

    def limits(self) -> Mapping[str, int]:
        """The server's limits, by name; requested once."""
        if self._limits is None:
            self._limits = LIMITS | self.whoami().limits
        return self._limits

    def whoami(self) -> WhoAmI:
        return self._document("GET", "/v1/whoami", WhoAmI)

    def sessions(self, since: int | None = None, **filters: str) -> Iterator[RemoteSession]:
        """All pages, newest first."""
        query = {"limit": "1000", **filters}
        if since is not None:
            query["since"] = str(max(since, 100_000_000))
        cursor: str | None = ""
        while cursor is not None:
            page = self._document(
                "GET", "/v1/sessions", RemoteSessions, {**query, **({"cursor": cursor} if cursor else {})}
            )
            yield from page.sessions
            cursor = page.next

    def session(self, session: str) -> SessionDetail | None:
        """One session with its logs and files; None where there is none."""
        try:
            return self._document("GET", _session(session), SessionDetail)
        except NotFound:
            return None

    def head(self, session: str, key: str) -> Position | None:
        """Where a log ends, from the primary database; None where there is no such log."""
        answer = self._look("HEAD", f"{_session(session)}/log", _key(key))
        return None if answer is None else Position.parse(answer.headers.get(POSITION, ""))

    def is_at(self, session: str, key: str, position: Position) -> bool:
        """Whether the log passed this position."""
        if not position.lines:
            return True
        answer = self._ask("HEAD", f"{_session(session)}/log", {**_key(key), "after": str(position)})
        if answer.status in (404, 409):
            return False
        self._require(answer)
        return True

    def append(
        self, session: str, key: str, at: Position, data: bytes, description: SessionDescription
    ) -> Position:
        """Append whole lines durably; the new position. ``PositionConflict``, ``SessionGone``. Retried until there is an answer."""
        headers = {POSITION: str(at)}
        for name, text in (
            (PROJECT, description.project),
            (REPOSITORY, description.repository),
            (MACHINE, description.machine),
        ):
            if text:
                headers[name] = described(text)
        if description.encrypted:
            headers[ENCRYPTED] = "1"
        answer = self._ask("PUT", f"{_session(session)}/log", _key(key), data, headers)
        return self._decoded(answer, AppendReply).position.position

    def read(self, session: str, key: str, after: Position) -> Iterator[bytes]:
        """Lines after a position, in pieces; after a broken connection it resumes after the last whole line.

        ``PositionConflict`` if the log never was there, ``SessionGone``.
        """
        pauses = _RetryPauses(self._patience)
        while True:
            here = after
            try:
                for piece in self._read_once(session, key, after):
                    after = after.after(lines_of(piece))
                    yield piece
                return
            except _BROKEN as problem:
                if after != here:
                    pauses = _RetryPauses(self._patience)
                pauses.wait(self._broken(problem))

    def put_file(self, session: str, key: str, data: bytes, known: str | None) -> SideFile:
        """Store a side file; ``known`` is its expected current sha256, None where it should be new.

        Storing the same bytes again is no conflict. ``SideFileChanged``, ``SessionGone``.
        """
        condition = {"If-None-Match": "*"} if known is None else {"If-Match": f'"{known}"'}
        return self._decoded(
            self._ask("PUT", f"{_session(session)}/file", {"key": key}, data, condition), SideFile
        )

    def file(self, session: str, key: str) -> bytes | None:
        answer = self._look("GET", f"{_session(session)}/file", {"key": key})
        return None if answer is None else answer.body

    def delete(self, session: str) -> bool:
        """Delete a session there; False where there is none."""
        return self._look("DELETE", _session(session)) is not None

    def search(self, words: str, limit: int, **more: str) -> LineHits:
        """Lines that match, newest first. ``more``: since, until, session, project."""
        return self._document("GET", "/v1/search", LineHits, {"q": words, "limit": str(limit), **more})

    def set_visibility(self, session: str, visibility: str | None) -> None:
        """Choose who sees a session; None: as the organisation says."""
        document = msgspec.json.encode({"visibility": visibility})
        self._require(self._ask("PATCH", _session(session), body=document))

    def cost(self, by: str, since: str | None, until: str | None, kind: str) -> bytes:
        """The team's cost report in one of the server's formats."""
        query = {"by": by, "format": kind}
        query.update({name: text for name, text in (("since", since), ("until", until)) if text})
        answer = self._ask("GET", "/v1/cost", query)
        self._require(answer)
        return answer.body

    def sign_in_offer(self) -> SignInOffer:
        """Whether people can sign in through an identity provider."""
        return self._document("GET", "/v1/sign-in", SignInOffer)

    def device_sign_in(self, organisation: str) -> DeviceSignIn:
        """A code for a person to type elsewhere."""
        asked = {"organisation": organisation}
        return self._document("POST", "/v1/sign-in/device", DeviceSignIn, sent=asked)

    def device_token(self, organisation: str, device_code: str, machine: str) -> IssuedToken:
        """The token, or that the person has not agreed yet."""
        asked = {"organisation": organisation, "device_code": device_code, "machine": machine}
        return self._document("POST", "/v1/sign-in/device/token", IssuedToken, sent=asked)

    def own_tokens(self) -> OwnTokens:
        """The tokens of the member whose token this is."""
        return self._document("GET", "/v1/whoami/tokens", OwnTokens)

    def revoke_own(self, token: str) -> None:
        self._require(self._ask("DELETE", f"/v1/whoami/tokens/{quote(token, safe='')}"))

    def rotate(self, overlap_hours: int) -> IssuedToken:
        """A new token in place of this one."""
        try:
            asked = {"overlap_hours": overlap_hours}
            return self._document("POST", "/v1/token/rotate", IssuedToken, sent=asked)
        except SideFileChanged:
            raise UsageError(
                f"{self.url}: the token was replaced before, and its replacement is in use",
                hint="log in with that one; if it is not yours, ask an admin to revoke both",
            ) from None

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()

    # --- one request ----------------------------------------------------------------------------

    def _document(
        self,
        method: str,
        path: str,
        kind: type[Document],
        query: Mapping[str, str] | None = None,
        sent: object = None,
    ) -> Document:
        """The answer, decoded; ``sent``: a document for the body."""
        body = None if sent is None else msgspec.json.encode(sent)
        return self._decoded(self._ask(method, path, query, body), kind)

    def _look(self, method: str, path: str, query: Mapping[str, str] | None = None) -> HttpReply | None:
        """The answer; None where there is no such thing."""
        answer = self._ask(method, path, query)
        if answer.status == 404:
            return None
        self._require(answer)
        return answer

    def _decoded(self, answer: HttpReply, kind: type[Document]) -> Document:
        self._require(answer)
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except msgspec.DecodeError as problem:
            raise Busy(
                f"{self.url}: the answer does not follow the protocol ({problem})",
                hint="is it a recollect server of a compatible version?",
            ) from None

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpReply:
        """The answer to one request, which is retried until there is one."""
        found = {**self._authorization(), **(headers or {})}
        if body is not None and len(body) >= _SMALL:
            body = self._packer.compress(body)
            found["Content-Encoding"] = "zstd"
        pauses = _RetryPauses(self._patience)
        while True:
            why, wait = "", 0.0
            try:
                answer = self._once(method, _target(self._path + path, query), body, found)
                if answer.status not in _REPEATED:
                    return answer
                why, wait = f"HTTP {answer.status}", _seconds(answer.headers.get("Retry-After", ""))
            except _BROKEN as problem:
                why = self._broken(problem)
            pauses.wait(why, wait)

    def _broken(self, problem: Exception) -> str:
        """Close the connection; what was wrong with it."""
        self.close()
        if isinstance(problem, ssl.SSLCertVerificationError):
            raise UsageError(
                f"{self.url}: its certificate is not trusted: {problem.verify_message}",
                hint="nothing was sent; check the address, or set SSL_CERT_FILE to your own authority",
            ) from None
        return str(problem) or type(problem).__name__

    def _authorization(self) -> dict[str, str]:
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}

    def _once(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> HttpReply:
        connection = self._connected()
        connection.request(method, target, body, headers)
        with connection.getresponse() as response:
            if method == "HEAD":
                if response.status == 200:
                    _position(response)
                return HttpReply(response.status, response.headers, b"")
            return self._whole(response)

    def _whole(self, response: http.client.HTTPResponse) -> HttpReply:
        """A complete answer. One with truncated headers looks like one without a length and is rejected."""
        data = response.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            self.close()
            raise DamagedData(f"{self.url}: the answer is too long", hint="is it a recollect server?")
        length = response.headers.get("Content-Length")
        is_chunked = "Transfer-Encoding" in response.headers
        if response.status != 204 and not is_chunked and (length is None or len(data) != _length(length)):
            raise http.client.IncompleteRead(data)
        return HttpReply(response.status, response.headers, data)

    def _read_once(self, session: str, key: str, after: Position) -> Iterator[bytes]:
        """Lines of one answer; ``HTTPException`` where it ends too early."""
        target = _target(f"{self._path}{_session(session)}/log", {**_key(key), "after": str(after)})
        connection = self._connected()
        connection.request("GET", target, headers=self._authorization())
        response = connection.getresponse()
        is_read = False
        try:
            if response.status != 200:
                answer = self._whole(response)
                if answer.status == 404:
                    raise SessionGone
                if answer.status not in _REPEATED:
                    self._require(answer)
                raise http.client.HTTPException(f"HTTP {answer.status}")
            yield from _whole_lines(response, after, _position(response))
            is_read = response.isclosed()
        finally:
            response.close()
            if not is_read:
                # The rest of this answer would be taken for the next one, and lines are untrusted.
                self.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self.close()

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            place = self._host, self._port
            self._connection = (
                http.client.HTTPSConnection(
                    *place, timeout=self._timeout, context=ssl.create_default_context()
                )
                if self._is_tls
                else http.client.HTTPConnection(*place, timeout=self._timeout)
            )
        return self._connection

    def _require(self, answer: HttpReply) -> None:
        """Raise the error for an unsuccessful answer."""
        if answer.status < 300:
            return
        try:
            problem = msgspec.json.decode(answer.body, type=Problem)
        except (msgspec.DecodeError, UnicodeDecodeError):
            problem = None
        fault, where = (None, None) if problem is None else (problem.error, problem.position)
        if answer.status == 409 and isinstance(where, Head):
            raise PositionConflict(where)
        if answer.status == 410:
            raise SessionGone
        if answer.status == 409 and fault is not None and fault.code in ("changed", "exists"):
            raise SideFileChanged
        said = f"HTTP {answer.status}" if fault is None else fault.message[:_LONGEST_ERROR]
        hint = "is it a recollect server?" if fault is None else fault.hint[:_LONGEST_ERROR]
        if answer.status == 404:
            raise NotFound(f"{self.url}: {said}", hint=hint or "check the name")
        if answer.status == 401:
            said, hint = "the token is not accepted", "ask for a new one, then `recollect team login URL`"
        raise UsageError(f"{self.url}: {said}", hint=hint or "check the request")


def _position(response: http.client.HTTPResponse) -> Position:
    """The position in an answer; without one its headers were truncated."""
    try:
        return Position.parse(response.headers.get(POSITION, ""))
    except UsageError:
        raise http.client.BadStatusLine("the answer was cut off within its headers") from None


class _RetryPauses:
    """Growing pauses until patience ends."""

    def __init__(self, patience: float) -> None:
        self._end = time.monotonic() + patience
        self._next = _FIRST_PAUSE

    def wait(self, why: str, at_least: float = 0.0) -> None:
        """Sleep, or give up."""
        pause = max(self._next * random.uniform(0.5, 1.0), min(at_least, _LONGEST_PAUSE))
        if time.monotonic() + pause > self._end:
            raise Busy(
                f"the server does not answer: {why[:_LONGEST_ERROR]}",
                hint="is it running, and is the address right? Nothing is lost: the next attempt continues from here",
            )
        time.sleep(pause)
        self._next = min(self._next * 2, _LONGEST_PAUSE)


def _whole_lines(response: http.client.HTTPResponse, at: Position, end: Position) -> Iterator[bytes]:
    rest = b""
    while at.lines < end.lines or rest:
        piece = response.read(_PIECE)
        if not piece:
            raise http.client.HTTPException("the answer was cut off")
        rest += piece
        cut = rest.rfind(b"\n") + 1
        if cut:
            whole, rest = rest[:cut], rest[cut:]
            at = at.after(lines_of(whole))
            if at.lines >= end.lines and at != end:
                raise http.client.HTTPException("the lines do not match the server's position")
            yield whole
        elif len(rest) > _LARGEST:
            raise DamagedData("the remote has a line longer than the limit", hint="it stays on the remote")
    response.read(1)


def _address(url: str, *, allow_plain: bool) -> tuple[str, str, int | None, str, bool]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(f"address {url[:200]!a}: not understood", hint="write https://server.example")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "address: contains a user name or a password", hint="leave it out: the token identifies you"
        )
    if parts.scheme == "http" and parts.hostname not in _LOCAL and not allow_plain:
        raise UsageError(
            f"address {url[:200]!a}: would send the token and every session unencrypted",
            hint="use https://, or say --plain-http if the network is your own",
        )
    path = parts.path.rstrip("/")
    shown = f"{parts.scheme}://{parts.netloc}{path}"
    return shown, parts.hostname, port, path, parts.scheme == "https"


def _session(session: str) -> str:
    return f"/v1/sessions/{quote(session, safe='')}"


def _key(key: str) -> dict[str, str]:
    return {"key": key} if key else {}


def _target(path: str, query: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _length(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else -1


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0
