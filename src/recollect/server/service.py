"""The shared parts of the server: its limits and the counters that enforce them, and helpers to read a request.

Counters are per process. With several servers a caller has the rate of each; memory and time are bounded in every one.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Self, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.types import Receive, Scope

from recollect.errors import UsageError
from recollect.model.cost.prices import PriceList
from recollect.model.lines.ids import SessionId, milliseconds_of
from recollect.model.text import timespan
from recollect.server.database.records import Author
from recollect.server.database.sql import Database
from recollect.server.metrics import Metrics, RequestLog
from recollect.server.refusals import RefusedAttempts, RequestRefused, invalid, not_found, too_large
from recollect.server.tenancy import ADMIN, Caller, CallerAuthenticator
from recollect.share.sync.wire import SignInOffer

if TYPE_CHECKING:
    from recollect.server.objects import BodyMover
    from recollect.server.sign_in import SignIns

Document = TypeVar("Document")
# The kinds of arguments that routes share. No database takes a NUL, and what was no text came as U+FFFD.
_PLAIN = r"^[^\u0000\ufffd]*$"
Text = Annotated[str, Meta(max_length=200, pattern=_PLAIN)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Time = Annotated[str, Meta(max_length=60, pattern=_PLAIN, extra_json_schema={"format": "date"})] | None
Cursor = Annotated[str, Meta(max_length=4_096, pattern=_PLAIN)] | None
PathId = Annotated[str, Meta(max_length=100, pattern=_PLAIN, extra_json_schema={"format": "uuid"})]
# Checked further by ``checked_session``, ``checked_key`` and ``Position.parse``.
SessionName = Annotated[
    str, Meta(extra_json_schema={"pattern": r"^[A-Za-z0-9_-]([A-Za-z0-9_.-]{0,126}[A-Za-z0-9_-])?$"})
]
_KEY = r"[A-Za-z0-9_-]{1,24}(/[A-Za-z0-9_-]{1,24}){0,7}"
LogKey = Annotated[str, Meta(max_length=240, extra_json_schema={"pattern": f"^({_KEY})?$"})]
FileKey = Annotated[str, Meta(min_length=1, max_length=240, extra_json_schema={"pattern": f"^{_KEY}$"})]
_MOST_MS = 1 << 50


_MIB = 1 << 20
_MOST_BUCKETS = 10_000


class ServerLimits(Struct, frozen=True):
    """The limits, as shown by ``GET /v1/whoami``."""

    body_bytes: int = 16 * _MIB  # of a request, before and after decompression
    line_bytes: int = 16 * _MIB
    lines: int = 50_000  # of one append
    line_depth: int = 512  # nesting: all parsers of readers accept this depth
    document_bytes: int = 64 * 1024  # of a JSON document
    buffered_bytes: int = 24 * _MIB  # of all bodies received or sent, together
    requests_per_second: int = 500  # of one token, with a burst of the same size
    failures_per_second: int = 20  # refused tokens from one address, and of one token from there; then 429
    connections: int = 2_000
    body_seconds: int = 120
    request_seconds: int = 60
    slow_grace_seconds: int = 10
    slow_bytes_per_second: int = 16 * 1024
    slow_reading_bytes_per_second: int = 256 * 1024  # held for one reader

    def for_clients(self) -> dict[str, int]:
        """The limits that matter to a client."""
        names = "body_bytes", "line_bytes", "lines", "line_depth", "document_bytes", "requests_per_second"
        return {name: getattr(self, name) for name in names}


class RateLimiter:
    """A bucket of requests for every name, refilled over time."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = 2 * per_second
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, name: str) -> float:
        """Take from the bucket; seconds to wait where it is empty, else 0."""
        now = time.monotonic()
        left, since = self._buckets.pop(name, (self._most, now))
        left = min(self._most, left + (now - since) * self._per_second)
        allowed = left >= 1
        self._buckets[name] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else max((1 - left) / self._per_second, 0.001)


class ByteBudget:
    """Bytes that all requests together may hold; a request waits a moment when none are left."""

    def __init__(self, total: int, patience: float = 15.0) -> None:
        self.total, self._patience = total, patience
        self.used = 0
        self._freed = asyncio.Event()
        # Objects of unknown size that may be large are fetched one at a time.
        self.fetching = asyncio.Semaphore(1)

    async def take(self, amount: int) -> bool:
        """False where nothing was available for too long."""
        try:
            async with asyncio.timeout(self._patience):
                while self.used + amount > self.total:
                    await self._freed.wait()
        except TimeoutError:
            return False
        self.used += amount
        return True

    def give_back(self, amount: int) -> None:
        self.used -= amount
        self._freed.set()
        self._freed = asyncio.Event()


class BudgetShare:
    """The part of the budget that one request holds; returned at the end of its ``with`` block."""

    # This much is free of charge: a thousand small requests need not wait for a large one.
    FREE = 16 * 1024

    def __init__(self, budget: ByteBudget) -> None:
        self.budget, self.taken = budget, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.keep(0)

    async def hold(self, size: int) -> bool:
        """Reserve this many bytes, all at once: two that each hold half and wait would wait forever. False where there was no
        room for too long; more than the whole budget takes all of it."""
        missing = min(size, self.budget.total) - self.taken
        if size <= self.FREE or missing <= 0:
            return True
        if not await self.budget.take(missing):
            return False
        self.taken += missing
        return True

    def keep(self, size: int) -> None:
        """Reduce the reservation to this much."""
        if self.taken > size:
            self.budget.give_back(self.taken - size)
            self.taken = size


