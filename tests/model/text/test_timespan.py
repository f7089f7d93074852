"""Spans of time as people type them: days are whole and local, hours count back from now."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest

from recollect.errors import UsageError
from recollect.model.text.timespan import HINT, bounds, since, so_long_ago, until

NOW = dt.datetime(2026, 3, 15, 12, 30, tzinfo=dt.UTC)


@pytest.fixture(autouse=True)
def kiritimati(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place fourteen hours ahead of UTC: there it is the 16th already."""
    monkeypatch.setenv("TZ", "<+14>-14")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[misc, arg-type]  # a short way to write a time


SPANS = [
    # text, its first moment, the first moment after it; there it is half past two of the night, Monday the 16th
    ("2026-01-31", utc(2026, 1, 30, 10), utc(2026, 1, 31, 10)),
    ("20260131", utc(2026, 1, 30, 10), utc(2026, 1, 31, 10)),
    ("2026-01", utc(2025, 12, 31, 10), utc(2026, 1, 31, 10)),
    ("2025", utc(2024, 12, 31, 10), utc(2025, 12, 31, 10)),
    ("today", utc(2026, 3, 15, 10), utc(2026, 3, 16, 10)),
    ("Yesterday", utc(2026, 3, 14, 10), utc(2026, 3, 15, 10)),
    ("3 weeks ago", utc(2026, 2, 22, 10), utc(2026, 2, 23, 10)),
    ("a day ago", utc(2026, 3, 14, 10), utc(2026, 3, 15, 10)),
    ("1 month ago", utc(2026, 2, 15, 10), utc(2026, 2, 16, 10)),
    ("2 years ago", utc(2024, 3, 15, 10), utc(2024, 3, 16, 10)),
    ("this week", utc(2026, 3, 15, 10), utc(2026, 3, 22, 10)),
    ("last week", utc(2026, 3, 8, 10), utc(2026, 3, 15, 10)),
    ("this month", utc(2026, 2, 28, 10), utc(2026, 3, 31, 10)),
    ("last  month", utc(2026, 1, 31, 10), utc(2026, 2, 28, 10)),
    ("last year", utc(2024, 12, 31, 10), utc(2025, 12, 31, 10)),
    ("in march", utc(2026, 2, 28, 10), utc(2026, 3, 31, 10)),
    ("in April", utc(2025, 3, 31, 10), utc(2025, 4, 30, 10)),
    ("feb", utc(2026, 1, 31, 10), utc(2026, 2, 28, 10)),
    ("in february 2024", utc(2024, 1, 31, 10), utc(2024, 2, 29, 10)),
    # Lengths and moments have no end of their own.
    ("1d", utc(2026, 3, 15, 10), utc(2026, 3, 15, 10)),
    ("0d", utc(2026, 3, 15, 10), utc(2026, 3, 15, 10)),
    ("7d", utc(2026, 3, 9, 10), utc(2026, 3, 9, 10)),
    ("2w", utc(2026, 3, 2, 10), utc(2026, 3, 2, 10)),
    ("12h", utc(2026, 3, 15, 0, 30), utc(2026, 3, 15, 0, 30)),
    ("90min", utc(2026, 3, 15, 11, 0), utc(2026, 3, 15, 11, 0)),
    ("an hour ago", utc(2026, 3, 15, 11, 30), utc(2026, 3, 15, 11, 30)),
    ("2026-01-31T10:00:00Z", utc(2026, 1, 31, 10), utc(2026, 1, 31, 10)),
    ("2026-01-31t10:00", utc(2026, 1, 30, 20), utc(2026, 1, 30, 20)),
]


@pytest.mark.parametrize(("text", "start", "end"), SPANS, ids=[text for text, _, _ in SPANS])
def test_a_text_begins_and_ends_where_people_mean(text: str, start: dt.datetime, end: dt.datetime) -> None:
    """Days are whole and local, today is one of the last seven; hours and minutes count back from now."""
    assert (start, end) == (since(text, NOW), until(text, NOW))
    assert (start, end) == bounds(text, text, NOW)


def test_days_of_another_zone_begin_at_its_midnight() -> None:
    """In UTC it is still Sunday the 15th."""
    assert utc(2026, 3, 9) == since("7d", NOW, dt.UTC)
    assert (utc(2026, 3, 9), utc(2026, 3, 16)) == bounds("this week", "this week", NOW, dt.UTC)
    assert utc(2026, 1, 31, 10) == since("2026-01-31T10:00:00", NOW, dt.UTC)


def test_the_same_day_of_a_shorter_month_is_its_last() -> None:
    """A month before the 31st of March is the last of February."""
    assert utc(2026, 2, 28) == since("1 month ago", utc(2026, 3, 31, 12), dt.UTC)
    assert utc(2023, 2, 28) == since("1 year ago", utc(2024, 2, 29, 12), dt.UTC)


@pytest.mark.parametrize("text", ["yesterday", "last week", "In March", "this month"])
def test_a_period_with_a_name_ends_when_it_ends(text: str) -> None:
    """ "Last week" is one thing on every screen; what counts back from now has no end."""
    assert bounds(text, text, NOW) == bounds(text, None, NOW)
    assert [None] * 3 == [bounds(other, None, NOW)[1] for other in ("7d", "a week ago", "2026-01-31")]


def test_moments_stay_as_they_are_and_nothing_stays_nothing() -> None:
    """A library caller may have both at hand already."""
    assert (NOW, None) == bounds(NOW, None, NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30d", utc(2026, 2, 13, 12, 30)), ("1w", utc(2026, 3, 8, 12, 30)), ("12h", utc(2026, 3, 15, 0, 30)),
     ("2026-01-31", utc(2026, 1, 30, 10))],
)  # fmt: skip
def test_what_is_older_than_a_length_is_older_by_all_of_it(text: str, expected: dt.datetime) -> None:
    """What is deleted for its age has that age to the minute: whole days would come too early."""
    assert expected == so_long_ago(text, NOW)


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "2026-02-30", "2026-1-1", "7", "d", "-7d", "99991231", "9999", "999999999w", "00000101",
     "٧d", "in smarch", "3 fortnights ago", "999999999 months ago", "2026-13", "12:30", "last day"],
)  # fmt: skip
def test_what_is_no_date_is_a_usage_error(text: str) -> None:
    """The hint shows how to write one; days no calendar or clock has are refused too."""
    with pytest.raises(UsageError) as caught:
        until(text, NOW)

    assert (2, HINT) == (caught.value.exit_code, caught.value.hint)


@pytest.mark.parametrize("text", ["999999999d", "999999999999h"])
def test_a_length_beyond_the_calendar_is_refused(text: str) -> None:
    """Not an answer from the year zero."""
    for meaning in (since, until, so_long_ago):
        with pytest.raises(UsageError):
            meaning(text, NOW)
