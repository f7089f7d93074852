"""What is going on right now: the sessions some client has open, what they cost, how fast.

One look brings the index up to date, asks it about every open session and closes it again: a
view that runs for days must not hold on to an index that was replaced, nor gather
anything.

A look answers with plain values that are equal where nothing has changed. So that they are,
time counts in whole minutes: speed and what is left of a block change once a minute at most.

Where there is no index, the logs of the open sessions are read instead; what was spent today
and in this block is then not known, and the answer says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal

import apsw
from msgspec import Struct, structs

from recollect.errors import DamagedData, NotFound, StorageError
from recollect.index import catalogue, glimpse
from recollect.index.cost_queries import first_at
from recollect.index.database import IndexDatabase
from recollect.model.cost.billing_blocks import BLOCK_QUARTERS, BurnRate
from recollect.model.cost.money import usd
from recollect.model.cost.prices import PriceList
from recollect.model.cost.usage import Tokens
from recollect.services.cost.local_day import today
from recollect.services.indexing.access import OpenIndex
from recollect.services.session import Session
from recollect.storage.home import ClaudeHome
from recollect.storage.live import LiveSession, live_sessions

RECENT_MINUTES = 10
_MINUTE = 60
_QUARTER = 900
_Signature = tuple[tuple[str, int, int], ...]
_NO_INDEX = "without the index, what was spent today and in this block is not known"


class WatchedSession(Struct, frozen=True):
    """A session that a client says it has open. Money is pico-dollars; None where it is not known.

    ``recent_pico_usd`` is what the last ten minutes cost, ``pico_usd_per_hour`` the same as a speed.
    ``context_window`` is what the log lets us conclude; only the client knows.
    """

    id: str
    pid: int
    is_certain: bool
    state: str
    title: str = ""
    cwd: str = ""
    branch: str = ""
    model: str = ""
    tokens: Tokens = Tokens()
    pico_usd: int | None = None
    unpriced: tuple[str, ...] = ()
    recent_pico_usd: int | None = None
    pico_usd_per_hour: int | None = None
    context_tokens: int | None = None
    context_window: int | None = None

    @property
    def usd(self) -> Decimal | None:
        """What it cost so far, in dollars, exact."""
        return _usd(self.pico_usd)

    @property
    def recent_usd(self) -> Decimal | None:
        """What the last ten minutes cost, in dollars, exact."""
        return _usd(self.recent_pico_usd)

    @property
    def usd_per_hour(self) -> Decimal | None:
        """The last ten minutes as dollars an hour, exact."""
        return _usd(self.pico_usd_per_hour)


class ActiveBlock(Struct, frozen=True):
    """The running five-hour block. Times are seconds since 1970."""

    start: int
    end: int
    pico_usd: int
    minutes_left: int
    tokens_per_minute: int
    pico_usd_per_hour: int
    projected_pico_usd: int

    @property
    def usd(self) -> Decimal:
        """What the block cost so far, in dollars, exact."""
        return usd(self.pico_usd)

    @property
    def usd_per_hour(self) -> Decimal:
        """Dollars an hour, exact."""
        return usd(self.pico_usd_per_hour)

    @property
    def projected_usd(self) -> Decimal:
        """What the block will come to at this speed, in dollars."""
        return usd(self.projected_pico_usd)


class WatchSnapshot(Struct, frozen=True):
    """One look. ``unpriced`` names the models that were used today and are in no amount."""

    sessions: tuple[WatchedSession, ...]
    today_pico_usd: int | None = None
    block: ActiveBlock | None = None
    unpriced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def today_usd(self) -> Decimal | None:
        """What was spent today, in dollars, exact; None where it is not known."""
        return _usd(self.today_pico_usd)


class Watcher:
    """Looks again and again at the same homes. ``opener`` opens their index again for each look."""

    def __init__(
        self,
        homes: Sequence[ClaudeHome],
        opener: Callable[[], AbstractContextManager[OpenIndex]],
        prices: PriceList,
    ) -> None:
        self._homes = homes
        self._opener = opener
        self._prices = prices
        self._logs_read: dict[str, tuple[_Signature, WatchedSession]] = {}

    def look(self, now: float | None = None) -> WatchSnapshot:
        """What is going on, as of the minute of ``now`` (seconds since 1970)."""
        minute = int(time.time() if now is None else now) // _MINUTE * _MINUTE
        live = list(_open_sessions(self._homes))
        try:
            with self._opener() as opened:
                if opened.database is not None:
                    # All figures are of one moment, whatever another process is adding meanwhile.
                    opened.database.connection.execute("BEGIN")
                    return self._from_index(opened.database, live, minute, _notes(opened))
                notes = _notes(opened)
        except (DamagedData, StorageError) as problem:
            notes = (problem.message,)
        except apsw.Error as problem:
            notes = (f"the index cannot be read: {problem}",)
        return WatchSnapshot(tuple(self._from_logs(live)), notes=(*notes, _NO_INDEX))

    def _from_index(
        self,
        database: IndexDatabase,
        live: list[tuple[ClaudeHome, LiveSession]],
        now: int,
        notes: tuple[str, ...],
    ) -> WatchSnapshot:
        sessions = tuple(self._session(database, one, now) for _, one in live)
        usage = glimpse.usage_between(database.connection, *today(now))
        spent, unpriced = glimpse.priced(usage, self._prices)
        return WatchSnapshot(sessions, spent, self._block(database, now), tuple(sorted(unpriced)), notes)

    def _session(self, database: IndexDatabase, live: LiveSession, now: int) -> WatchedSession:
        index, name = database.connection, str(live.session_id)
        row = catalogue.newest_of(database, name)
        usage = glimpse.session_usage(index, name)
        spent, unpriced = glimpse.priced(usage, self._prices)
        since = (now - RECENT_MINUTES * _MINUTE) * 1000
        recent, _ = glimpse.priced(glimpse.session_usage(index, name, since), self._prices)
        context = glimpse.newest_context(index, name)
        known = _known_of(live)
        return structs.replace(
            known,
            title=(row and row.title) or known.title,
            cwd=(row and row.cwd) or known.cwd,
            branch=(row and row.branch) or "",
            model=context[1] if context else "",
            tokens=_tokens(usage),
            pico_usd=spent,
            unpriced=tuple(sorted(unpriced)),
            recent_pico_usd=recent,
            pico_usd_per_hour=recent * 60 // RECENT_MINUTES,
            context_tokens=context[0] if context else None,
            context_window=glimpse.window_of(context[1], context[2]) if context else None,
        )

    def _block(self, database: IndexDatabase, now: int) -> ActiveBlock | None:
        index = database.connection
        start = glimpse.block_start(index, now // _QUARTER)
        if start is None:
            return None
        end = start + BLOCK_QUARTERS
        usage = glimpse.usage_between(index, start, end)
        spent, _ = glimpse.priced(usage, self._prices)
        first = first_at(database, min(quarter for _, quarter, *_ in usage))
        burn = BurnRate(_tokens(usage).total, spent, first or start * _QUARTER * 1000, now * 1000, end)
        return ActiveBlock(
            start * _QUARTER,
            end * _QUARTER,
            spent,
            burn.minutes_left,
            burn.tokens_per_minute,
            burn.pico_usd_per_hour,
            burn.projected_pico_usd,
        )

    def _from_logs(self, live: Iterable[tuple[ClaudeHome, LiveSession]]) -> Iterator[WatchedSession]:
        """As far as the logs themselves say; only those that have changed are read again."""
        before, self._logs_read = self._logs_read, {}
        for home, one in live:
            known = _known_of(one)
            file = next((log for log in home.sessions() if str(log.id) == known.id), None)
            if file is None:
                yield known
                continue
            session = Session(home, file)
            signature = _signature(session)
            if before.get(known.id, ((), known))[0] != signature:
                before[known.id] = (signature, _read(session, known))
            found = before[known.id][1]
            self._logs_read[known.id] = (signature, found)
            yield structs.replace(found, pid=known.pid, is_certain=known.is_certain, state=known.state)


def _usd(pico_usd: int | None) -> Decimal | None:
    return None if pico_usd is None else usd(pico_usd)


def _notes(opened: OpenIndex) -> tuple[str, ...]:
    problems = opened.refreshed.problems if opened.refreshed else []
    return (*opened.notes, *(f"could not be read: {path}: {reason}" for path, reason in problems))


def _open_sessions(homes: Sequence[ClaudeHome]) -> Iterator[tuple[ClaudeHome, LiveSession]]:
    """Each session once, by the last process that has it open; the order is that of the processes."""
    found = {str(one.session_id): (home, one) for home in homes for one in live_sessions(home)}
    return iter(found.values())


def _tokens(usage: Iterable[glimpse.GlimpsedUsage]) -> Tokens:
    return sum((Tokens(*counts) for _, _, _, *counts in usage), Tokens())


def _signature(session: Session) -> _Signature:
    logs = [session.file, *session.agents()]
    return tuple((str(log.path), log.size, log.mtime_ns) for log in logs)


def _read(session: Session, known: WatchedSession) -> WatchedSession:
    """What its logs say. Each is read from start to end."""
    try:
        spent = session.spending()
        return structs.replace(
            known,
            title=session.title or known.title,
            cwd=session.cwd or known.cwd,
            branch=session.glance.git_branch or "",
            tokens=spent.tokens,
            pico_usd=spent.pico_usd,
            unpriced=tuple(sorted(spent.unpriced)),
        )
    except (NotFound, StorageError):
        return known


def _known_of(live: LiveSession) -> WatchedSession:
    """What the client's marker says."""
    return WatchedSession(
        str(live.session_id), live.pid, live.certain, live.status or "open", live.name or "", live.cwd or ""
    )