class Service:
    """The server's parts, created once."""

    def __init__(
        self,
        database: Database,
        *,
        limits: ServerLimits | None = None,
        prices: PriceList | None = None,
    ) -> None:
        self.database = database
        self.limits = limits or ServerLimits()
        self.prices = prices or PriceList()
        # Sign-in through identity providers; None where there are none.
        self.sign_in: SignIns | None = None
        self.doorkeeper = CallerAuthenticator(database)
        self.metrics = Metrics()
        self.budget = ByteBudget(self.limits.buffered_bytes)
        self.rates = RateLimiter(self.limits.requests_per_second)
        self.failures = RateLimiter(self.limits.failures_per_second)
        self.refused = RefusedAttempts(database)
        # Moves bodies of logs to an object store; None where there is none.
        self.mover: BodyMover | None = None
        # Where requests are logged; None: nowhere.
        self.request_log: RequestLog | None = None
        # Set at shutdown.
        self.closing = asyncio.Event()
        self.large = asyncio.Semaphore(1)
        # Where the database is asked from, for threads of the page.
        self.loop: asyncio.AbstractEventLoop | None = None

    def offer(self) -> SignInOffer:
        """Whether there is an identity provider to sign in with."""
        return SignInOffer(False) if self.sign_in is None else self.sign_in.offer()


class ServerRequest:
    """One request and its caller."""

    def __init__(self, service: Service, scope: Scope, receive: Receive) -> None:
        self.service, self.database, self.scope, self.receive = service, service.database, scope, receive
        self.admitted: Caller | None = None
        # As bytes: most headers are never read.
        self.headers: dict[bytes, bytes] = dict(scope["headers"])

    @property
    def caller(self) -> Caller:
        """The caller; only routes without a scope have none."""
        if self.admitted is None:
            raise RequestRefused("unauthorized", "a valid token is needed")
        return self.admitted

    @property
    def author(self) -> Author:
        """For the audit log."""
        return self.caller.author

    @property
    def attempt(self) -> tuple[str, Author] | None:
        """Organisation and author, once the caller is admitted."""
        return None if self.admitted is None else (self.admitted.org.id, self.admitted.author)

    @property
    def org(self) -> str:
        """The only organisation this request can see."""
        return self.caller.org.id

    async def readable(self, session_id: str) -> str:
        """The session, if the caller may read it."""
        session = str(SessionId(session_id))
        access = await self.database.access(self.org, session, self.caller.reader)
        if access is None or not access.is_visible:
            raise not_found()
        return session

    async def writable(self, session_id: str) -> str:
        """The session, if it is new or the caller may add to it."""
        session = str(SessionId(session_id))
        access = await self.database.access(self.org, session, self.caller.writer)
        if access is not None and not access.is_visible and ADMIN not in self.caller.scopes:
            raise not_found()
        return session

    def header(self, name: bytes) -> str | None:
        """A header, by its lower-case name."""
        value = self.headers.get(name)
        return None if value is None else str(value, "latin-1")

    async def chunk(self) -> tuple[bytes, bool]:
        """The next part of the body, and whether there is more; ``RequestRefused`` where it was cut off."""
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise invalid("the body was cut off", "repeat the request")
        return message.get("body", b""), message.get("more_body", False)

    async def small_body(self) -> bytes:
        """The bytes of a JSON document; its type bounds the depth."""
        most = self.service.limits.document_bytes
        data = bytearray()
        is_more = True
        while is_more:
            chunk, is_more = await self.chunk()
            data += chunk
            if len(data) > most:
                raise too_large("document", most)
        return bytes(data)


def bounds(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """``since`` and ``until`` in milliseconds; days are those of UTC (``model.text.timespan``)."""
    now = dt.datetime.now(dt.UTC)
    return _bound("since", since, timespan.since, now), _bound("until", until, timespan.until, now)


def _bound(
    name: str,
    text: str | None,
    meant: Callable[[str, dt.datetime, dt.tzinfo], dt.datetime],
    now: dt.datetime,
) -> int | None:
    if text is None:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) > 8
    try:
        at = int(text) if is_number else milliseconds_of(meant(text, now, dt.UTC)) or 0
    except (UsageError, OverflowError):
        at = _MOST_MS + 1
    if abs(at) > _MOST_MS:
        raise invalid(f"{name}: not a time", f"{timespan.HINT}; or milliseconds")
    return at


def cursor_of(*parts: object) -> str:
    """The start of the next page, as one word."""
    return urlsafe_b64encode(msgspec.json.encode(parts)).decode()


def parts_of(cursor: str, kind: type[Document]) -> Document:
    """The inverse of ``cursor_of``."""
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor.encode("ascii")), type=kind)
    except (ValueError, msgspec.DecodeError, UnicodeError):
        raise invalid("cursor: not valid", "start without a cursor") from None
