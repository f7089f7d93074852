"""Spans of time as people write them: one meaning for commands, page, library and team.

    7d 3w            whole days of which today is the last: 7d begins at midnight six days ago
    12h 90min        that long before now
    today yesterday  that day
    2026-01-31 20260131   that day
    2026-01 2026     that month, that year
    3 weeks ago      that day (minutes, hours, days, weeks, months, years)
    this week, last month, last year   all of it; weeks begin on Monday
    march, in march, in march 2026     that month, the last one that has begun
    2026-01-31T10:00:00Z   that moment

A text is a span. As the start of a filter it means the span's first moment; as the end, the first moment
after it, so a day counts to its end. A length such as ``7d`` has no end but now: as an end it means the moment at
which it begins, so ``--until 7d`` is everything before ``--since 7d``.

Days are those of ``zone``; None is the zone of this machine. The caller passes the current time.
"""

from __future__ import annotations

import datetime as dt
import re

from recollect.errors import UsageError

HINT = 'write 2026-01-31, 7d, 3w, 12h, yesterday, "3 weeks ago", "last month" or "in march"'

_LENGTH = re.compile(r"([0-9]{1,9})(min|h|d|w)", re.ASCII)
_DAY = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})", re.ASCII)
_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})", re.ASCII)
_YEAR = re.compile(r"(?:in )?([0-9]{4})", re.ASCII)
_AGO = re.compile(r"([0-9]{1,9}|an?) (minute|min|hour|day|week|month|year)s? ago", re.ASCII)
_NAMED = re.compile(r"(this|last) (week|month|year)", re.ASCII)
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH_NAME = re.compile(r"(?:in )?([a-z]{3,9})(?: ([0-9]{4}))?", re.ASCII)
_EXACT = {"min": 60, "minute": 60, "h": 3_600, "hour": 3_600}
_DAYS = {"d": 1, "day": 1, "w": 7, "week": 7}
_DAYS_BACK = {"today": 0, "yesterday": 1}


# From the first up to but excluding the second. None: it has no end of its own.
TimeSpan = tuple[dt.datetime, dt.datetime | None]


def since(text: str, now: dt.datetime, zone: dt.tzinfo | None = None) -> dt.datetime:
    """The first moment included by ``--since TEXT``."""
    return span_of(text, now, zone)[0]


def until(text: str, now: dt.datetime, zone: dt.tzinfo | None = None) -> dt.datetime:
    """The first moment excluded by ``--until TEXT``."""
    start, end = span_of(text, now, zone)
    return start if end is None else end


def bounds(
    start: str | dt.datetime | None,
    end: str | dt.datetime | None,
    now: dt.datetime,
    zone: dt.tzinfo | None = None,
) -> tuple[dt.datetime | None, dt.datetime | None]:
    """The first moment included and the first excluded; None for a missing bound.

    A period that has a name ends when it ends: from "last week" on is last week.
    """
    if end is None and isinstance(start, str) and not re.search(r"\d|\bago\b", start):
        return span_of(start, now, zone)
    return (
        since(start, now, zone) if isinstance(start, str) else start,
        until(end, now, zone) if isinstance(end, str) else end,
    )


def so_long_ago(text: str, now: dt.datetime, zone: dt.tzinfo | None = None) -> dt.datetime:
    """The cutoff for "older than TEXT": ``30d`` is thirty times twenty-four hours, a day its midnight."""
    length = _LENGTH.fullmatch(text.strip())
    if length is None or length[2] in _EXACT:
        return since(text, now, zone)
    try:
        return now - dt.timedelta(days=int(length[1]) * _DAYS[length[2]])
    except OverflowError:
        raise UsageError(f"date {text!a}: beyond the calendar", hint=HINT) from None


def span_of(text: str, now: dt.datetime, zone: dt.tzinfo | None = None) -> TimeSpan:
    """The span of a text; ``UsageError`` if it is not a time."""
    words = " ".join(text.casefold().split())
    try:
        length = _LENGTH.fullmatch(words)
        if length is not None:
            return _length(int(length[1]), length[2], now, zone)
        ago = _AGO.fullmatch(words)
        if ago is not None:
            return _ago(1 if ago[1].startswith("a") else int(ago[1]), ago[2], now, zone)
        if "t" in words and words[:1].isdigit():
            return _moment(words, zone)
        days = _days(words, now.astimezone(zone).date())
    except (ValueError, OverflowError):
        days = None
    if days is None:
        raise UsageError(f"date {text!a}: not understood", hint=HINT)
    try:
        return _midnight(days[0], zone), _midnight(days[1], zone)
    except (ValueError, OverflowError):
        raise UsageError(f"date {text!a}: beyond the calendar", hint=HINT) from None


