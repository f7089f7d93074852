"""What was spent lately: today, in seven days, in thirty, for overviews.

Days are local ones and today is one of them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from recollect.services.cost.report import costs
from recollect.services.indexing.access import OpenIndex

_DAYS = 30


class RecentCosts(Struct, frozen=True):
    """Pico-dollars. What ``unpriced`` models used is in none of them."""

    today: int
    last_7_days: int
    last_30_days: int
    all_time: int | None = None  # known with an index only: without one, every byte would have to be read
    unpriced: tuple[str, ...] = ()
    uncertain: int = 0
    notes: tuple[str, ...] = ()
    unrecorded_sessions: int = 0  # of other agents, in all: what they cost is unknown
    is_unknown: bool = False  # there is nothing but those


def recent_costs(homes: Sequence[Path], opened: OpenIndex, now: dt.datetime) -> RecentCosts:
    """Add up the last thirty days."""
    today = now.astimezone().date()
    first = dt.datetime.combine(today - dt.timedelta(days=_DAYS - 1), dt.time.min).astimezone()
    report = costs(homes, ["day"], opened=opened, since=first, now=now)
    spent = {row.keys["day"]: row.pico_usd for row in report.rows}

    def since(days: int) -> int:
        start = (today - dt.timedelta(days=days - 1)).isoformat()
        return sum(amount for day, amount in spent.items() if start <= day <= today.isoformat())

    whole = None if opened.database is None else costs(homes, [], opened=opened, now=now)
    return RecentCosts(
        since(1),
        since(7),
        since(_DAYS),
        None if whole is None else whole.totals.pico_usd,
        tuple(one.model for one in report.unpriced),
        sum(one.responses for one in report.uncertain),
        tuple(opened.notes),
        0 if whole is None else whole.unrecorded_sessions,
        whole is not None and whole.is_unknown,
    )
