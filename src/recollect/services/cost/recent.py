"""What was spent lately: today, in seven days, in thirty, for whoever just looks in.

Days are local ones and today is one of them. Uses the index where there is one, or where the
logs are so few that building it takes a moment; otherwise the logs are read for usage only,
because a first look must not wait for every text to be indexed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.services.cost.report import costs
from recollect.services.indexing.access import OpenIndex, index_path, is_built, open_index
from recollect.services.indexing.refresh import Progress

_SOON_INDEXED = 64 << 20
_DAYS = 30


class RecentCosts(Struct, frozen=True):
    """Pico-dollars. What ``unpriced`` models used is in none of them."""

    today: int
    last_7_days: int
    last_30_days: int
    unpriced: tuple[str, ...] = ()
    uncertain: int = 0
    notes: tuple[str, ...] = ()


@contextlib.contextmanager
def index_at_hand(
    homes: Sequence[Path], size: int, *, cache: Path | None = None, progress: Progress | None = None
) -> Iterator[OpenIndex]:
    """The index if it is there or soon made; else one without a database, for readers that can do without."""
    path = index_path(homes, cache)
    if size > _SOON_INDEXED and not is_built(path):
        yield OpenIndex(homes, path)
        return
    with open_index(homes, cache=cache, progress=progress) as opened:
        yield opened


def recent_costs(homes: Sequence[Path], opened: OpenIndex, now: dt.datetime) -> RecentCosts:
    """Add up the last thirty days."""
    today = now.astimezone().date()
    first = dt.datetime.combine(today - dt.timedelta(days=_DAYS - 1), dt.time.min).astimezone()
    report = costs(homes, ["day"], opened=opened, since=first, now=now)
    spent = {row.keys["day"]: row.pico_usd for row in report.rows}

    def since(days: int) -> int:
        start = (today - dt.timedelta(days=days - 1)).isoformat()
        return sum(amount for day, amount in spent.items() if start <= day <= today.isoformat())

    return RecentCosts(
        since(1),
        since(7),
        since(_DAYS),
        tuple(one.model for one in report.unpriced),
        sum(one.messages for one in report.uncertain),
        tuple(opened.notes),
    )
