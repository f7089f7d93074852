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
from typing import NamedTuple

from recollect.server.database.contract import BodyUnavailable
from recollect.server.database.records import LogPlace, Segment
from recollect.server.database.sql_append import unpacked
from recollect.server.database.sql_base import EVERY_ORG, SqlRunner
from recollect.server.database.sql_usage import Row, Transaction
from recollect.server.database.tables.moves import NOT_HERE
from recollect.server.objects.store import BlobStore, packed_object, unpacked_object
from recollect.sync.remote import lines_of
from recollect.sync.wire import Position

WRITING, LIVE_BODY, GONE = 0, 1, 2
# How long an object may take to be written and recorded; no one else tries meanwhile, and no one removes it.
CLAIM_MS, ABANDONED_MS = 120_000, 3_600_000
# Bytes of lines in an object, and as few as are worth one while the log still grows; then it waits at most a day.
OBJECT_BYTES, _WORTH_AN_OBJECT, _LONGEST_MS = 2 << 20, 1 << 20, 86_400_000
_LOOKED_AT, _REMOVED_AT_ONCE = 20_000, 100
_CACHED_BYTES = 8 << 20
_BODY = "name, org, first_line, lines, first_byte, size, before, hash, digest"


class MovableLog(NamedTuple):
    """A log with lines that are old enough to be moved."""

    org: str
    ref: bytes
    key: str


