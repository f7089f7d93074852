"""Dates as people type them after ``--since`` and ``--until``.

A day means that day here, in the local time zone: from its midnight as a start,
up to the next midnight as an end. A length of time is counted back from now.
"""

from __future__ import annotations

import datetime as dt
import re

from recollect.errors import UsageError

_LENGTH = re.compile(r"([0-9]{1,9})(min|h|d|w)", re.ASCII)
_DAY = re.compile(r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})", re.ASCII)
_SECONDS = {"min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DAYS_BACK = {"today": 0, "yesterday": 1}


def since(text: str, now: dt.datetime) -> dt.datetime:
    """The first moment meant by ``--since TEXT``."""
    return _bound(text, now, days_on=0)


def until(text: str, now: dt.datetime) -> dt.datetime:
    """The first moment no longer meant by ``--until TEXT``: a day is meant to its end."""
    return _bound(text, now, days_on=1)


def _bound(text: str, now: dt.datetime, days_on: int) -> dt.datetime:
    try:
        length = _LENGTH.fullmatch(text)
        if length is not None:
            return now - dt.timedelta(seconds=int(length[1]) * _SECONDS[length[2]])
        day = _day(text, now)
        return dt.datetime.combine(day + dt.timedelta(days=days_on), dt.time.min).astimezone()
    except (ValueError, OverflowError):
        raise UsageError(
            f"date {text!a}: not understood", hint="write 2026-01-31, 20260131, 7d, 12h, yesterday or today"
        ) from None


def _day(text: str, now: dt.datetime) -> dt.date:
    if text in _DAYS_BACK:
        return now.astimezone().date() - dt.timedelta(days=_DAYS_BACK[text])
    found = _DAY.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return dt.date(int(found[1]), int(found[2]), int(found[3]))
