"""Local days cut out of quarters of an hour, in any time zone, with its changes of clock.

Usage is kept by quarter of an hour since 1970 (UTC), the finest step of any time zone in use, so a day
of any zone is a run of whole quarters: 96 of them, or 92 or 100 where the clock changes. What a zone's
clock shows is asked from a function of the caller, since only the outside world knows it.

``cuts`` gives the quarters at which the local day may change, ``Timeline`` the name of the day, week,
month or block each quarter belongs to. Weeks are ISO weeks: they start on Monday and carry the year
of their Thursday. Names sort as the times they stand for.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

QUARTER_SECONDS = 900
QUARTER_MS = QUARTER_SECONDS * 1000
QUARTERS_A_DAY = 96
# A response whose line says no time stands in the first quarter of 1970.
NO_TIME = 0
UNKNOWN = "(unknown)"
TIME_KEYS = ("day", "week", "month", "block")

# Seconds east of Greenwich that a zone's clock shows at a moment (seconds since 1970).
Offset = Callable[[int], int]
QuarterSpan = tuple[int, int]

_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_LAST_ORDINAL = dt.date.max.toordinal()
_EVER = 1 << 40


def cuts(days: Iterable[int], offset: Offset) -> set[int]:
    """The quarters between which the local day stays the same, for those UTC days (numbered since 1970)."""
    wanted = set(days)
    found: set[int] = set()
    for day in wanted:
        start, end = day * QUARTERS_A_DAY, (day + 1) * QUARTERS_A_DAY
        # Nothing is said about days that were not asked for, so a run of days has edges of its own.
        found.update([start] * (day - 1 not in wanted) + [end] * (day + 1 not in wanted))
        change = _change(start, end, offset)
        if change is not None:
            # In Nuuk the clock springs from 23:00 to midnight: the day changes without its midnight coming.
            found.add(change)
        for first, last in ((start, change or end), (change or end, end)):
            midnight = _next_midnight(first, offset)
            if midnight <= last:
                found.add(midnight)
    return found


def _change(start: int, end: int, offset: Offset) -> int | None:
    """The first quarter with another offset than ``start``, where the clock changes before ``end``."""
    before = _east(start, offset)
    if _east(end - 1, offset) == before:
        return None
    low, high = start, end - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _east(middle, offset) == before else (low, middle)
    return high


def _next_midnight(quarter: int, offset: Offset) -> int:
    east = _east(quarter, offset)
    return ((quarter + east) // QUARTERS_A_DAY + 1) * QUARTERS_A_DAY - east


def _east(quarter: int, offset: Offset) -> int:
    return offset(quarter * QUARTER_SECONDS) // QUARTER_SECONDS


def local_day(quarter: int, offset: Offset) -> int:
    """The number of the local day, counted from 1970, to which a quarter belongs."""
    return (quarter + _east(quarter, offset)) // QUARTERS_A_DAY


def day_name(day: int) -> str:
    """``2026-11-15``."""
    return _date(day).isoformat()


def week_name(day: int) -> str:
    """``2026-W46``."""
    year, week, _ = _date(day).isocalendar()
    return f"{year:04d}-W{week:02d}"


def month_name(day: int) -> str:
    """``2026-11``."""
    return _date(day).isoformat()[:7]


def _date(day: int) -> dt.date:
    # A made-up time at the edge of the calendar must not end the report.
    return dt.date.fromordinal(min(max(day + _EPOCH_ORDINAL, 1), _LAST_ORDINAL))


def moment_name(quarter: int) -> str:
    """``2026-11-15T10:00:00Z``."""
    day, rest = divmod(quarter, QUARTERS_A_DAY)
    return f"{day_name(day)}T{rest // 4:02d}:{rest % 4 * 15:02d}:00Z"


_OF_A_DAY = {"day": day_name, "week": week_name, "month": month_name}


class Timeline:
    """What each quarter is called, for some of the time keys; and spans in which the names stay the same."""

    def __init__(
        self,
        keys: Sequence[str],
        offset: Offset,
        days: Iterable[int] = (),
        blocks: Sequence[QuarterSpan] = (),
        changes: Iterable[int] = (),
    ) -> None:
        self._keys = [key for key in keys if key in TIME_KEYS]
        self._offset = offset
        self._blocks = list(blocks)
        self._starts = [start for start, _ in blocks]
        edges = {NO_TIME, NO_TIME + 1, *changes, *(edge for block in blocks for edge in block)}
        if any(key in _OF_A_DAY for key in self._keys):
            edges |= cuts(days, offset)
        self._edges = [-_EVER, *sorted(edges), _EVER]
        self._names: dict[int, tuple[str, ...]] = {}

    def spans(self, first: int | None = None, end: int | None = None) -> list[QuarterSpan]:
        """Spans that cover all quarters, or those from ``first`` and before ``end``.

        A bound leaves out what has no time: it is neither before nor after it.
        """
        is_bounded = first is not None or end is not None
        low, high = -_EVER if first is None else first, _EVER if end is None else end
        found = [
            (max(start, low), min(stop, high))
            for start, stop in zip(self._edges, self._edges[1:], strict=False)
        ]
        return [span for span in found if span[0] < span[1] and not (is_bounded and span[0] == NO_TIME)]

    def start(self, quarter: int) -> int:
        """The start of the span a quarter lies in: all quarters of a span have the same names and prices."""
        return self._edges[bisect_right(self._edges, quarter) - 1]

    def names(self, quarter: int) -> tuple[str, ...]:
        """The names of a quarter, one for each time key."""
        known = self._names.get(quarter)
        if known is None:
            known = self._names[quarter] = tuple(self._name(key, quarter) for key in self._keys)
        return known

    def block(self, quarter: int) -> QuarterSpan | None:
        """The block a quarter belongs to."""
        place = bisect_right(self._starts, quarter) - 1
        return self._blocks[place] if place >= 0 and quarter < self._blocks[place][1] else None

    def _name(self, key: str, quarter: int) -> str:
        if quarter == NO_TIME:
            return UNKNOWN
        if key == "block":
            block = self.block(quarter)
            return UNKNOWN if block is None else moment_name(block[0])
        return _OF_A_DAY[key](local_day(quarter, self._offset))
