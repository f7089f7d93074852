"""Keep deleted sessions in the totals when an index is rebuilt.

A new index looks for its predecessors: the one that was set aside, and those of other versions of
recollect for the same homes. What they know of logs that no longer exist is copied before anything
is read. A predecessor that cannot be read is reported, because its knowledge is lost.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from recollect.index.database import Failure, IndexDatabase
from recollect.index.frame import Frame, ScannedLog, UsageRow
from recollect.index.ingest import Ingest
from recollect.index.schema import AGENT, SESSION
from recollect.store.home_walk import scan_logs
from recollect.store.logs.reader import PACKED

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
    "SELECT at, started, coalesce((SELECT text FROM names WHERE id = model), ''), recorded,"
    " input, output, cache_write_5m, cache_write_1h, cache_read, web_searches FROM cost_states WHERE file = ?"
)


class GoneLog(NamedTuple):
    """A deleted log: where it was, and its usage."""

    log: ScannedLog
    frame: Frame
    messages: int
    damaged: int


def kept_logs(index: IndexDatabase, there: Collection[str]) -> Iterator[GoneLog]:
    """Every log of an index that is not ``there`` any more and has usage."""
    for row in index.connection.execute(_FILES):
        number, log = row[0], ScannedLog(*row[1:10])
        if log.role not in (SESSION, AGENT) or log.path in there:
            continue
        frame = Frame(0, row[10], session=log.session, agent=log.agent)
        frame.first_at, frame.last_at, messages, damaged, frame.cwd, frame.branch = row[11:]
        frame.usage = [*map(UsageRow._make, index.connection.execute(_USAGE, (number,)))]
        states = [*index.connection.execute(_COST_STATES, (number,))]
        if states:
            frame.cost_state = (*states[0][:2], [state[2:] for state in states])
        if frame.usage or states:
            yield GoneLog(log, frame, messages, damaged)


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


_NAME = re.compile(r"index-v([0-9]{1,9})-([0-9a-f]{8})\.(sqlite|aside)")


class CarriedSessions(NamedTuple):
    """How many deleted sessions were copied, and which predecessors could not be read."""

    sessions: int = 0
    unread: tuple[Path, ...] = ()


def carry_over(index: IndexDatabase, path: Path, homes: Sequence[Path]) -> CarriedSessions:
    """Copy what predecessors of the index at ``path`` know of deleted logs."""
    before = predecessors(path)
    if not before:
        return CarriedSessions()
    there = {log.path for home in homes for log in scan_logs(home)}
    kept: dict[str, GoneLog] = {}
    unread = []
    for old in before:
        found = _kept(old, there)
        if found is None:
            unread.append(old)
        for one in found or ():
            # Archived sessions are not deleted: they are read again.
            if not (one.log.path.endswith(PACKED) and Path(one.log.path).is_file()):
                kept.setdefault(one.log.path, one)
    try:
        keep(index, kept.values())
    except (TypeError, ValueError, OverflowError):  # a damaged file can hold anything
        return CarriedSessions(0, tuple(before))
    return CarriedSessions(sum(one.log.role == SESSION for one in kept.values()), tuple(unread))


def predecessors(path: Path) -> list[Path]:
    """Other indexes of the same homes, the most likely complete and recent first."""
    own = _NAME.fullmatch(path.name)
    if own is None:
        return []
    found = []
    with contextlib.suppress(OSError):
        for name in path.parent.iterdir():
            other = _NAME.fullmatch(name.name)
            if other is None or other[2] != own[2] or name == path:
                continue
            if name.is_file() and name.stat().st_size:
                found.append((int(other[1]) == int(own[1]), int(other[1]), other[3] == "sqlite", name))
    return [name for *_, name in sorted(found, reverse=True)]


def _kept(path: Path, there: set[str]) -> list[GoneLog] | None:
    try:
        with contextlib.closing(IndexDatabase(path, read_only=True)) as old:
            return list(kept_logs(old, there))
    except (Failure, TypeError, ValueError):
        return None
