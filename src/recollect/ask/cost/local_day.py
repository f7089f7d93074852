"""Where the local day begins and ends, in quarters of an hour since 1970: for the status line, so without imports.

``model.cost.calendar`` cuts any number of days in any zone; this is the one day that is going on,
by this machine's own clock. A test compares the two.
"""

from __future__ import annotations

import time

_QUARTER = 900


def today(now: float) -> tuple[int, int]:
    """The quarters in which the local day begins and in which the next one does."""
    return day_span(now)[:2]


def day_span(now: float) -> tuple[int, int, str]:
    """The local day with its name, as ``model.cost.calendar`` calls it."""
    return _span(now, "%Y-%m-%d")


def week_span(now: float) -> tuple[int, int, str]:
    """The quarters in which the local week begins, on Monday, and in which the next one does, and its name."""
    return _span(now, "%G-W%V")


def _span(now: float, form: str) -> tuple[int, int, str]:
    """The quarters around a moment that have the same name on the local clock."""

    def name(quarter: int) -> str:
        return time.strftime(form, time.localtime(quarter * _QUARTER))

    first = end = int(now) // _QUARTER
    shown = name(first)
    while name(first - 1) == shown:
        first -= 1
    while name(end) == shown:
        end += 1
    return first, end, shown
