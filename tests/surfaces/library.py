"""The library, and its twin for event loops."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path

import recollect
from recollect import aio
from recollect.ask.sessions.messages import agent_count
from recollect.model.cost.report import CostRow
from tests.client_parser import client_lines
from tests.surfaces.case import Case
from tests.surfaces.record import (
    FIELDS,
    TOKENS,
    UNRECORDED,
    USAGE,
    Record,
    Records,
    Surface,
    nothing_used,
    priced_cost,
)

_PICO = 10**12
_SAID = ("messages", "lines", "agents", "damaged", "responses")


def library(case: Case, *, index: bool = True) -> Records:
    """Everything, as ``recollect.Home`` has it: what all others are compared with."""
    home = recollect.Home(case.home, data=case.data, index=index)
    used = _used(home.costs("session").rows)
    return {
        session.id: {
            **_told(session),
            **used.get(session.id, nothing_used()),
            UNRECORDED: session.spending().is_unknown,
        }
        for session in home.sessions()
    }


def surfaces(case: Case) -> Iterator[Surface]:
    """The other ways to ask the library."""
    sessions = list(recollect.Home(case.home, data=case.data).sessions())
    spent = {one.id: _spent(one.spending()) for one in sessions}
    yield Surface("Session.spending", (*TOKENS, "cost_usd", "is_unpriced", UNRECORDED), spent)
    yield _arrow(case)
    yield Surface("Session.counts", _SAID, {one.id: _counted(one.counts()) for one in sessions})
    yield Surface("recollect.Home(index=False)", FIELDS, library(case, index=False))
    yield Surface("recollect.aio", FIELDS, asyncio.run(_awaited(case)))


def _arrow(case: Case) -> Surface:
    """The table of sessions; the lake and ``sql`` take theirs from the same columns."""
    rows = recollect.Home(case.home, data=case.data).sessions().to_arrow().to_pylist()
    records: Records = {
        row["id"]: {
            **{name: row[name.removesuffix("_tokens")] for name in ("agents", "responses", *TOKENS)},
            "cost_usd": row["usd"],
            "is_unpriced": bool(row["unpriced_responses"]),
            UNRECORDED: row["usd"] is None and not row["unpriced_responses"],
        }
        for row in rows
    }
    return Surface("to_arrow", ("agents", *USAGE, UNRECORDED), records, {"cost_usd": _priced})


def _priced(one: Record) -> object:
    return None if one[UNRECORDED] else priced_cost(one)


def _told(session: recollect.Session) -> Record:
    """Each fact by the call that is about it."""
    messages = 0
    with contextlib.suppress(recollect.NotFound):
        messages = len(session.conversation().messages)
    return {
        "title": session.title,
        "cwd": session.cwd,
        "directory": session.path.parent.name,
        "first_at": session.glance.first_at,
        "last_at": session.glance.last_at,
        "messages": messages,
        "lines": _lines(session.path),
        "agents": agent_count(session),
        "tag": session.glance.tag,
        "damaged": len(session.damage()),
    }


def _lines(log: Path) -> int:
    """As an editor counts them, a last one without a newline included if it is whole."""
    return _lines_in(log.read_bytes())


@functools.lru_cache(maxsize=1_000)
def _lines_in(data: bytes) -> int:
    whole = data[: client_lines(data)[1]]
    return whole.count(b"\n") + bool(whole) - whole.endswith(b"\n")


def _counted(counts: recollect.SessionCounts) -> Record:
    return {name: getattr(counts, name) for name in _SAID}


def _used(rows: Iterable[CostRow]) -> dict[str, Record]:
    return {
        row.keys["session"]: {
            **_spent(recollect.Spending(row.tokens, row.pico_usd)),
            "responses": row.responses,
            "is_unpriced": bool(row.unpriced_responses),
        }
        for row in rows
    }


def _spent(spending: recollect.Spending) -> Record:
    tokens = spending.tokens
    return {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_write_5m_tokens": tokens.cache_write_5m,
        "cache_write_1h_tokens": tokens.cache_write_1h,
        "cache_read_tokens": tokens.cache_read,
        "web_searches": tokens.web_searches,
        "cost_usd": Decimal(spending.pico_usd) / _PICO,
        "is_unpriced": bool(spending.unpriced),
        UNRECORDED: spending.is_unknown,
    }


async def _awaited(case: Case) -> Records:
    home = aio.Home(case.home, data=case.data)
    used = _used((await home.costs("session")).rows)
    found: Records = {}
    async for session in home.sessions():
        seen, spent = await session.glance(), await session.spending()
        found[session.id] = {
            "title": await session.title(),
            "cwd": await session.cwd(),
            "first_at": seen.first_at,
            "last_at": seen.last_at,
            "tag": seen.tag,
            **used.get(session.id, nothing_used()),
            **_spent(spent),
            **_counted(await session.counts()),
        }
    return found