class LogBody(NamedTuple):
    """Some segments of a log that follow one another, as one object."""

    log: MovableLog
    name: str
    digest: str
    rows: int
    first_line: int
    lines: int
    first_byte: int
    size: int
    before: bytes
    hash: bytes
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
        rows = await self._read_now(
            org,
            f"SELECT {_BODY} FROM bodies WHERE ref = $1 AND key = $2 AND state = {LIVE_BODY}"  # noqa: S608 - constants
            " AND first_line <= $3 ORDER BY first_line DESC LIMIT 1",
            ref,
            key,
            line,
        )
        if not rows or rows[0][2] + rows[0][3] <= line:
            return None
        name, _, first_line, lines, first_byte, size, before, after, digest = rows[0]
        data = await self._unpacked_body(str(name), str(digest), int(size))
        return Segment(first_line, lines, first_byte, bytes(before), bytes(after), data)

    async def _moved_end(self, org: str, ref: bytes, key: str, lines: int) -> LogPlace | None:
        rows = await self._read_now(
            org,
            "SELECT hash, first_byte + size FROM bodies"  # noqa: S608 - constants
            f" WHERE ref = $1 AND key = $2 AND state = {LIVE_BODY} AND first_line + lines = $3",
            ref,
            key,
            lines,
        )
        return LogPlace(Position(lines, bytes(rows[0][0])), rows[0][1]) if rows else None

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
        while True:
            rows = await self._read_now(
                EVERY_ORG,
                "SELECT at, org, ref, key FROM segments WHERE at >= $1 AND at < $2 ORDER BY at"  # noqa: S608 - constants
                f" LIMIT {_LOOKED_AT}",
                since,
                before,
            )
            for _, org, ref, key in rows:
                log = MovableLog(org, bytes(ref), key)
                if log not in seen:
                    seen.add(log)
                    yield log
            if len(rows) < _LOOKED_AT:
                return
            since = max(int(rows[-1][0]), since + 1)

    async def movable_body(self, log: MovableLog, before: int) -> LogBody | None:
        """The first lines of a log that are worth an object now."""
        rows = await self._read_now(
            log.org,
            "SELECT first_line, size, at FROM segments WHERE ref = $1 AND key = $2 ORDER BY first_line LIMIT 4096",
            log.ref,
            log.key,
        )
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
        found = await self._read_now(
            log.org,
            "SELECT first_line, lines, first_byte, before, hash, codec, data FROM segments"
            " WHERE ref = $1 AND key = $2 AND first_line <= $3 ORDER BY first_line",
            log.ref,
            log.key,
            last,
        )
        return await asyncio.to_thread(_body_of, log, found) if found else None

    async def claim_body(self, body: LogBody, now: int) -> bool:
        """Write down that an object is about to be written; False where another worker writes it."""

        async def work(tx: Transaction) -> bool:
            rows = await tx.rows(
                "INSERT INTO bodies AS known(name, org, ref, key, state, at, first_line, lines, first_byte, size, before,"
                f" hash, digest, stored) VALUES($1,$2,$3,$4,{WRITING},$5,$6,$7,$8,$9,$10,$11,$12,$13)"
                f" ON CONFLICT (name) DO UPDATE SET state = {WRITING}, at = excluded.at WHERE known.state = {GONE}"
                f" OR (known.state = {WRITING} AND known.at < excluded.at - {CLAIM_MS}) RETURNING 1",
                body.name,
                *body.log,
                now,
                body.first_line,
                body.lines,
                body.first_byte,
                body.size,
                body.before,
                body.hash,
                body.digest,
                len(body.stored),
            )
            return bool(rows)

        return await self._write(body.log.org, work)

    async def body_moved(self, body: LogBody) -> bool:
        """Read these lines from the object from now on; False where they were moved or purged meanwhile."""
        log = body.log

        async def work(tx: Transaction) -> None:
            removed = await tx.rows(
                "DELETE FROM segments WHERE ref = $1 AND key = $2 AND first_line >= $3 AND first_line < $4"
                " RETURNING lines",
                log.ref,
                log.key,
                body.first_line,
                body.first_line + body.lines,
            )
            if len(removed) != body.rows or sum(row[0] for row in removed) != body.lines:
                raise _Elsewhere
            live = await tx.rows(
                f"UPDATE bodies SET state = {LIVE_BODY} WHERE name = $1 AND state = {WRITING} RETURNING 1",  # noqa: S608 - constants
                body.name,
            )
            if not live:
                raise _Elsewhere

        try:
            await self._write(log.org, work)
        except _Elsewhere:
            return False
        return True

    async def abandon_body(self, body: LogBody) -> None:
        """An object that was written in vain is removed at once and not after a while."""

        async def work(tx: Transaction) -> None:
            await tx.rows(
                f"UPDATE bodies SET state = {GONE} WHERE name = $1 AND state = {WRITING}",  # noqa: S608 - constants
                body.name,
            )

        await self._write(body.log.org, work)

    async def _drop_bodies(self, tx: Transaction, ref: bytes) -> None:
        # One that is still being written stays in that state: its writer sees that its lines are gone.
        await tx.rows(f"UPDATE bodies SET state = {GONE} WHERE ref = $1 AND state = {LIVE_BODY}", ref)  # noqa: S608 - constants
        self._unpacked.clear()

    async def remove_bodies(self, now: int, delete: Callable[[Sequence[str]], Awaitable[None]]) -> int:
        """Remove objects that no one reads any more, and then their rows; how many."""

        async def work(tx: Transaction) -> int:
            rows = await tx.rows(
                f"SELECT name, org FROM bodies WHERE (state = {GONE} OR (state = {WRITING} AND at < $1))"  # noqa: S608 - constants
                f" AND org NOT IN ({NOT_HERE}) ORDER BY name LIMIT {_REMOVED_AT_ONCE} FOR UPDATE SKIP LOCKED",
                now - ABANDONED_MS,
            )
            # An organisation that moves to another cluster takes its objects along, and waits for this.
            for org in sorted({row[1] for row in rows}):
                await tx.rows("SELECT recollect_fence($1, true)", org)
            names = [str(row[0]) for row in rows]
            if names:
                await delete(names)
                await tx.rows("DELETE FROM bodies WHERE name = ANY($1::text[])", names)
            return len(names)

        removed = 0
        while some := await self._write(EVERY_ORG, work):
            removed += some
        return removed

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
        raise ValueError(f"segments of {log.ref.hex()} do not have the hash of their lines")
    digest, stored = packed_object(data)
    place = sha256(log.key.encode()).hexdigest()[:8]
    # Below its organisation and session: nothing is shared, so removing a session removes its objects.
    name = f"{log.org}/{log.ref.hex()}/{place}-{first[0]}-{digest}.zst"
    return LogBody(
        log,
        name,
        digest,
        len(rows),
        first[0],
        lines,
        first[2],
        len(data),
        bytes(first[3]),
        bytes(last[4]),
        stored,
    )
