"""The shared parts of the server, and helpers to read a request."""

from __future__ import annotations

import asyncio
import datetime as dt
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope

from recollect.errors import InvalidId, UsageError
from recollect.model import timespan
from recollect.model.cost.prices import PriceList
from recollect.model.ids import SessionId
from recollect.server.database.contract import Database
from recollect.server.database.records import Author
from recollect.server.limits import ByteBudget, RateLimiter, ServerLimits, TaskTimeouts
from recollect.server.metrics import Metrics
from recollect.server.refusals import RequestRefused, invalid, not_found, too_large
from recollect.server.refused_attempts import RefusedAttempts
from recollect.server.request_notes import RequestNotes
from recollect.server.tenancy import ADMIN, Caller, CallerAuthenticator
from recollect.services.page.stream_slots import StreamSlots
from recollect.sync.wire import checked_key

if TYPE_CHECKING:
    from recollect.server.oidc.sign_in import SignIns

Document = TypeVar("Document")
_LongKey = tuple[str, str, str]
_MOST_MS = 1 << 50
_MOST_CREATORS = 20_000


class ObjectWork(Protocol):
    """The part of a worker that a server knows (``objects.mover``, which needs PostgreSQL)."""

    is_working: bool

    async def run(self) -> None: ...

    async def gauges(self) -> Mapping[str, float]: ...


class Wakeups:
    """Wakes followers of a log when this process appends to it; otherwise they poll once a second."""

    def __init__(self) -> None:
        # Referenced only by those who wait.
        self._waiting: WeakValueDictionary[_LongKey, asyncio.Event] = WeakValueDictionary()

    def wake(self, place: _LongKey) -> None:
        event = self._waiting.pop(place, None)
        if event is not None:
            event.set()

    async def wait(self, place: _LongKey, seconds: float) -> None:
        """Wait until lines are added, or for this many seconds."""
        event = self._waiting.get(place)
        if event is None:
            event = self._waiting[place] = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return


class Service:
    """The server's parts, created once."""

    def __init__(
        self,
        database: Database,
        *,
        limits: ServerLimits | None = None,
        prices: PriceList | None = None,
        remember_ms: int = 5_000,
    ) -> None:
        self.database = database
        self.limits = limits or ServerLimits()
        self.prices = prices or PriceList()
        # Sign-in through identity providers; None where there are none.
        self.sign_in: SignIns | None = None
        self.doorkeeper = CallerAuthenticator(database, remember_ms)
        self.metrics = Metrics()
        self.budget = ByteBudget(self.limits.buffered_bytes)
        self.rates = RateLimiter(self.limits.requests_per_second)
        self.failures = RateLimiter(self.limits.failures_per_second)
        self.refused = RefusedAttempts(database)
        self.streams = StreamSlots(self.limits.followers, self.limits.streams_per_token)
        self.impatience = TaskTimeouts()
        self.wakeups = Wakeups()
        # Moves bodies of logs to an object store; None where there is none.
        self.mover: ObjectWork | None = None
        self.notes = RequestNotes(self.metrics)
        # Set at shutdown: followers are disconnected and reconnect to another server.
        self.closing = asyncio.Event()
        self.large = asyncio.Semaphore(1)
        # Organisations of which usage of another model than Claude's was seen (routes/team.py).
        self.other_models: set[str] = set()
        # Who created a session, of those that were appended to by their creator.
        self.creators: OrderedDict[tuple[str, str], str] = OrderedDict()

    def created(self, org: str, session: str, user: str) -> None:
        """Remember the creator of a session."""
        self.creators[org, session] = user
        if len(self.creators) > _MOST_CREATORS:
            self.creators.popitem(last=False)


