"""What an index still knows of deleted logs, and how another index copies it.

This is the one thing in an index that cannot be read again from the logs: the cost of deleted sessions.
It is read as frames, so that it enters the new index like everything else, and which copies count is
decided again among all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, cast

from recollect.index.database import IndexDatabase
from recollect.index.frame import Frame, UsageRow
from recollect.index.ingest import Ingest
from recollect.index.placed import ScannedLog
from recollect.index.schema import AGENT, SESSION

_FILES = (
    "SELECT id, path, home, role, session, agent, device, inode, size, mtime, consumed, first_at, last_at,"
    " messages, damaged, (SELECT text FROM names WHERE id = cwd), (SELECT text FROM names WHERE id = branch)"
    " FROM files"
)
_USAGE = (
    "SELECT message, request, speaker, has_stop, forked, usage.at, m.text, b.text, v.text, t.text, variant,"
    " input, output, cache_write_5m, cache_write_1h, cache_read, web_searches, recorded, duration, asked, lines"
    " FROM usage JOIN responses ON responses.id = response"
    " LEFT JOIN names m ON m.id = model LEFT JOIN names b ON b.id = branch"
    " LEFT JOIN names v ON v.id = version LEFT JOIN names t ON t.id = tool WHERE file = ?"
)
_COST_STATES = (
    "SELECT at, {started}, coalesce((SELECT text FROM names WHERE id = model), ''), recorded, {counts}"
    " FROM cost_states WHERE file = ?"
)
_COUNTS = "input, output, cache_write_5m, cache_write_1h, cache_read, web_searches"


class GoneLog(NamedTuple):
    """A deleted log: where it was, and its usage."""

    log: ScannedLog
    frame: Frame
    messages: int
    damaged: int


def kept_logs(index: IndexDatabase, there: Collection[str]) -> Iterator[GoneLog]:
    """Every log of an index that is not ``there`` any more and has usage."""
    # An index of version 2 has dollars only.
    columns = {row[1] for row in index.rows("PRAGMA table_info(cost_states)")}
    is_whole = "started" in columns
    totals = _COST_STATES.format(
        started="started" if is_whole else "NULL", counts=_COUNTS if is_whole else "0, 0, 0, 0, 0, 0"
    )
    for row in index.rows(_FILES):
        (
            number,
            path,
            home,
            role,
            session,
            agent,
            *places,
            consumed,
            first,
            last,
            messages,
            damaged,
            cwd,
            branch,
        ) = row
        if role not in (SESSION, AGENT) or path in there:
            continue
        usage = [UsageRow(*values) for values in index.rows(_USAGE, number)]  # type: ignore[arg-type]
        states = index.rows(totals, number)
        if not usage and not states:
            continue
        total = (*states[0][:2], [state[2:] for state in states]) if states else None
        frame = Frame(0, consumed, [], usage, total, cwd, branch, session, agent, first, last)  # type: ignore[arg-type]
        log = ScannedLog(path, home, role, session, agent, *places)  # type: ignore[arg-type]
        yield GoneLog(log, frame, cast("int", messages), cast("int", damaged))


def keep(index: IndexDatabase, logs: Iterable[GoneLog]) -> None:
    """Add logs as deleted ones. All or none."""
    ingest = Ingest(index)
    with ingest.transaction():
        for one in logs:
            file = ingest.add_file(one.log)
            ingest.apply(file, one.frame)
            ingest.forget(file, keep_usage=True)
            index.connection.execute(
                "UPDATE files SET messages = ?, damaged = ? WHERE id = ?", (one.messages, one.damaged, file)
            )
