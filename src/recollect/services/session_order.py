"""When a session counts as worked on, and which one comes first: the same for every list and every search.

Sessions stand in the order in which they were last spoken in (S11); a file without a conversation stands at the end,
however new it is.
"""

from __future__ import annotations

import datetime as dt

NewestFirst = tuple[bool, int, int, str, str]


def newest_first(last_ms: int | None, mtime_ns: int, session: str | None, path: str) -> NewestFirst:
    """What sessions are sorted by, descending. Plain values: ten thousand rows are ordered by it."""
    return last_ms is not None, last_ms or 0, mtime_ns, session or "", path


def touches(
    first: dt.datetime | None, last: dt.datetime, since: dt.datetime | None, until: dt.datetime | None
) -> bool:
    """Whether it was worked on in that time, from its first to its last line. ``until`` itself is excluded."""
    return (since is None or last >= since) and (until is None or (first or last) < until)
