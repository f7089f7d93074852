"""Times: as logs write them, as moments, and as milliseconds since 1970."""

from __future__ import annotations

import datetime as dt

EPOCH, MILLISECOND = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.timedelta(milliseconds=1)


def moment_of(milliseconds: float | None) -> dt.datetime | None:
    """None for a time that no calendar has: one made-up line must not end a walk."""
    try:
        return None if milliseconds is None else EPOCH + dt.timedelta(milliseconds=milliseconds)
    except (OverflowError, ValueError):
        return None


def milliseconds_of(moment: dt.datetime | None) -> int | None:
    """Whole ones that have passed, exactly: a float of seconds would move a bound that stands on a quarter."""
    return None if moment is None else (moment - EPOCH) // MILLISECOND


def parsed_time(text: str | None) -> dt.datetime | None:
    """An ISO 8601 time as an aware UTC datetime, or None. A time without a zone counts as UTC."""
    if not text:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
        return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None
