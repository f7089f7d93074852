"""Lines that were moved to an object store: which object has them, and how a move is decided.

``bodies`` has a row for each object. It is written before the object (``WRITING``), so no object is ever unknown;
it becomes ``LIVE`` in the transaction that removes the rows of ``segments``, and ``GONE`` in the one that purges the
session. The worker that removes an object holds its row locked meanwhile, so no one can begin to write it again under the same
name. Rows that stay in ``WRITING`` are those of a worker that was killed: after a while they are removed too.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import zstandard

from recollect.server.database.records import (
    EVERY_ORG,
    BodyLost,
    BodyUnavailable,
    Row,
    Segment,
    SqlRunner,
    Transaction,
    in_transaction,
    insert,
)
from recollect.server.database.sql_logs import unpacked
from recollect.share.sync.wire import Head, Position, lines_of

if TYPE_CHECKING:
    from recollect.server.objects import BlobStore

_LEVEL = 9


def packed_object(data: bytes) -> tuple[str, bytes]:
    """Bytes as an object: the hash that names it, and its own bytes."""
    small = zstandard.ZstdCompressor(level=_LEVEL).compress(data)
    return sha256(small).hexdigest(), small


def unpacked_object(name: str, digest: str, size: int, stored: bytes) -> bytes:
    """The inverse; ``BodyLost`` where the object is not the one that was written."""
    if sha256(stored).hexdigest() != digest:
        raise BodyLost(name, "was altered")
    try:
        data = zstandard.ZstdDecompressor().decompress(stored, max_output_size=size)
    except zstandard.ZstdError as problem:
        raise BodyLost(name, "cannot be unpacked") from problem
    if len(data) != size:
        raise BodyLost(name, "has another size than its row says")
    return data


WRITING, LIVE_BODY, GONE = 0, 1, 2
# How long an object may take to be written and recorded; no one else tries meanwhile, and no one removes it.
CLAIM_MS, ABANDONED_MS = 120_000, 3_600_000
# Bytes of lines in an object, and as few as are worth one while the log still grows; then it waits at most a day.
OBJECT_BYTES, _WORTH_AN_OBJECT, _LONGEST_MS = 2 << 20, 1 << 20, 86_400_000
_LOOKED_AT, _REMOVED_AT_ONCE = 20_000, 100
_CACHED_BYTES = 8 << 20
# A log with lines that are old enough to be moved: organisation, session, key.
MovableLog = tuple[str, bytes, str]


class LogBody(NamedTuple):
    """Some segments of a log that follow one another, as one object."""

    log: MovableLog
    name: str
    digest: str
    rows: int
    segment: Segment
    stored: bytes


class _Elsewhere(Exception):
    """The lines are no longer where they were: someone else moved them, or the session was purged."""


class PostgresBodies(SqlRunner):
    """Reads lines from objects, and moves them there."""

    def __init__(self) -> None:
        self.objects: BlobStore | None = None
        self._unpacked: OrderedDict[str, bytes] = OrderedDict()

    # --- reading ---------------------------------------------------------------------------------

    async def _moved_lines(self, org: str, ref: bytes, key: str, line: int) -> Segment | None:
        # From the primary: a replica may not know of the move yet, while another one no longer has the rows.
        sql = (
            "SELECT name, first_line, lines, first_byte, size, before, hash, digest FROM bodies"  # noqa: S608 - constants
            f" WHERE ref = $1 AND key = $2 AND state = {LIVE_BODY} AND first_line <= $3 AND first_line + lines > $3"
        )
        rows = await self._read_now(org, sql, ref, key, line)
        if not rows:
            return None
        name, first_line, lines, first_byte, size, before, after, digest = rows[0]
        data = await self._unpacked_body(str(name), str(digest), int(size))
        return Segment(first_line, lines, first_byte, bytes(before), bytes(after), data)

    async def _moved_end(self, org: str, ref: bytes, key: str, lines: int) -> Head | None:
        sql = (
            "SELECT hash, first_byte + size FROM bodies"  # noqa: S608 - constants
            f" WHERE ref = $1 AND key = $2 AND state = {LIVE_BODY} AND first_line + lines = $3"
        )
        rows = await self._read_now(org, sql, ref, key, lines)
        return Head(lines, rows[0][1], bytes(rows[0][0]).hex()) if rows else None

    async def _unpacked_body(self, name: str, digest: str, size: int) -> bytes:
        known = self._unpacked.get(name)
        if known is not None:
            self._unpacked.move_to_end(name)
            return known
        if self.objects is None:
            raise BodyUnavailable(
                "lines are in an object store, and this server was started without --objects"
            )
        stored = await self.objects.get(name)
        data = await asyncio.to_thread(unpacked_object, name, digest, size, stored)
        self._unpacked[name] = data
        while len(self._unpacked) > 1 and sum(map(len, self._unpacked.values())) > _CACHED_BYTES:
            self._unpacked.popitem(last=False)
        return data

    # --- moving ----------------------------------------------------------------------------------

    async def movable_logs(self, before: int) -> AsyncIterator[MovableLog]:
        """Logs with lines that were stored before this time, the oldest first; each once."""
        seen: set[MovableLog] = set()
        since = 0
        sql = f"SELECT at, org, ref, key FROM segments WHERE at >= $1 AND at < $2 ORDER BY at LIMIT {_LOOKED_AT}"  # noqa: S608 - a constant
        while True:
            rows = await self._read_now(EVERY_ORG, sql, since, before)
            for _, org, ref, key in rows:
                log = org, bytes(ref), key
                if log not in seen:
                    seen.add(log)
                    yield log
            if len(rows) < _LOOKED_AT:
                return
            since = max(int(rows[-1][0]), since + 1)

    async def movable_body(self, log: MovableLog, before: int) -> LogBody | None:
        """The first lines of a log that are worth an object now."""
        org, *place = log
        sql = "SELECT first_line, size, at FROM segments WHERE ref = $1 AND key = $2 ORDER BY first_line LIMIT 4096"
        rows = await self._read_now(org, sql, *place)
        last, size = None, 0
        for first_line, own, at in rows:
            if at >= before or (size and size + own > OBJECT_BYTES):
                break
            last, size = first_line, size + own
        if last is None:
            return None
        is_growing = rows[-1][2] >= before
        if is_growing and size < _WORTH_AN_OBJECT and rows[0][2] > before - _LONGEST_MS:
            return None
        sql = (
            "SELECT first_line, lines, first_byte, before, hash, codec, data FROM segments"
            " WHERE ref = $1 AND key = $2 AND first_line <= $3 ORDER BY first_line"
        )
        rows = await self._read_now(org, sql, *place, last)
        return await asyncio.to_thread(_body_of, log, rows) if rows else None

    @in_transaction
    async def claim_body(self, tx: Transaction, org: str, body: LogBody, now: int) -> bool:
        """Write down that an object is about to be written; False where another worker writes it."""
        columns = "name, org, ref, key, state, at, first_line, lines, first_byte, size, before, hash, digest, stored"
        sql = (
            insert("bodies AS known", columns)
            + f" ON CONFLICT (name) DO UPDATE SET state = {WRITING}, at = excluded.at WHERE known.state = {GONE}"
            f" OR (known.state = {WRITING} AND known.at < excluded.at - {CLAIM_MS}) RETURNING 1"
        )
        part = body.segment
        lines = (
            part.first_line,
            part.lines,
            part.first_byte,
            len(part.data),
            part.before,
            part.hash,
            body.digest,
        )
        return bool(await tx.rows(sql, body.name, *body.log, WRITING, now, *lines, len(body.stored)))

    async def body_moved(self, org: str, body: LogBody) -> bool:
        """Read these lines from the object from now on; False where they were moved or purged meanwhile."""
        try:
            await self._move(org, body)
        except _Elsewhere:
            return False
        return True

    @in_transaction
    async def _move(self, tx: Transaction, org: str, body: LogBody) -> None:
        sql = (
            "DELETE FROM segments WHERE ref = $1 AND key = $2 AND first_line >= $3 AND first_line < $4"
            " RETURNING lines"
        )
        first, lines = body.segment.first_line, body.segment.lines
        removed = await tx.rows(sql, *body.log[1:], first, first + lines)
        live = f"UPDATE bodies SET state = {LIVE_BODY} WHERE name = $1 AND state = {WRITING} RETURNING 1"  # noqa: S608 - constants
        is_whole = len(removed) == body.rows and sum(row[0] for row in removed) == lines
        if not is_whole or not await tx.rows(live, body.name):
            raise _Elsewhere

    @in_transaction
    async def abandon_body(self, tx: Transaction, org: str, body: LogBody) -> None:
        """An object that was written in vain is removed at once and not after a while."""
        await tx.rows(f"UPDATE bodies SET state = {GONE} WHERE name = $1 AND state = {WRITING}", body.name)  # noqa: S608 - constants

    async def _drop_bodies(self, tx: Transaction, ref: bytes) -> None:
        # One that is still being written stays in that state: its writer sees that its lines are gone.
        await tx.rows(f"UPDATE bodies SET state = {GONE} WHERE ref = $1 AND state = {LIVE_BODY}", ref)  # noqa: S608 - constants
        self._unpacked.clear()

    async def remove_bodies(self, now: int, delete: Callable[[Sequence[str]], Awaitable[None]]) -> int:
        """Remove objects that no one reads any more, and then their rows; how many."""
        removed = 0
        while some := await self._remove_some(EVERY_ORG, now, delete):
            removed += some
        return removed

    @in_transaction
    async def _remove_some(
        self, tx: Transaction, org: str, now: int, delete: Callable[[Sequence[str]], Awaitable[None]]
    ) -> int:
        sql = (
            f"SELECT name FROM bodies WHERE (state = {GONE} OR (state = {WRITING} AND at < $1))"  # noqa: S608 - constants
            f" ORDER BY name LIMIT {_REMOVED_AT_ONCE} FOR UPDATE SKIP LOCKED"
        )
        names = [str(row[0]) for row in await tx.rows(sql, now - ABANDONED_MS)]
        if names:
            await delete(names)
            await tx.rows("DELETE FROM bodies WHERE name = ANY($1::text[])", names)
        return len(names)

    async def body_backlog(self, before: int) -> tuple[int, int]:
        """How long (milliseconds) the oldest line that should be an object has waited, and objects to be removed."""
        oldest = (await self._read_now(EVERY_ORG, "SELECT min(at) FROM segments WHERE at < $1", before))[0][0]
        gone = await self._read_now(EVERY_ORG, f"SELECT count(*) FROM bodies WHERE state = {GONE}")  # noqa: S608 - constants
        return (0 if oldest is None else before - int(oldest)), int(gone[0][0])


def _body_of(log: MovableLog, rows: Sequence[Row]) -> LogBody:
    """Segments as one object. Their hashes are compared with their lines: rows are removed for it."""
    data = b"".join(unpacked(row[5], bytes(row[6])) for row in rows)
    first, last = rows[0], rows[-1]
    lines = sum(row[1] for row in rows)
    after = Position(first[0], bytes(first[3])).after(lines_of(data))
    if after != Position(last[0] + last[1], bytes(last[4])):
        raise ValueError(f"segments of {log[1].hex()} do not have the hash of their lines")
    digest, stored = packed_object(data)
    org, ref, key = log
    place = sha256(key.encode()).hexdigest()[:8]
    # Below its organisation and session: nothing is shared, so removing a session removes its objects.
    name = f"{org}/{ref.hex()}/{place}-{first[0]}-{digest}.zst"
    segment = Segment(first[0], lines, first[2], bytes(first[3]), bytes(last[4]), data)
    return LogBody(log, name, digest, len(rows), segment, stored)
