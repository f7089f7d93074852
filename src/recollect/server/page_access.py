"""What a page for members needs of this server: authentication, and the sessions of one organisation.

Authentication is that of /v1, with the same limits but without a cache: a revoked token is refused at
the next request. Sessions are read from threads; every query runs on the server's event loop, and
cannot name another organisation.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from recollect.errors import Busy, NoAnswer
from recollect.server.app import admitted
from recollect.server.database.contract import BodyLost, Unavailable
from recollect.server.database.records import Author, LineSearch, Segment, SessionFilter, SessionReader
from recollect.server.refusals import RequestRefused, not_found, too_many
from recollect.server.routes.team import found_lines, team_costs
from recollect.server.service import Service
from recollect.server.team import TeamCostReport, cost_report
from recollect.server.tenancy import PAGE_SCHEME, READ, Caller, end_of, opened_page
from recollect.services.page.members import AccessDenial, Member
from recollect.services.page.team.source import FoundLine, FoundLines, LineQuestion
from recollect.sync.remote import PositionConflict, SessionGone, lines_of
from recollect.sync.wire import Position, RemoteSession, SessionDetail, SignInOffer

if TYPE_CHECKING:
    from recollect.server.oidc.sign_in import SignIns

_T = TypeVar("_T")
# A session that a token opened; one of an identity provider lasts as its settings say.
SESSION_MS = 12 * 3_600_000
_SECONDS, _LOOK_EVERY = 60.0, 0.5
_AT_ONCE, _BYTES_AT_ONCE = 1_000, 4 << 20


class TokenAuthenticator:
    """Admits browsers with a session that a token, or an identity provider, opened."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Remember the event loop; called on it."""
        self._loop = asyncio.get_running_loop()

    def copies_of(self, org: str) -> OrganizationSource:
        """The bytes of an organisation's sessions, for copies that its members share."""
        return OrganizationSource(self._service, org, self._running())

    def seen_by(self, member: Member) -> MemberSource:
        """What an admitted member may ask."""
        return MemberSource(self._service, member, self._running())

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise _no_answer()
        return self._loop

    async def admitted(self, secret: str, address: str) -> Member | AccessDenial:
        """The member, looked up each time."""
        self.start()

        async def asked() -> Member:
            caller = await admitted(self._service, f"{PAGE_SCHEME} {secret}", address, READ, is_fresh=True)
            return _member(_reading_all(caller))

        return await _granted(asked)

    async def opened(self, token: str, address: str) -> str | AccessDenial:
        """A session for a browser whose owner has a token that may read."""

        async def asked() -> str:
            caller = await admitted(self._service, f"Bearer {token}", address, READ, is_fresh=True)
            _reading_all(caller)
            database = self._service.database
            return await opened_page(database, caller.user, caller.author, SESSION_MS, caller.token)

        return await _granted(asked)

    async def closed(self, member: Member) -> None:
        """End a session: its cookie opens nothing any more."""
        with contextlib.suppress(Unavailable):
            await self._service.database.revoke_token(
                member.organization, member.token, Author(member.id, member.token)
            )

    async def token_end(self, member: Member) -> int | None:
        """When the token that opened the session ends, if it was opened with one."""
        if member.opened_by is None:
            return None
        with contextlib.suppress(Unavailable):
            token = await self._service.database.token(member.organization, member.opened_by)
            return None if token is None else end_of(token)
        return None

    # --- identity providers ----------------------------------------------------------------------

    def offer(self) -> SignInOffer:
        """Whether there is an identity provider to sign in with."""
        sign_in = self._service.sign_in
        return SignInOffer(False) if sign_in is None else sign_in.offer()

    async def begun(self, organisation: str, place: str, address: str) -> tuple[str, str] | AccessDenial:
        """The provider's address, and what the browser brings back."""

        async def asked() -> tuple[str, str]:
            return await self._sign_in(address).begin(organisation, place)

        return await _granted(asked)

    async def finished(
        self, cookie: str, query: dict[str, str], address: str
    ) -> tuple[str, str] | AccessDenial:
        """A session for the person who signed in, and where on the page they were."""

        async def asked() -> tuple[str, str]:
            try:
                return await self._sign_in(address).finish(cookie, query)
            except RequestRefused as refused:
                await self._service.refused.note(refused, None, "sign-in", "sign-in")
                raise

        return await _granted(asked)

    def _sign_in(self, address: str) -> SignIns:
        wait = self._service.failures.wait(address)
        if wait:
            raise too_many(wait)
        if self._service.sign_in is None:
            raise not_found()
        return self._service.sign_in


async def _granted(asked: Callable[[], Awaitable[_T]]) -> _T | AccessDenial:
    """An answer, or why there is none."""
    try:
        return await asked()
    except RequestRefused as refused:
        return AccessDenial(refused.status, refused.message, refused.hint, refused.headers.get("Retry-After"))
    except Unavailable:
        return AccessDenial(503, "the database is not available", "try again in a moment", "2")


def _reading_all(caller: Caller) -> Caller:
    if READ not in caller.scopes:
        raise RequestRefused(
            403,
            "forbidden",
            "the page shows the sessions of the team; this token does not read them",
            "use `recollect team`",
        )
    return caller


