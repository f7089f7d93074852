"""Dates people type: days are local, lengths of time count back from now."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest

from recollect.cli.terminal.dates import since, until, whole_days
from recollect.errors import UsageError

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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31", utc(2026, 1, 30, 10)),
        ("20260131", utc(2026, 1, 30, 10)),
        ("today", utc(2026, 3, 15, 10)),
        ("yesterday", utc(2026, 3, 14, 10)),
        ("7d", utc(2026, 3, 8, 12, 30)),
        ("12h", utc(2026, 3, 15, 0, 30)),
        ("90min", utc(2026, 3, 15, 11, 0)),
        ("2w", utc(2026, 3, 1, 12, 30)),
    ],
)
def test_since_is_where_it_begins(text: str, expected: dt.datetime) -> None:
    """Local midnight, fourteen hours before that of UTC; or so long before now."""
    assert expected == since(text, NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31", utc(2026, 1, 31, 10)),
        ("today", utc(2026, 3, 16, 10)),
        ("yesterday", utc(2026, 3, 15, 10)),
        ("12h", utc(2026, 3, 15, 0, 30)),
    ],
)
def test_until_takes_in_the_whole_day(text: str, expected: dt.datetime) -> None:
    """The first moment left out is the midnight after."""
    assert expected == until(text, NOW)


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "2026-02-30", "2026-1-1", "7", "d", "-7d", "99991231", "999999999w", "00000101", "٧d"],
)
def test_what_is_no_date_is_a_usage_error(text: str) -> None:
    """The hint shows every way to write one; days no calendar or clock has are refused too."""
    with pytest.raises(UsageError) as caught:
        until(text, NOW)

    assert (2, "write 2026-01-31, 20260131, 7d, 12h, yesterday or today") == (
        caught.value.exit_code,
        caught.value.hint,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1d", utc(2026, 3, 15, 10)),
        ("7d", utc(2026, 3, 9, 10)),
        ("2w", utc(2026, 3, 2, 10)),
        ("0d", utc(2026, 3, 15, 10)),
        ("12h", None),
        ("today", None),
        ("2026-01-31", None),
    ],
)
def test_whole_days_end_with_today(text: str, expected: dt.datetime | None) -> None:
    """There it is the 16th: seven days begin at the midnight before the 10th, which is ten o'clock of the 9th in UTC."""
    assert expected == whole_days(text, NOW)


def test_whole_days_of_another_zone_begin_at_its_midnight() -> None:
    """In UTC it is still the 15th."""
    assert utc(2026, 3, 9) == whole_days("7d", NOW, dt.UTC)


def test_a_length_beyond_the_calendar_is_refused() -> None:
    """Not an answer from the year zero."""
    with pytest.raises(UsageError, match="not understood"):
        whole_days("999999999d", NOW)
