"""Dates as people type them after ``--since`` and ``--until``.

A day means that day here, in the local time zone: from its midnight as a start,
up to the next midnight as an end. A length of time is counted back from now; where money is added
up by days, lengths of days and weeks are whole days of which today is the last.
"""

from __future__ import annotations

import datetime as dt
import re

from recollect.errors import UsageError

_LENGTH = re.compile(r"([0-9]{1,9})(min|h|d|w)", re.ASCII)
_DAY = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})", re.ASCII)
_SECONDS = {"min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DAYS = {"d": 1, "w": 7}
_DAYS_BACK = {"today": 0, "yesterday": 1}


def since(text: str, now: dt.datetime) -> dt.datetime:
    """The first moment meant by ``--since TEXT``."""
    return _bound(text, now, days_on=0)


def until(text: str, now: dt.datetime) -> dt.datetime:
    """The first moment no longer meant by ``--until TEXT``: a day is meant to its end."""
    return _bound(text, now, days_on=1)


def whole_days(text: str, now: dt.datetime, zone: dt.tzinfo | None = None) -> dt.datetime | None:
    """The midnight at which the last ``7d`` or ``2w`` began, today being one of them; None for any other text.

    For sums by day: counted back from now, the first day would be a part of one, and thirty days of `cost` another
    sum than the thirty days of the overview. As an end it is where the days meant by the same ``--since`` begin.
    """
    length = _LENGTH.fullmatch(text)
    if length is None or length[2] not in _DAYS:
        return None
    try:
        days_back = max(int(length[1]) * _DAYS[length[2]] - 1, 0)
        midnight = dt.datetime.combine(
            now.astimezone(zone).date() - dt.timedelta(days=days_back), dt.time.min, zone
        )
        return midnight if zone is not None else midnight.astimezone()
    except (ValueError, OverflowError):
        raise _not_understood(text) from None


def _bound(text: str, now: dt.datetime, days_on: int) -> dt.datetime:
    try:
        length = _LENGTH.fullmatch(text)
        if length is not None:
            return now - dt.timedelta(seconds=int(length[1]) * _SECONDS[length[2]])
        day = _day(text, now)
        return dt.datetime.combine(day + dt.timedelta(days=days_on), dt.time.min).astimezone()
    except (ValueError, OverflowError):
        raise _not_understood(text) from None


def _not_understood(text: str) -> UsageError:
    return UsageError(
        f"date {text!a}: not understood", hint="write 2026-01-31, 20260131, 7d, 12h, yesterday or today"
    )


def _day(text: str, now: dt.datetime) -> dt.date:
    if text in _DAYS_BACK:
        return now.astimezone().date() - dt.timedelta(days=_DAYS_BACK[text])
    found = _DAY.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return dt.date(int(found[1]), int(found[2]), int(found[3]))
