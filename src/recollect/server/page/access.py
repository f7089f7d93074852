"""What a page for members needs of this server: authentication, and the sessions of one organisation.

Authentication is that of /v1, with the same limits. Sessions are read from threads; every query runs on the server's event loop, and
cannot name another organisation.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from recollect.errors import Busy, NoAnswer
from recollect.server.app import admitted
from recollect.server.database.records import BodyLost, LineSearch, SessionFilter, Unavailable
from recollect.server.refusals import RequestRefused, not_found, refusal_of, too_many
from recollect.server.routes.team import found_lines, team_report
from recollect.server.service import Service
from recollect.server.tenancy import READ, Caller, opened_page
from recollect.share.sync.wire import (
    LineHits,
    Position,
    PositionConflict,
    RemoteSession,
    SessionDetail,
    SessionGone,
    TeamCostReport,
)

if TYPE_CHECKING:
    from recollect.server.sign_in import SignIns

_T = TypeVar("_T")
# A session that a token opened; one of an identity provider lasts as its settings say.
SESSION_MS = 12 * 3_600_000
_SECONDS, _LOOK_EVERY = 60.0, 0.5
_AT_ONCE, _BYTES_AT_ONCE = 1_000, 4 << 20


async def admit(service: Service, authorization: str, address: str) -> Caller:
    """The member with a session that a token, or an identity provider, opened; looked up each time."""
    service.loop = asyncio.get_running_loop()
    try:
        with _available():
            caller = await admitted(service, authorization, address, READ)
    except RequestRefused as refused:
        await service.refused.note(refused, None, "page", "page")
        raise
    if READ not in caller.scopes:
        message = "the page shows the sessions of the team; this token does not read them"
        raise RequestRefused("forbidden", message, "use `recollect team`")
    return caller


async def open_session(service: Service, token: str, address: str) -> str:
    """A session for a browser whose owner has a token that may read."""
    caller = await admit(service, f"Bearer {token}", address)
    with _available():
        return await opened_page(service.database, caller.user, caller.author, SESSION_MS, caller.token)


async def token_end(service: Service, member: Caller) -> int | None:
    """When the token that opened the session ends, if it was opened with one."""
    token = None
    with contextlib.suppress(Unavailable):
        if member.token.parent is not None:
            token = await service.database.token(member.org.id, member.token.parent)
    return None if token is None else token.end


async def begin(service: Service, organisation: str, place: str, address: str) -> tuple[str, str]:
    """The identity provider's address, and what the browser brings back."""
    with _available():
        return await _sign_in(service, address).begin(organisation, place)


async def finish(service: Service, cookie: str, query: dict[str, str], address: str) -> tuple[str, str]:
    """A session for the person who signed in, and where on the page they were."""
    try:
        with _available():
            return await _sign_in(service, address).finish(cookie, query)
    except RequestRefused as refused:
        await service.refused.note(refused, None, "sign-in", "sign-in")
        raise


def _sign_in(service: Service, address: str) -> SignIns:
    wait = service.failures.wait(address)
    if wait:
        raise too_many(wait)
    if service.sign_in is None:
        raise not_found()
    return service.sign_in


@contextlib.contextmanager
def _available() -> Iterator[None]:
    try:
        yield
    except Unavailable as problem:
        raise refusal_of(problem) from None


class _LoopCaller:
    """Asks the database from threads other than the event loop's."""

    def __init__(self, service: Service, org: str) -> None:
        self._service, self._database, self._org = service, service.database, org

    def _on_loop(self, question: Coroutine[Any, Any, _T]) -> _T:
        """A result from the event loop, which may end at any time."""
        loop = self._service.loop
        if loop is None:
            question.close()
            raise _no_answer()
        try:
            answer = asyncio.run_coroutine_threadsafe(question, loop)
        except RuntimeError:
            question.close()
            raise _no_answer() from None
        deadline = time.monotonic() + _SECONDS
        while not concurrent.futures.wait((answer,), _LOOK_EVERY).done:
            if loop.is_closed() or time.monotonic() > deadline:
                answer.cancel()
                raise _no_answer()
        try:
            return answer.result()
        except BodyLost as lost:
            raise Busy(
                f"the object with a part of this session {lost.what}",
                hint=f"tell the operator to restore {lost.name} in the object store",
            ) from None
        except (Unavailable, TimeoutError, concurrent.futures.CancelledError):
            raise _no_answer() from None


class MemberSource(_LoopCaller):
    """What one member may see of an organisation: the answers of /v1 to that member; ``NoAnswer`` while the database
    does not answer."""

    def __init__(self, service: Service, member: Caller) -> None:
        super().__init__(service, member.org.id)
        self._reader = member.reader

    def sessions(self) -> list[RemoteSession]:
        """All that the member may see, newest change first."""
        found: list[RemoteSession] = []
        page = self._page(None)
        while page:
            found += page
            page = self._page((page[-1].changed, page[-1].id)) if len(page) == _AT_ONCE else []
        return found

    def _page(self, before: tuple[int, str] | None) -> list[RemoteSession]:
        question = self._database.sessions(self._org, SessionFilter(), before, _AT_ONCE, self._reader)
        return self._on_loop(question)

    def may_read(self, session: str) -> bool:
        """Whether the member may see a session now."""
        access = self._on_loop(self._database.access(self._org, session, self._reader))
        return access is not None and access.is_visible and not access.is_deleted

    def cost(self, by: Sequence[str], since: int | None = None, until: int | None = None) -> TeamCostReport:
        """What `recollect team cost` reports."""
        return self._on_loop(team_report(self._service, self._org, by, (since, until), reader=self._reader))

    def search(self, wanted: LineSearch) -> LineHits:
        """What `recollect team search` finds, newest first."""
        return self._on_loop(found_lines(self._service, self._org, wanted._replace(reader=self._reader)))


class OrganizationSource(_LoopCaller):
    """The bytes of an organisation's sessions; who reads the copies asks first whether the member may."""

    def session(self, session: str) -> SessionDetail | None:
        return self._on_loop(self._database.session(self._org, session))

    def read(self, session: str, key: str, after: Position) -> Iterator[bytes]:
        """Whole lines after a position, some megabytes at a time: each query is a round trip."""
        pieces = self._on_loop(self._begun(session, key, after))
        while data := self._on_loop(_next_megabytes(pieces)):
            yield data

    async def _begun(self, session: str, key: str, after: Position) -> AsyncIterator[bytes]:
        """The lines after a former position of the log."""
        head = await self._database.head(self._org, session, key)
        if head is None or await self._database.session(self._org, session) is None:
            raise SessionGone
        place = None
        if after.lines <= head.lines:
            place = await self._database.place(self._org, session, key, after.lines)
        if place is None or place.position != after:
            raise PositionConflict(head)
        return self._lines(session, key, after.lines, head.lines)

    async def _lines(self, session: str, key: str, after: int, until: int) -> AsyncIterator[bytes]:
        async for segment in self._database.segments(self._org, session, key, after, until):
            yield segment.between(after, until)

    def file(self, session: str, key: str) -> bytes | None:
        found = self._on_loop(self._database.file(self._org, session, key))
        return None if found is None else found[1]


async def _next_megabytes(pieces: AsyncIterator[bytes]) -> bytes:
    """The next few megabytes; empty at the end."""
    found: list[bytes] = []
    async for piece in pieces:
        found.append(piece)
        if sum(map(len, found)) > _BYTES_AT_ONCE:
            break
    return b"".join(found)


def _no_answer() -> NoAnswer:
    return NoAnswer("the database is not available", hint="try again in a moment")
