"""What a lake of an organisation is made from: sessions in the order of their last change, and their usage."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from recollect.model.titles import TITLE_PARTS
from recollect.server.database.records import BY_REQUEST, LIVE
from recollect.server.database.sql_base import SqlRunner
from recollect.server.database.sql_sweep import DAY_MS
from recollect.server.database.sql_usage import USAGE, UsageTableRow, told_rows
from recollect.server.database.tables.steps import COUNTS, session_ref

_TITLES = ", ".join(f"nullif({part}, '')" for part in TITLE_PARTS)
_LAKE_LOCK = 0x6C616B65


class LakeSession(NamedTuple):
    """A session as its row in the lake has it. Times are milliseconds."""

    id: str
    project: str | None
    title: str | None
    branch: str | None
    first_at: int | None
    last_at: int | None
    changed: int
    bytes: int
    state: int


class LakeUsage(NamedTuple):
    """What a log says of a response; ``said`` has the amounts that count for it."""

    row: UsageTableRow
    said: UsageTableRow
    is_counted: bool


class DroppedSum(NamedTuple):
    """Responses of a session on a day (since 1970) of a month that was dropped (tables/usage_months.py)."""

    session: str
    day: int
    model: str
    variant: int
    messages: int
    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_searches: int


class DroppedMonths(NamedTuple):
    """The first month of which rows are held, and the sums before it."""

    until: int
    sums: list[DroppedSum]


_SESSION = (
    f"SELECT id, project, CASE WHEN title_rank = {BY_REQUEST} THEN title ELSE coalesce({_TITLES}, title) END, branch,"  # noqa: S608 - constants
    " first_at, last_at, changed, coalesce((SELECT bytes FROM logs WHERE logs.ref = sessions.ref AND key = ''), 0),"
    " state FROM sessions WHERE org = $1"
)


class PostgresLake(SqlRunner):
    """The questions of the job that writes a lake."""

    _pool: Any

    @contextlib.asynccontextmanager
    async def lake_turn(self, org: str) -> AsyncIterator[bool]:
        """False where another job writes the lake of this organisation; ends with the connection at the latest."""
        async with self._pool.acquire(timeout=10.0) as connection:
            place = crc32(org.encode()) & 0x7FFFFFFF
            is_ours = await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", _LAKE_LOCK, place)
            try:
                yield bool(is_ours)
            finally:
                if is_ours:
                    await connection.fetchval("SELECT pg_advisory_unlock($1, $2)", _LAKE_LOCK, place)

    async def lake_sessions(self, org: str, after: tuple[int, str], limit: int) -> list[LakeSession]:
        """Sessions that are there and not sealed, by their last change."""
        rows = await self._read_now(
            org,
            f"{_SESSION} AND state = {LIVE} AND encrypted = 0 AND (changed, id) > ($2, $3) ORDER BY changed, id LIMIT $4",
            org,
            *after,
            limit,
        )
        return [LakeSession(*row) for row in rows]

    async def lake_sessions_named(self, org: str, names: Collection[str]) -> dict[str, LakeSession]:
        """Sessions by their ids, in any state."""
        sql = f"{_SESSION} AND ref = ANY($2::bytea[])"
        rows = await self._read_now(org, sql, org, [session_ref(org, name) for name in names])
        return {row[0]: LakeSession(*row) for row in rows}

    async def lake_logs(self, org: str, session: str) -> list[tuple[str, int]]:
        """The logs of a session, and their lines."""
        rows = await self._read_now(
            org,
            "SELECT key, lines FROM logs WHERE ref = $1 AND lines > 0 ORDER BY key",
            session_ref(org, session),
        )
        return [(row[0], row[1]) for row in rows]

    async def lake_usage(self, org: str, sessions: Collection[str]) -> list[LakeUsage]:
        """Every log's word about the responses of these sessions: also what other sessions have of them."""
        rows = await self._read_now(
            org,
            f"SELECT {USAGE} FROM usage WHERE org = $1 AND message IN"  # noqa: S608 - names of columns
            " (SELECT message FROM usage WHERE org = $1 AND session = ANY($2::text[]) AND session <> '') ORDER BY message",
            org,
            list(sessions),
        )
        return list(_told([UsageTableRow(*row) for row in rows]))

    async def lake_dropped(self, org: str, sessions: Collection[str]) -> DroppedMonths:
        """What is left of responses of these sessions that were dropped; those without a time never are."""
        (held,) = await self._read_now(org, "SELECT coalesce(usage_from, 0) FROM orgs WHERE id = $1", org)
        if not held[0]:
            return DroppedMonths(0, [])
        rows = await self._read_now(
            org,
            f"SELECT session, day, model, variant, messages, {', '.join(COUNTS)} FROM rollup_day"  # noqa: S608 - names of columns
            " WHERE org = $1 AND session = ANY($2::text[]) AND day <> 0 AND day < $3",
            org,
            list(sessions),
            held[0] // DAY_MS,
        )
        return DroppedMonths(held[0], [DroppedSum(*row) for row in rows])


def _told(rows: Sequence[UsageTableRow]) -> Iterator[LakeUsage]:
    by_message: dict[str, list[UsageTableRow]] = defaultdict(list)
    for row in rows:
        by_message[row.message].append(row)
    for copies in by_message.values():
        for row, said in told_rows(copies):
            yield LakeUsage(row, said or row, said is not None)
