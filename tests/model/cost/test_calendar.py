"""Quarters of an hour become local days, in every zone, with its changes of clock."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recollect.model.cost.calendar import (
    NO_TIME,
    QUARTERS_A_DAY,
    Offset,
    Timeline,
    day_name,
    local_day,
    week_name,
)

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Nuuk",
    "Africa/Casablanca",
]


def clock(name: str) -> Offset:
    zone = zoneinfo.ZoneInfo(name)

    def offset(at: int) -> int:
        shown = dt.datetime.fromtimestamp(at, zone).utcoffset()
        assert shown is not None
        return int(shown.total_seconds())

    return offset


def quarter(text: str) -> int:
    return int(dt.datetime.fromisoformat(text).timestamp()) // 900


def day(text: str) -> int:
    return (dt.date.fromisoformat(text) - dt.date(1970, 1, 1)).days


def quarters_called(name: str, zone: str, around: str) -> int:
    """How many quarters of the days around a date bear its name."""
    middle = day(around)
    timeline = Timeline(["day"], clock(zone), range(middle - 2, middle + 3))
    every = range((middle - 2) * QUARTERS_A_DAY, (middle + 3) * QUARTERS_A_DAY)
    return sum(timeline.names(one) == (name,) for one in every)


@pytest.mark.parametrize(
    ("date", "zone", "hours"),
    [
        ("2026-03-29", "Europe/Berlin", 23),
        ("2026-10-25", "Europe/Berlin", 25),
        ("2026-11-15", "Europe/Berlin", 24),
        ("2026-11-01", "America/New_York", 25),
        ("2026-04-05", "Australia/Lord_Howe", 24.5),
        ("2026-11-15", "Asia/Kathmandu", 24),
    ],
)
def test_a_day_is_as_long_as_its_clock_says(date: str, zone: str, hours: float) -> None:
    """A day has 23, 24 or 25 hours (24 and a half on Lord Howe Island), and all its quarters bear its name."""
    assert hours * 4 == quarters_called(date, zone, date)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("UTC", "2026-11-14"), ("Europe/Berlin", "2026-11-15"), ("America/New_York", "2026-11-14")],
)
def test_half_past_eleven_belongs_to_another_day_elsewhere(zone: str, expected: str) -> None:
    """23:30 UTC is half past midnight in Berlin."""
    moment = quarter("2026-11-14T23:30:00+00:00")

    assert (expected,) == Timeline(["day"], clock(zone), [day("2026-11-14")]).names(moment)


@pytest.mark.parametrize(
    ("date", "week"),
    [
        ("2026-11-15", "2026-W46"),  # a Sunday
        ("2026-11-16", "2026-W47"),  # the Monday after
        ("2027-01-01", "2026-W53"),
        ("2024-12-30", "2025-W01"),
    ],
)
def test_weeks_start_on_monday_and_carry_the_year_of_their_thursday(date: str, week: str) -> None:
    """The weeks of ISO 8601."""
    assert week == week_name(day(date))


def test_a_bound_leaves_out_what_has_no_time() -> None:
    """It is neither before nor after any moment."""
    timeline = Timeline([], clock("UTC"))

    assert any(start <= NO_TIME < end for start, end in timeline.spans())
    assert not any(start <= NO_TIME < end for start, end in timeline.spans(None, 2_000_000))


def test_a_made_up_time_at_the_edge_of_the_calendar_has_a_name() -> None:
    """Years beyond the calendar do not end a report."""
    assert "9999-12-31" == day_name(day("9999-12-31") + 5)


@example("America/Nuuk", [day("2026-03-28"), day("2026-03-29")], [])
@example("UTC", [day("2026-03-28"), day("2026-03-29")], [])
@given(
    st.sampled_from(ZONES),
    st.lists(st.integers(day("2024-01-01"), day("2028-01-01")), min_size=1, max_size=9).map(
        lambda days: sorted({day + more for day in days for more in (0, 1)})
    ),
    st.lists(st.integers(0, 3), max_size=3),
)
def test_all_quarters_of_a_span_bear_the_same_names(zone: str, days: list[int], blocks: list[int]) -> None:
    """The index may add up whole spans: no change of day, clock, block or price lies inside one."""
    starts = sorted({days[0] * QUARTERS_A_DAY + block * 20 for block in blocks})
    offset = clock(zone)
    timeline = Timeline(
        ["day", "month", "block"], offset, days, [(start, start + 20) for start in starts], [days[0] * 96 + 7]
    )
    names: dict[int, set[tuple[str, ...]]] = {}
    for one in (day * QUARTERS_A_DAY + place for day in days for place in range(QUARTERS_A_DAY)):
        names.setdefault(timeline.start(one), set()).add(timeline.names(one))
    assert all(len(found) == 1 for found in names.values())
    assert set(names) <= {first for first, _ in timeline.spans()}
    for one in range(days[0] * QUARTERS_A_DAY, (days[0] + 1) * QUARTERS_A_DAY):
        assert day_name(local_day(one, offset)) == timeline.names(one)[0]


@given(st.lists(st.integers(-100, 100), max_size=6), st.integers(-120, 120), st.integers(-120, 120))
def test_spans_cover_every_quarter_within_bounds_once(changes: list[int], first: int, end: int) -> None:
    """Nothing is counted twice and nothing is left out but what has no time."""
    spans = Timeline([], clock("UTC"), changes=changes).spans(first, end)

    covered = [one for start, stop in spans for one in range(start, stop)]
    assert [one for one in range(first, end) if one != NO_TIME] == covered