class ServerRequest:
    """One request and its caller."""

    def __init__(self, service: Service, scope: Scope, receive: Receive, session: str | None = None) -> None:
        self.service, self.scope, self.receive = service, scope, receive
        self._session = session
        self._caller: Caller | None = None
        # As bytes: most headers are never read.
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        # Most requests have no query, and parsing one costs as much as the rest of the request.
        self._query = QueryParams(scope["query_string"]) if scope["query_string"] else None

    def admitted(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def caller(self) -> Caller:
        """The caller; only routes without a scope have none."""
        if self._caller is None:
            raise RequestRefused(401, "unauthorized", "a valid token is needed", "send one")
        return self._caller

    @property
    def attempt(self) -> tuple[str, Author] | None:
        """Organisation and author, once the caller is admitted."""
        return None if self._caller is None else (self._caller.org.id, self._caller.author)

    @property
    def org(self) -> str:
        """The only organisation this request can see."""
        return self.caller.org.id

    @property
    def session(self) -> str:
        try:
            return checked_session(self._session or self.parameter("session_id"))
        except InvalidId as problem:
            raise invalid(problem.message, problem.hint) from None

    async def readable(self) -> str:
        """The session, if the caller may read it."""
        session = self.session
        access = await self.service.database.access(self.org, session, self.caller.reader)
        if access is None or not access.is_visible:
            raise not_found()
        return session

    async def writable(self) -> str:
        """The session, if it is new or the caller may add to it. The creator of a session does not change: a member who
        goes on with an own session is looked up once."""
        session, user = self.session, self.caller.user.id
        if self.service.creators.get((self.org, session)) == user:
            return session
        access = await self.service.database.access(self.org, session, self.caller.writer)
        if access is not None and not access.is_visible and ADMIN not in self.caller.scopes:
            raise not_found()
        if access is not None and access.creator == user:
            self.service.created(self.org, session, user)
        return session

    def parameter(self, name: str) -> str:
        """A part of the path."""
        text: str = self.scope["path_params"][name]
        return text

    def header(self, name: bytes) -> str | None:
        """A header, by its lower-case name."""
        value = self.headers.get(name)
        return None if value is None else str(value, "latin-1")

    def key(self, *, is_needed: bool = False) -> str:
        """The log or file within the session."""
        text = (self.one("key") or "") if self._query is not None else ""
        if is_needed and not text:
            raise invalid("key: is missing", "name the file with ?key=")
        try:
            return checked_key(text)
        except InvalidId as problem:
            raise invalid(problem.message, problem.hint) from None

    def one(self, name: str) -> str | None:
        """A value of the query, if given; refused when given twice."""
        values = self._query.getlist(name) if self._query is not None else []
        if not values:
            return None
        if len(values) > 1 or "\0" in values[0] or len(values[0]) > 4_096 or "\ufffd" in values[0]:
            raise invalid(f"{name}: give it once, as text")
        return values[0]

    def only(self, *names: str) -> None:
        """Refuse unknown parameters: a misspelt filter must not be ignored."""
        unknown = sorted(set(self._query) - set(names)) if self._query is not None else []
        if unknown:
            raise invalid(f"{unknown[0][:40]!a} is not known here", f"known: {', '.join(names) or 'nothing'}")

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number of the query."""
        text = self.one(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 16 or not least <= int(text) <= most:
            raise invalid(f"{name}: not a number from {least} to {most}")
        return int(text)

    def flag(self, name: str) -> bool:
        text = self.one(name)
        if text not in (None, "true", "false"):
            raise invalid(f"{name}: write true or false")
        return text == "true"

    def bounds(self) -> tuple[int | None, int | None]:
        """``since`` and ``until`` of the query in milliseconds; days are those of UTC (``model.timespan``)."""
        now = dt.datetime.now(dt.UTC)
        return self._bound("since", timespan.since, now), self._bound("until", timespan.until, now)

    def _bound(
        self, name: str, meant: Callable[[str, dt.datetime, dt.tzinfo], dt.datetime], now: dt.datetime
    ) -> int | None:
        text = self.one(name)
        if text is None:
            return None
        try:
            if text.isascii() and text.isdigit() and len(text) > 8:
                at = int(text)
            else:
                at = (meant(text, now, dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(
                    milliseconds=1
                )
        except (UsageError, OverflowError):
            at = _MOST_MS + 1
        if abs(at) > _MOST_MS:
            raise invalid(f"{name}: not a time", f"{timespan.HINT}; or milliseconds")
        return at

    async def chunk(self) -> tuple[bytes, bool]:
        """The next part of the body, and whether there is more; ``RequestRefused`` where it was cut off."""
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise invalid("the body was cut off", "repeat the request")
        return message.get("body", b""), message.get("more_body", False)

    async def document(self, kind: type[Document]) -> Document:
        """The JSON document of a small request; its type bounds the depth."""
        most = self.service.limits.document_bytes
        data = bytearray()
        is_more = True
        while is_more:
            chunk, is_more = await self.chunk()
            data += chunk
            if len(data) > most:
                raise too_large("document", most)
        try:
            return msgspec.json.decode(bytes(data), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            message = str(problem).encode("ascii", "backslashreplace").decode()
            raise invalid(f"document: {message[:200]}") from None


@lru_cache(maxsize=4_096)
def checked_session(text: str) -> str:
    """The validated id of a session."""
    return str(SessionId(text))


class PreparedResponse(Response):
    """An answer with prepared headers."""

    def __init__(self, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self.status_code, self.background = 200, None
        self.body, self.raw_headers = body, headers


def answer(document: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(document), status, headers=headers, media_type="application/json")


def cursor_of(*parts: object) -> str:
    """The start of the next page, as one word."""
    return urlsafe_b64encode(msgspec.json.encode(parts)).decode()


def parts_of(cursor: str, kind: type[Document]) -> Document:
    """The inverse of ``cursor_of``."""
    try:
        return msgspec.json.decode(urlsafe_b64decode(cursor.encode("ascii")), type=kind)
    except (ValueError, msgspec.DecodeError, UnicodeError):
        raise invalid("cursor: not valid", "start without a cursor") from None
