"""Today begins and ends where the clock on the wall says so."""

from __future__ import annotations

import datetime as dt
import time
import zoneinfo
from collections.abc import Iterator

import pytest

from recollect.ask.cost.local_day import today

QUARTER = 900


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Whatever zone a test sets is gone after it."""
    if not hasattr(time, "tzset"):
        pytest.skip("the zone of a running process cannot be changed here")
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "day", "quarters"),
    [
        ("UTC", "2026-11-15", 96),
        ("Asia/Kathmandu", "2026-11-15", 96),  # 5:45 h before Greenwich
        ("Europe/Berlin", "2026-03-29", 92),
        ("Europe/Berlin", "2026-10-25", 100),
        ("Australia/Lord_Howe", "2026-04-05", 98),  # half an hour
        ("America/Sao_Paulo", "2018-11-04", 92),  # no midnight
        ("America/Sao_Paulo", "2018-02-17", 100),  # its last hour twice
        ("America/Havana", "2026-11-01", 100),  # midnight twice
        ("Pacific/Apia", "2011-12-29", 96),  # the next day was left out
        ("UTC", "2026-12-31", 96),
    ],
)
@pytest.mark.parametrize("hour", [0, 12, 23])
def test_today_is_what_is_called_so(
    in_zone: pytest.MonkeyPatch, zone: str, day: str, quarters: int, hour: int
) -> None:
    """All quarters of an hour with this date on the local clock, and no others; found by looking at each."""
    in_zone.setenv("TZ", zone)
    time.tzset()
    here = zoneinfo.ZoneInfo(zone)
    date = dt.date.fromisoformat(day)
    noon = int(dt.datetime.combine(date, dt.time(12), here).timestamp()) // QUARTER
    named = [
        quarter
        for quarter in range(noon - 120, noon + 120)
        if dt.datetime.fromtimestamp(quarter * QUARTER, here).date() == date
    ]
    now = next(q for q in named if dt.datetime.fromtimestamp(q * QUARTER, here).hour >= hour) * QUARTER + 7.5

    first, end = today(now)

    assert (named[0], named[-1] + 1, quarters) == (first, end, end - first)
