"""Logs in SQL: appends that compare and move, positions, and reading lines wherever they are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator

from recollect.server.database.records import (
    DELETED,
    LIVE,
    PURGED,
    AppendConflict,
    AppendOutcome,
    AppendRequest,
    DeletedSession,
    LogPlace,
    Segment,
    SessionAccess,
    SessionReader,
    StoredAppend,
)
from recollect.server.database.sql_append import unpacked
from recollect.server.database.sql_base import SqlRunner
from recollect.server.database.sql_usage import Row
from recollect.server.database.sql_visibility import seen_by
from recollect.server.database.tables.steps import session_ref
from recollect.sync.remote import lines_of
from recollect.sync.wire import START, Head, LogHead, Position

# Bytes of a log that are read from the database at once.
_BYTES_AT_ONCE = 1 << 20
_SEGMENTS_AT_ONCE = 256
_SEGMENT = "first_line, lines, first_byte, before, hash, codec, data"


class SqlLogs(SqlRunner):
    """What the contract says about logs."""

    async def append(self, ask: AppendRequest) -> AppendOutcome:
        moved = await self._commit(ask)
        after = ask.prepared.after
        if moved is not None:
            return StoredAppend(Head(after.lines, moved[0], after.hash.hex(), moved[1]))
        return await self._refusal(ask)

    async def _refusal(self, ask: AppendRequest) -> AppendOutcome:
        """Why an append was not made: it is already stored, or the log is at another position, or deleted."""
        ref = session_ref(ask.org, ask.session)
        rows = await self._read_now(ask.org, "SELECT state FROM sessions WHERE ref = $1", ref)
        if rows and rows[0][0] == DELETED:
            return DeletedSession()
        head = await self.head(ask.org, ask.session, ask.key)
        if head is None:
            return AppendConflict(Head(0, 0, START.hash.hex()))
        after = ask.prepared.after
        if head.lines >= after.lines:
            place = await self.place(ask.org, ask.session, ask.key, after.lines)
            # The hash covers everything before it: where it is equal, so are the lines and their position.
            if place is not None and place.position == after:
                await self._confirm(ask.org)
                return StoredAppend(
                    Head(after.lines, place.bytes, after.hash.hex(), ask.prepared.last_uuid), repeated=True
                )
        return AppendConflict(head)

    async def head(self, org: str, session: str, key: str) -> Head | None:
        rows = await self._read_now(
            org,
            "SELECT lines, bytes, hash, last_uuid FROM logs WHERE ref = $1 AND key = $2 AND closed = 0 AND lines > 0",
            session_ref(org, session),
            key,
        )
        return _head(rows[0]) if rows else None

    async def place(self, org: str, session: str, key: str, lines: int) -> LogPlace | None:
        if lines == 0:
            return LogPlace(START, 0)
        ref = session_ref(org, session)
        rows = await self._read_now(
            org,
            f"SELECT {_SEGMENT} FROM segments WHERE ref = $1 AND key = $2 AND first_line < $3"  # noqa: S608 - names of columns
            " ORDER BY first_line DESC LIMIT 1",
            ref,
            key,
            lines,
        )
        if rows:
            return place_in(_segment(rows[0]), lines)
        end = await self._moved_end(org, ref, key, lines)
        if end is not None:
            return end
        found = await self._moved_lines(org, ref, key, lines - 1)
        return None if found is None else place_in(found, lines)

    async def segments(
        self, org: str, session: str, key: str, after: int, until: int
    ) -> AsyncIterator[Segment]:
        """The segments with these lines, read about a megabyte at a time; from rows, else from the object store.
        Lines move there while they are read, so rows that do not continue where the last ended are left."""
        ref = session_ref(org, session)
        while after < until:
            is_found = False
            async for segment in self._rows_from(org, ref, key, after, until):
                if segment.first_line > after:
                    break
                yield segment
                after, is_found = segment.first_line + segment.lines, True
            if not is_found:
                moved = await self._moved_lines(org, ref, key, after)
                if moved is None:
                    return
                yield moved
                after = moved.first_line + moved.lines

    async def _rows_from(
        self, org: str, ref: bytes, key: str, after: int, until: int
    ) -> AsyncIterator[Segment]:
        """About a megabyte of rows, from the one that has the line after ``after`` on."""
        wanted = "ref = $1 AND key = $2 AND first_line + lines > $3 AND first_line < $4"
        start = await self._read(
            org,
            "SELECT coalesce(max(first_line), 0) FROM segments WHERE ref = $1 AND key = $2 AND first_line <= $3",
            ref,
            key,
            after,
        )
        sizes = await self._read(
            org,
            f"SELECT first_line + lines, size FROM segments WHERE {wanted} AND first_line >= $5"  # noqa: S608 - a constant
            f" ORDER BY first_line LIMIT {_SEGMENTS_AT_ONCE}",
            ref,
            key,
            after,
            until,
            start[0][0],
        )
        end, gathered = 0, 0
        for last, size in sizes:
            gathered += size
            if end and gathered > _BYTES_AT_ONCE:
                break
            end = last
        if not end:
            return
        rows = await self._read(
            org,
            f"SELECT {_SEGMENT} FROM segments WHERE {wanted} AND first_line >= $5 ORDER BY first_line",  # noqa: S608 - names of columns
            ref,
            key,
            after,
            end,
            start[0][0],
        )
        for row in rows:
            yield _segment(row)

    async def reach(self, org: str, session: str, key: str, after: int) -> None:
        """Nothing can fail where all lines are rows."""

    async def access(self, org: str, session: str, reader: SessionReader) -> SessionAccess | None:
        rows = await self._read_now(
            org,
            f"SELECT user_id, {seen_by(reader, '$2')}, state <> {LIVE} FROM sessions"  # noqa: S608 - constants
            f" WHERE ref = $1 AND state <> {PURGED}",
            session_ref(org, session),
            reader.user,
        )
        return SessionAccess(rows[0][0], bool(rows[0][1]), bool(rows[0][2])) if rows else None

    async def heads(
        self, org: str, after: tuple[str, str], limit: int, reader: SessionReader | None = None
    ) -> list[LogHead]:
        more = "" if reader is None else f" AND {seen_by(reader, '$5')}"
        rows = await self._read(
            org,
            "SELECT sessions.id, logs.key, logs.lines, logs.bytes, logs.hash, logs.last_uuid, logs.changed"  # noqa: S608 - constants
            " FROM sessions JOIN logs ON logs.ref = sessions.ref"
            f" WHERE sessions.org = $1 AND sessions.state = {LIVE} AND logs.lines > 0"
            f" AND (sessions.id, logs.key) > ($2, $3){more} ORDER BY sessions.id, logs.key LIMIT $4",
            org,
            *after,
            limit,
            *(() if reader is None else (reader.user,)),
        )
        return [log_head(row) for row in rows]


def place_in(segment: Segment, lines: int) -> LogPlace | None:
    """The position after this many lines, if it is in the segment."""
    inside = lines - segment.first_line
    if inside > segment.lines:
        return None
    if inside == segment.lines:
        return LogPlace(Position(lines, segment.hash), segment.first_byte + len(segment.data))
    position, size = Position(segment.first_line, segment.before), segment.first_byte
    for line in lines_of(segment.data):
        if position.lines == lines:
            break
        position, size = position.after((line,)), size + len(line)
    return LogPlace(position, size)


def _head(row: Row) -> Head:
    lines, size, running, last_uuid = row
    return Head(lines, size, bytes(running).hex(), last_uuid)


def log_head(row: Row) -> LogHead:
    session, key, lines, size, running, last_uuid, changed = row
    return LogHead(session, key, lines, size, bytes(running).hex(), last_uuid, changed)


def _segment(row: Row) -> Segment:
    first_line, lines, first_byte, before, running, codec, data = row
    return Segment(first_line, lines, first_byte, bytes(before), bytes(running), unpacked(codec, bytes(data)))
