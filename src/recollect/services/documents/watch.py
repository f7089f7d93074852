"""What ``watch --json`` prints: the open sessions, and the block of time that is running."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct

from recollect.model.cost.money import exact
from recollect.services.watch import RECENT_MINUTES, ActiveBlock, WatchedSession, WatchSnapshot


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
