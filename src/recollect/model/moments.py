"""Times as logs write them."""

from __future__ import annotations

import datetime as dt


def parsed_time(text: str | None) -> dt.datetime | None:
    """An ISO 8601 time as an aware UTC datetime, or None. A time without a zone counts as UTC."""
    if not text:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
        return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None
