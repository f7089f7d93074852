"""What is going on right now: the sessions some client has open, what they cost, how fast.

One look brings the index up to date, asks it about every open session and closes it again: a
view that runs for days must not hold on to an index that was replaced, nor gather
anything.

A look answers with plain values that are equal where nothing has changed. So that they are,
time counts in whole minutes: speed and what is left of a block change once a minute at most.

Where the index cannot be read, only what the clients say of themselves is known, and the answer says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from decimal import Decimal

import apsw
from msgspec import Struct, structs

from recollect.ask.cost.local_day import today
from recollect.errors import DamagedData, StorageError
from recollect.index import catalogue, glimpse
from recollect.index.access import OpenIndex
from recollect.index.cost_queries import first_at
from recollect.index.database import IndexDatabase
from recollect.model.budget import BLOCK_QUARTERS, BurnRate
from recollect.model.cost.money import exact, usd
from recollect.model.cost.prices import PriceList
from recollect.model.lines.blocks import Tokens
from recollect.store.home import ClaudeHome
from recollect.store.live import LiveSession, live_sessions

RECENT_MINUTES = 10
_MINUTE = 60
_QUARTER = 900


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

    def look(self, now: float | None = None) -> WatchSnapshot:
        """What is going on, as of the minute of ``now`` (seconds since 1970)."""
        minute = int(time.time() if now is None else now) // _MINUTE * _MINUTE
        live = list(_open_sessions(self._homes))
        try:
            with self._opener() as opened:
                # All figures are of one moment, whatever another process is adding meanwhile.
                opened.database.connection.execute("BEGIN")
                return self._from_index(opened.database, live, minute, _notes(opened))
        except (DamagedData, StorageError) as problem:
            notes = (problem.message,)
        except apsw.Error as problem:
            notes = (f"the index cannot be read: {problem}",)
        return WatchSnapshot(tuple(_known_of(one) for _, one in live), notes=notes)

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


def _known_of(live: LiveSession) -> WatchedSession:
    """What the client's marker says."""
    return WatchedSession(
        str(live.session_id), live.pid, live.certain, live.status or "open", live.name or "", live.cwd or ""
    )


class WatchedSessionDocument(Struct, frozen=True, kw_only=True):
    """An open session. ``certain``: its client is running; amounts are null where nothing is known."""

    id: str
    pid: int
    certain: bool
    state: str
    title: str
    cwd: str
    branch: str
    model: str
    input_tokens: int
    output_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cache_read_tokens: int
    web_searches: int
    cost_usd: str | None
    recent_minutes: int
    recent_cost_usd: str | None
    cost_usd_per_hour: str | None
    context_tokens: int | None
    context_window: int | None
    unpriced: Sequence[str]


class ActiveBlockDocument(Struct, frozen=True, kw_only=True):
    """The block of five hours that is running."""

    start: str
    end: str
    minutes_left: int
    cost_usd: str
    tokens_per_minute: int
    cost_usd_per_hour: str
    projected_cost_usd: str


class WatchDocument(Struct, frozen=True, kw_only=True):
    """One look at what is open."""

    sessions: list[WatchedSessionDocument]
    today_cost_usd: str | None
    block: ActiveBlockDocument | None
    unpriced: Sequence[str]
    notes: Sequence[str]


def watch_document(watched: WatchSnapshot) -> WatchDocument:
    return WatchDocument(
        sessions=[_session(one) for one in watched.sessions],
        today_cost_usd=_amount(watched.today_pico_usd),
        block=None if watched.block is None else _block(watched.block),
        unpriced=watched.unpriced,
        notes=watched.notes,
    )


def _session(session: WatchedSession) -> WatchedSessionDocument:
    tokens = session.tokens
    return WatchedSessionDocument(
        id=session.id,
        pid=session.pid,
        certain=session.is_certain,
        state=session.state,
        title=session.title,
        cwd=session.cwd,
        branch=session.branch,
        model=session.model,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_write_5m_tokens=tokens.cache_write_5m,
        cache_write_1h_tokens=tokens.cache_write_1h,
        cache_read_tokens=tokens.cache_read,
        web_searches=tokens.web_searches,
        cost_usd=_amount(session.pico_usd),
        recent_minutes=RECENT_MINUTES,
        recent_cost_usd=_amount(session.recent_pico_usd),
        cost_usd_per_hour=_amount(session.pico_usd_per_hour),
        context_tokens=session.context_tokens,
        context_window=session.context_window,
        unpriced=session.unpriced,
    )


def _block(block: ActiveBlock) -> ActiveBlockDocument:
    return ActiveBlockDocument(
        start=_utc(block.start),
        end=_utc(block.end),
        minutes_left=block.minutes_left,
        cost_usd=exact(block.pico_usd),
        tokens_per_minute=block.tokens_per_minute,
        cost_usd_per_hour=exact(block.pico_usd_per_hour),
        projected_cost_usd=exact(block.projected_pico_usd),
    )


def _amount(pico: int | None) -> str | None:
    return None if pico is None else exact(pico)


def _utc(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
