"""Logs in SQL: appends that compare and move, positions, and reading lines wherever they are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import zstandard
from msgspec.structs import replace

from recollect.model.text.titles import FIRST_PROMPT, NEXT_PROMPT, TITLE_PARTS
from recollect.server.database.records import (
    AUDIT,
    DELETED,
    LIVE,
    PURGED,
    AppendRequest,
    Row,
    Segment,
    SessionAccess,
    SessionReader,
    SqlRunner,
    Transaction,
    insert,
    seen_by,
)
from recollect.server.database.sql_usage import count_usage
from recollect.server.database.tables import session_ref
from recollect.share.sync.wire import (
    START,
    AppendReply,
    Head,
    LogHead,
    Position,
    PositionConflict,
    SessionGone,
    lines_of,
)

RAW, ZSTD = 0, 1
# A kilobyte of JSON compresses badly, and most appends are that small.
_WORTH_COMPRESSING = 4_096

_NEW_SESSION = (
    insert("sessions", "ref, org, id, machine, user_id, created, changed, encrypted")
    + f" ON CONFLICT (ref) DO UPDATE SET state = CASE WHEN sessions.state = {PURGED} THEN {LIVE} ELSE sessions.state END,"
    f" encrypted = CASE WHEN sessions.state = {PURGED} THEN excluded.encrypted ELSE sessions.encrypted END"
    " RETURNING state"
)
_NEW_LOG = (
    "INSERT INTO logs(ref, key, org, lines, bytes, hash, changed) VALUES($1,$2,$3,0,0,$4,$5)"
    " ON CONFLICT (ref, key) DO NOTHING"
)
_MOVE = (
    "UPDATE logs SET lines = $5, bytes = bytes + $7, hash = $6, last_uuid = coalesce($8, last_uuid), changed = $9"
    " WHERE ref = $1 AND key = $2 AND lines = $3 AND hash = $4 AND closed = 0 RETURNING bytes, last_uuid"
)
_NEW_SEGMENT = insert(
    "segments", "ref, key, first_line, org, lines, first_byte, size, before, hash, at, token, codec, data"
)
# What a log first said stays, of all else the newest counts.
_FIRST, _NEWEST = (
    ("first_at", "cwd", FIRST_PROMPT, NEXT_PROMPT),
    (
        "last_at",
        "branch",
        *(part for part in TITLE_PARTS if part not in (FIRST_PROMPT, NEXT_PROMPT)),
        "project",
        "repository",
        "machine",
    ),
)
# The first prompt of later lines is the second of the session.
_second = f"CASE WHEN first_prompt IS NULL THEN ${3 + _FIRST.index(NEXT_PROMPT)} ELSE ${3 + _FIRST.index(FIRST_PROMPT)} END"
_SESSION = (
    "UPDATE sessions SET changed = CASE WHEN changed < $2 THEN $2 ELSE changed END"  # noqa: S608 - names of columns
    + "".join(
        f", {name} = coalesce({name}, {_second if name == NEXT_PROMPT else f'${number}'})"
        for number, name in enumerate(_FIRST, 3)
    )
    + "".join(
        f", {name} = coalesce(${number}, {name})" for number, name in enumerate(_NEWEST, 3 + len(_FIRST))
    )
    + " WHERE ref = $1"
)


async def commit_appends(
    tx: Transaction, org: str, appends: Sequence[AppendRequest], now: int
) -> list[Head | None]:
    """Make appends to logs of one organisation, and where these end then; None for those at another position."""
    refs = [session_ref(org, ask.session) for ask in appends]
    moved: list[Head | None] = [None] * len(appends)
    # Ordered by log, so that two servers wait instead of deadlocking; those to one log stay in their order.
    for place in sorted(range(len(appends)), key=lambda place: (refs[place], appends[place].key)):
        moved[place] = await _move(tx, refs[place], appends[place], now)
    stored = [ask for ask, end in zip(appends, moved, strict=True) if end is not None]
    await count_usage(tx, org, [ask for ask in stored if ask.prepared.usage])
    return moved


async def _move(tx: Transaction, ref: bytes, ask: AppendRequest, now: int) -> Head | None:
    new, before, author, size = ask.prepared, ask.expected, ask.author, len(ask.prepared.data)
    if before.lines == 0 and not any(before.hash):
        machine, is_sealed = ask.description.machine or author.machine, int(ask.description.encrypted)
        values = ref, ask.org, ask.session, machine, author.user, now, now, is_sealed
        if (await tx.rows(_NEW_SESSION, *values))[0][0] == LIVE:
            await tx.rows(_NEW_LOG, ref, ask.key, ask.org, before.hash, now)
    rows = await tx.rows(_MOVE, ref, ask.key, *before, *new.after, size, new.last_uuid, now)
    if not rows:
        return None
    end, last_uuid = rows[0]
    codec, data = packed(new.data)
    place = ref, ask.key, before.lines, ask.org, new.lines, end - size, size
    await tx.rows(_NEW_SEGMENT, *place, before.hash, new.after.hash, now, author.token, codec, data)
    # Titles and times are those of the session's own log: a sub-agent's log does not change them.
    about = ask.description._asdict() | (new.about if not ask.key else {})
    await tx.rows(_SESSION, ref, now, *(about.get(name) for name in (*_FIRST, *_NEWEST)))
    target = f"{ask.session}/{ask.key}" if ask.key else ask.session
    await tx.rows(
        AUDIT, ask.org, now, author.user, author.token, "append", target, f"{before.lines}+{new.lines}"
    )
    if new.texts:
        await tx.add_texts(ref, ask, now)
    return Head(new.after.lines, end, new.after.hash.hex(), last_uuid)


def packed(data: bytes) -> tuple[int, bytes]:
    """Bytes as stored: compressed where that pays."""
    if len(data) < _WORTH_COMPRESSING:
        return RAW, data
    small = zstandard.ZstdCompressor(level=1).compress(data)
    return (ZSTD, small) if len(small) < len(data) * 9 // 10 else (RAW, data)


def unpacked(codec: int, data: bytes) -> bytes:
    """The inverse of ``packed``."""
    return zstandard.ZstdDecompressor().decompress(data) if codec == ZSTD else data


# Bytes of a log that are read from the database at once.
_BYTES_AT_ONCE = 1 << 20
_SEGMENTS_AT_ONCE = 256
_SEGMENT = "first_line, lines, first_byte, before, hash, codec, data"


class SqlLogs(SqlRunner):
    """What the contract says about logs."""

    async def append(self, ask: AppendRequest) -> AppendReply:
        """Append lines to a log. ``PositionConflict`` where it is not at ``ask.expected``, ``SessionGone`` where it was
        deleted; lines that are stored already are told as such."""
        moved = await self._commit(ask)
        if moved is not None:
            return AppendReply(moved, ask.prepared.lines)
        ref, after = session_ref(ask.org, ask.session), ask.prepared.after
        rows = await self._read_now(ask.org, "SELECT state FROM sessions WHERE ref = $1", ref)
        if rows and rows[0][0] == DELETED:
            raise SessionGone
        head = await self.head(ask.org, ask.session, ask.key) or Head(0, 0, START.hash.hex())
        if head.lines >= after.lines:
            place = await self.place(ask.org, ask.session, ask.key, after.lines)
            # The hash covers everything before it: where it is equal, so are the lines and their position.
            if place is not None and place.position == after:
                await self._confirm(ask.org)
                return AppendReply(replace(place, last_uuid=ask.prepared.last_uuid), 0, repeated=True)
        raise PositionConflict(head)

    async def head(self, org: str, session: str, key: str) -> Head | None:
        """Where a log ends, from the primary; None where there is no such log."""
        sql = "SELECT lines, bytes, hash, last_uuid FROM logs WHERE ref = $1 AND key = $2 AND closed = 0 AND lines > 0"
        rows = await self._read_now(org, sql, session_ref(org, session), key)
        if not rows:
            return None
        lines, size, running, last_uuid = rows[0]
        return Head(lines, size, bytes(running).hex(), last_uuid)

    async def place(self, org: str, session: str, key: str, lines: int) -> Head | None:
        """The log as it ended after this many lines; None where it is shorter."""
        if lines == 0:
            return Head(0, 0, START.hash.hex())
        ref = session_ref(org, session)
        sql = f"SELECT {_SEGMENT} FROM segments WHERE ref = $1 AND key = $2 AND first_line < $3 ORDER BY first_line DESC LIMIT 1"  # noqa: S608 - names of columns
        rows = await self._read_now(org, sql, ref, key, lines)
        if rows:
            return place_in(_segment(rows[0]), lines)
        end = await self._moved_end(org, ref, key, lines)
        if end is not None:
            return end
        moved = await self._moved_lines(org, ref, key, lines - 1)
        return None if moved is None else place_in(moved, lines)

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
        sql = "SELECT coalesce(max(first_line), 0) FROM segments WHERE ref = $1 AND key = $2 AND first_line <= $3"
        ((first,),) = await self._read(org, sql, ref, key, after)
        wanted = "ref = $1 AND key = $2 AND first_line + lines > $3 AND first_line < $4 AND first_line >= $5"
        sql = f"SELECT first_line + lines, size FROM segments WHERE {wanted} ORDER BY first_line LIMIT {_SEGMENTS_AT_ONCE}"  # noqa: S608 - constants
        end, gathered = 0, 0
        for last, size in await self._read(org, sql, ref, key, after, until, first):
            gathered += size
            if end and gathered > _BYTES_AT_ONCE:
                break
            end = last
        sql = f"SELECT {_SEGMENT} FROM segments WHERE {wanted} ORDER BY first_line"  # noqa: S608 - names of columns
        for row in await self._read(org, sql, ref, key, after, end, first) if end else ():
            yield _segment(row)

    async def reach(self, org: str, session: str, key: str, after: int) -> None:
        """Nothing can fail where all lines are rows."""

    async def access(self, org: str, session: str, reader: SessionReader) -> SessionAccess | None:
        """Whether a session is visible to a reader; None where there is none, or only its cost."""
        sql = f"SELECT user_id, {seen_by(reader, '$2')}, state <> {LIVE} FROM sessions WHERE ref = $1 AND state <> {PURGED}"  # noqa: S608 - constants
        rows = await self._read_now(org, sql, session_ref(org, session), reader.user)
        return SessionAccess(rows[0][0], bool(rows[0][1]), bool(rows[0][2])) if rows else None

    async def heads(
        self, org: str, after: tuple[str, str], limit: int, reader: SessionReader | None = None
    ) -> list[LogHead]:
        """All logs by session and key, starting after ``after``; with ``reader`` those of visible sessions."""
        more, values = ("", ()) if reader is None else (f" AND {seen_by(reader, '$5')}", (reader.user,))
        sql = (
            "SELECT sessions.id, logs.key, logs.lines, logs.bytes, logs.hash, logs.last_uuid, logs.changed"  # noqa: S608 - constants
            " FROM sessions JOIN logs ON logs.ref = sessions.ref"
            f" WHERE sessions.org = $1 AND sessions.state = {LIVE} AND logs.lines > 0"
            f" AND (sessions.id, logs.key) > ($2, $3){more} ORDER BY sessions.id, logs.key LIMIT $4"
        )
        return [log_head(row) for row in await self._read(org, sql, org, *after, limit, *values)]


def place_in(segment: Segment, lines: int) -> Head | None:
    """The end after this many lines, if it is in the segment."""
    if lines > segment.first_line + segment.lines:
        return None
    data = segment.between(0, lines)
    position = Position(segment.first_line, segment.before).after(lines_of(data))
    return Head(lines, segment.first_byte + len(data), position.hash.hex())


def log_head(row: Row) -> LogHead:
    session, key, lines, size, running, last_uuid, changed = row
    return LogHead(lines, size, bytes(running).hex(), last_uuid, session=session, key=key, changed=changed)


def _segment(row: Row) -> Segment:
    first_line, lines, first_byte, before, running, codec, data = row
    return Segment(first_line, lines, first_byte, bytes(before), bytes(running), unpacked(codec, bytes(data)))