def _member(caller: Caller) -> Member:
    org, user, token = caller.org, caller.user, caller.token
    return Member(
        org.id,
        org.name,
        user.name,
        user.role,
        token.id,
        org.retention_days,
        id=user.id,
        ends=token.expires,
        opened_by=token.parent,
    )


class _LoopCaller:
    """Asks the database from threads other than the event loop's."""

    def __init__(self, service: Service, org: str, loop: asyncio.AbstractEventLoop) -> None:
        self._service, self._database = service, service.database
        self._org, self._loop = org, loop

    def _on_loop(self, question: Callable[[], Awaitable[_T]]) -> _T:
        """A result from the event loop, which may end at any time; then the query is cancelled."""
        answer: concurrent.futures.Future[_T] = concurrent.futures.Future()
        try:
            self._loop.call_soon_threadsafe(_begin, question, answer)
        except RuntimeError:
            raise _no_answer() from None
        deadline = time.monotonic() + _SECONDS
        while not concurrent.futures.wait((answer,), _LOOK_EVERY).done:
            if self._loop.is_closed() or time.monotonic() > deadline:
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
    """What one member may see of an organisation: the answers of /v1 to that member."""

    def __init__(self, service: Service, member: Member, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(service, member.organization, loop)
        self._reader = SessionReader(member.id)

    def sessions(self) -> list[RemoteSession]:
        """Newest change first."""
        found = page = self._page(None)
        while len(page) == _AT_ONCE:
            page = self._page((page[-1].changed, page[-1].id))
            found = found + page
        return found

    def _page(self, before: tuple[int, str] | None) -> list[RemoteSession]:
        return self._on_loop(
            lambda: self._database.sessions(self._org, SessionFilter(), before, _AT_ONCE, self._reader)
        )

    def may_read(self, session: str) -> bool:
        access = self._on_loop(lambda: self._database.access(self._org, session, self._reader))
        return access is not None and access.is_visible and not access.is_deleted

    def cost(self, by: Sequence[str], since: int | None = None, until: int | None = None) -> TeamCostReport:
        costs = self._on_loop(
            lambda: team_costs(self._service, self._org, by, (since, until), reader=self._reader)
        )
        return cost_report(costs)

    def search(self, question: LineQuestion) -> FoundLines:
        wanted = LineSearch(
            question.query,
            question.limit,
            since=question.since,
            until=question.until,
            reader=self._reader,
        )
        found, more, searched_to = self._on_loop(
            lambda: found_lines(self._service, self._org, wanted, question.width)
        )
        return FoundLines([FoundLine(*one[:5], shown) for one, shown in found], more, searched_to)


class OrganizationSource(_LoopCaller):
    """The bytes of an organisation's sessions; who reads the copies asks first whether the member may."""

    def session(self, session: str) -> SessionDetail | None:
        return self._on_loop(lambda: self._database.session(self._org, session))

    def read(self, session: str, key: str, after: Position) -> Iterator[bytes]:
        """Whole lines after a position, some megabytes at a time."""
        segments, data = self._on_loop(lambda: self._begun(session, key, after))
        while data:
            yield data
            data = self._on_loop(lambda: _next_megabytes(segments))

    async def _begun(self, session: str, key: str, after: Position) -> tuple[AsyncIterator[bytes], bytes]:
        """The first lines after a former position of the log, and the rest: each query is a round trip."""
        head = await self._database.head(self._org, session, key)
        if head is None or await self._database.session(self._org, session) is None:
            raise SessionGone
        place = None
        if after.lines <= head.lines:
            place = await self._database.place(self._org, session, key, after.lines)
        if place is None or place.position != after:
            raise PositionConflict(head)
        segments = self._lines(session, key, after.lines, head.lines)
        return segments, await _next_megabytes(segments)

    async def _lines(self, session: str, key: str, after: int, until: int) -> AsyncIterator[bytes]:
        async for segment in self._database.segments(self._org, session, key, after, until):
            yield _cut(segment, after, until)

    def file(self, session: str, key: str) -> bytes | None:
        found = self._on_loop(lambda: self._database.file(self._org, session, key))
        return None if found is None else found.data


async def _next_megabytes(pieces: AsyncIterator[bytes]) -> bytes:
    """The next few megabytes; empty at the end."""
    found: list[bytes] = []
    async for piece in pieces:
        found.append(piece)
        if sum(map(len, found)) > _BYTES_AT_ONCE:
            break
    return b"".join(found)


def _begin(question: Callable[[], Awaitable[_T]], answer: concurrent.futures.Future[_T]) -> None:
    asked = asyncio.ensure_future(question())
    asked.add_done_callback(lambda done: _settle(done, answer))


def _settle(asked: asyncio.Future[_T], answer: concurrent.futures.Future[_T]) -> None:
    if asked.cancelled():
        answer.cancel()
        answer.set_running_or_notify_cancel()
    elif (problem := asked.exception()) is not None:
        answer.set_exception(problem)
    else:
        answer.set_result(asked.result())


def _no_answer() -> NoAnswer:
    return NoAnswer("the database is not available", hint="try again in a moment")


def _cut(segment: Segment, after: int, until: int) -> bytes:
    first = segment.first_line
    if first >= after and first + segment.lines <= until:
        return segment.data
    return b"".join(list(lines_of(segment.data))[max(after - first, 0) : until - first])
