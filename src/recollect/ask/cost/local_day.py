"""Where the local day begins and ends, in quarters of an hour since 1970: for the status line, so without imports.

``model.cost.calendar`` cuts any number of days in any zone; this is the one day that is going on,
by this machine's own clock. A test compares the two.
"""

from __future__ import annotations

import time

_QUARTER = 900


def today(now: float) -> tuple[int, int]:
    """The quarters in which the local day begins and in which the next one does."""
    year, month, day = time.localtime(now)[:3]
    return _first_quarter(year, month, day), _first_quarter(year, month, day + 1)


def day_span(now: float) -> tuple[int, int, str]:
    """The local day with its name, as ``model.cost.calendar`` calls it."""
    return *today(now), time.strftime("%Y-%m-%d", time.localtime(now))


def week_span(now: float) -> tuple[int, int, str]:
    """The quarters in which the local week begins, on Monday, and in which the next one does, and its name."""
    local = time.localtime(now)
    monday = local.tm_mday - local.tm_wday
    first, end = (_first_quarter(local.tm_year, local.tm_mon, monday + days) for days in (0, 7))
    return first, end, time.strftime("%G-W%V", local)


def _first_quarter(year: int, month: int, day: int) -> int:
    """Where the clock is set at midnight, midnight is missing or comes twice: what is first called this day counts."""
    date = time.localtime(time.mktime((year, month, day, 12, 0, 0, 0, 0, -1)))[:3]
    quarter = int(time.mktime((year, month, day, 0, 0, 0, 0, 0, -1))) // _QUARTER
    while time.localtime(quarter * _QUARTER)[:3] < date:
        quarter += 1
    while time.localtime((quarter - 1) * _QUARTER)[:3] == date:
        quarter -= 1
    return quarter