def _length(count: int, unit: str, now: dt.datetime, zone: dt.tzinfo | None) -> TimeSpan:
    if unit in _EXACT:
        return now - dt.timedelta(seconds=count * _EXACT[unit]), None
    first = now.astimezone(zone).date() - dt.timedelta(days=max(count * _DAYS[unit] - 1, 0))
    return _midnight(first, zone), None


def _ago(count: int, unit: str, now: dt.datetime, zone: dt.tzinfo | None) -> TimeSpan:
    if unit in _EXACT:
        return now - dt.timedelta(seconds=count * _EXACT[unit]), None
    today = now.astimezone(zone).date()
    if unit in _DAYS:
        day = today - dt.timedelta(days=count * _DAYS[unit])
    else:
        first, after = _whole_month(
            _months_later(today.replace(day=1), -count * (12 if unit == "year" else 1))
        )
        # A month too short for the day ends earlier.
        day = min(first + dt.timedelta(days=today.day - 1), after - dt.timedelta(days=1))
    return _midnight(day, zone), _midnight(day + dt.timedelta(days=1), zone)


def _moment(text: str, zone: dt.tzinfo | None) -> TimeSpan:
    at = dt.datetime.fromisoformat(text.upper())
    if at.tzinfo is None:
        at = at.replace(tzinfo=zone).astimezone(zone)
    return at, None


def _days(words: str, today: dt.date) -> tuple[dt.date, dt.date] | None:
    """The first day of a span of whole days, and the first day after it."""
    if words in _DAYS_BACK:
        day = today - dt.timedelta(days=_DAYS_BACK[words])
        return day, day + dt.timedelta(days=1)
    named = _NAMED.fullmatch(words)
    if named is not None:
        return _named(named[2], today, 0 if named[1] == "this" else -1)
    month = _MONTH_NAME.fullmatch(words)
    number = None if month is None else _number_of(month[1])
    if month is not None and number is not None:
        year = today.year - (number > today.month) if month[2] is None else int(month[2])
        return _whole_month(dt.date(year, number, 1))
    day_found, month_found, year_found = (one.fullmatch(words) for one in (_DAY, _MONTH, _YEAR))
    if day_found is not None:
        day = dt.date(int(day_found[1]), int(day_found[2]), int(day_found[3]))
        return day, day + dt.timedelta(days=1)
    if month_found is not None:
        return _whole_month(dt.date(int(month_found[1]), int(month_found[2]), 1))
    if year_found is not None:
        first = dt.date(int(year_found[1]), 1, 1)
        return first, _months_later(first, 12)
    return None


def _named(unit: str, today: dt.date, offset: int) -> tuple[dt.date, dt.date]:
    if unit == "week":
        monday = today - dt.timedelta(days=today.weekday()) + dt.timedelta(weeks=offset)
        return monday, monday + dt.timedelta(weeks=1)
    if unit == "month":
        return _whole_month(_months_later(today.replace(day=1), offset))
    first = dt.date(today.year + offset, 1, 1)
    return first, _months_later(first, 12)


def _number_of(name: str) -> int | None:
    """A month by its name, or its first three letters."""
    return next((place for place, full in enumerate(_MONTHS, 1) if name in (full, full[:3])), None)


def _whole_month(first: dt.date) -> tuple[dt.date, dt.date]:
    return first, _months_later(first, 1)


def _months_later(first: dt.date, count: int) -> dt.date:
    months = first.year * 12 + first.month - 1 + count
    return dt.date(months // 12, months % 12 + 1, 1)


def _midnight(day: dt.date, zone: dt.tzinfo | None) -> dt.datetime:
    midnight = dt.datetime.combine(day, dt.time.min, zone)
    return midnight if zone is not None else midnight.astimezone()
