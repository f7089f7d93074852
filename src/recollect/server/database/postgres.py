"""The contract on PostgreSQL, for teams: any number of servers on one primary, with or without replicas.

Concurrent appends share a transaction: while one commits, the next batch collects. After a broken
connection, a failover or a deadlock the work is repeated until a timeout. That is safe, because a
stored append is recognised by its position. Reads may use a replica; decisions use
the primary.

Every statement runs with the organisation in ``recollect.org``, and row-level security compares it
again, except for superusers and roles with BYPASSRLS; ``ready`` reports those.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

import asyncpg  # type: ignore[import-untyped]  # it has no types

from recollect.errors import UsageError
from recollect.server.database.postgres_bodies import PostgresBodies
from recollect.server.database.postgres_search import (
    BLOCKS,
    EMPTY_LISTS,
    INSERT_BLOCK,
    SETTINGS,
    SHORT_LIST,
    BlockSearch,
    Window,
    blocks_of,
    tsquery,
)
from recollect.server.database.records import (
    EVERY_ORG,
    AppendRequest,
    LineSearch,
    Row,
    Transaction,
    Unavailable,
    now_ms,
    seen_by,
)
from recollect.server.database.sql import Database, conditions
from recollect.server.database.sql_logs import commit_appends
from recollect.server.database.tables import CREATE_MONTHS, postgres_steps, session_ref
from recollect.share.sync.wire import Head, LineHits

Result = TypeVar("Result")
_log = logging.getLogger("recollect.server")
_MOST_AT_ONCE = 256
_RETRY_FIRST, _RETRY_MOST = 0.05, 1.0
# A primary that refuses writes does so until its operator acts, unlike one that fails over. Addresses ask for a server that
# takes writes and mean the primary: that one answers reads while it takes none.
_READ_ONLY_SECONDS = 1.5
_READ_WRITE, _PRIMARY = "target_session_attrs=read-write", "primary"
_MIGRATION_LOCK = 0x7265636F6C6C
# PostgreSQL would compile the plan of a list of some thousand sessions: 130 ms for a query of 4 ms.
CONNECTION_SETTINGS = {"jit": "off"}
# Above this many responses one lock for the organisation is cheaper than one each.
_MANY_RESPONSES, _RESPONSE_LOCKS = 256, 4_096
# Worth retrying: a lost connection, a server that starts, stops or is a standby, or a deadlock.
_PASSING = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that died in the middle of a message
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.TooManyConnectionsError,
    asyncpg.TargetServerAttributeNotMatched,
    asyncpg.QueryCanceledError,
)
_LOCKS = (
    "SELECT pg_advisory_xact_lock_shared($1, -1)"
    " UNION ALL SELECT pg_advisory_xact_lock($1, place) FROM unnest($2::int[]) AS place"
)
_Pending = tuple[AppendRequest, asyncio.Future[Head | None]]


class _PostgresTransaction:
    EACH = "SELECT json_array_elements_text({}::json)"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, sql: str, *values: object) -> Sequence[Row]:
        found: Sequence[Row] = await self._connection.fetch(sql, *values)
        return found

    async def many(self, sql: str, values: Sequence[tuple[object, ...]]) -> None:
        if values:
            await self._connection.executemany(sql, values)

    async def lock_responses(self, org: str, messages: Iterable[str] | None) -> None:
        """With few responses a shared lock plus one each; with many an exclusive lock."""
        own = crc32(org.encode()) & 0x7FFFFFFF
        places = sorted({crc32(message.encode()) % _RESPONSE_LOCKS for message in messages or ()})
        if messages is None or len(places) > _MANY_RESPONSES:
            await self.rows("SELECT pg_advisory_xact_lock($1, -1)", own)
            return
        await self.rows(_LOCKS, own, places)

    async def add_texts(self, ref: bytes, ask: AppendRequest, now: int) -> None:
        await self.many(INSERT_BLOCK, [(ref, ask.key, *block) for block in blocks_of(ask, now)])


def _unreachable(problem: BaseException) -> Unavailable:
    return Unavailable(f"cannot connect to the database: {type(problem).__name__}: {problem}")


class PostgresDatabase(PostgresBodies, Database):
    """The contract on one PostgreSQL database, with an optional replica for reads."""

    def __init__(
        self,
        dsn: str,
        *,
        replica: str | None = None,
        connections: int = 10,
        patience: float = 20.0,
        statement_seconds: float = 30.0,
    ) -> None:
        PostgresBodies.__init__(self)
        self._dsn, self._replica_dsn = dsn, replica
        self._connections, self._patience = connections, patience
        self._statement_seconds = statement_seconds
        self._pool: Any = None
        self._replica: Any = None
        self._waiting: dict[str, deque[_Pending]] = {}
        self._committing: dict[str, asyncio.Task[None]] = {}
        self._closing = False
        # Until when a write that a read-only database refuses is not tried again, by the clock of the loop.
        self._refused_until = 0.0
        self.batches = (0, 0)

    async def open(self) -> None:
        self._closing = False
        self._pool = await self._made(self._dsn)
        try:
            rows = await self._read_now(EVERY_ORG, "SELECT coalesce(max(version), 0) FROM recollect_version")
            version = rows[0][0]
        except asyncpg.UndefinedTableError:
            version = 0
        if version != len(postgres_steps()):
            await self._pool.close()
            raise UsageError(
                f"the database has tables of version {version}, this recollect needs version {len(postgres_steps())}",
                hint="bring them up to date: recollect team serve --migrate",
            )
        if await self.bypasses_row_security():
            _log.warning(
                "the role bypasses row-level security: use one that is neither superuser nor BYPASSRLS"
            )
        await self._read_now(EVERY_ORG, CREATE_MONTHS, now_ms())
        if self._replica_dsn is not None:
            self._replica = await self._made(self._replica_dsn)

    async def _made(self, dsn: str) -> Any:
        async def keep(connection: Any) -> None:
            """Nothing to reset: the organisation is set whenever a connection is taken."""

        try:
            return await asyncpg.create_pool(
                dsn,
                min_size=1,
                max_size=self._connections,
                command_timeout=self._statement_seconds,
                timeout=5.0,
                init=_prepared,
                reset=keep,
                target_session_attrs=_PRIMARY if _READ_WRITE in dsn else None,
                server_settings=CONNECTION_SETTINGS,
                max_inactive_connection_lifetime=60.0,
            )
        except (*_PASSING, asyncpg.PostgresError) as problem:
            raise _unreachable(problem) from problem

    async def close(self) -> None:
        self._closing = True
        while self._committing:
            await asyncio.gather(*self._committing.values(), return_exceptions=True)
        for pool in (self._pool, self._replica):
            if pool is not None:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(pool.close(), 5.0)
                pool.terminate()
        self._pool = self._replica = None

    async def migrate(self) -> int:
        """Apply the missing steps, one server at a time."""
        try:
            connection = await asyncpg.connect(self._dsn, timeout=10.0, server_settings=CONNECTION_SETTINGS)
        except (*_PASSING, asyncpg.PostgresError) as problem:
            raise _unreachable(problem) from problem
        try:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1::bigint)", _MIGRATION_LOCK)
                # Row-level security binds the owner too: without this a step that changes rows finds none.
                await connection.execute("SELECT set_config('recollect.org', $1, true)", EVERY_ORG)
                await connection.execute(
                    "CREATE TABLE IF NOT EXISTS recollect_version(version INTEGER PRIMARY KEY, at BIGINT NOT NULL)"
                )
                version = await connection.fetchval("SELECT coalesce(max(version), 0) FROM recollect_version")
                steps = postgres_steps()
                if version > len(steps):
                    raise UsageError(
                        f"the database was made by a newer recollect (tables {version}, this version knows {len(steps)})",
                        hint="use that version",
                    )
                for number, step in enumerate(steps[version:], version + 1):
                    await connection.execute(step)
                    await connection.execute("INSERT INTO recollect_version VALUES($1, $2)", number, now_ms())
                return len(steps) - int(version)
        finally:
            await connection.close()

    async def ready(self) -> str | None:
        try:
            rows = await asyncio.wait_for(
                self._read_now(
                    EVERY_ORG, "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"
                ),
                5.0,
            )
        except (Unavailable, *_PASSING) as problem:
            return f"the database does not answer: {type(problem).__name__}"
        return "the database is read-only" if rows[0][0] else None

    def connections(self) -> Mapping[str, int]:
        counts = {"pool_most_connections": self._connections}
        for name, pool in (("pool", self._pool), ("replica_pool", self._replica)):
            if pool is not None:
                counts |= {
                    f"{name}_connections": pool.get_size(),
                    f"{name}_idle_connections": pool.get_idle_size(),
                }
        return counts | {"waiting_appends": sum(map(len, self._waiting.values()))}

    async def bypasses_row_security(self) -> bool:
        """Whether the role bypasses row-level security, the second check of the organisation."""
        rows = await self._read_now(
            EVERY_ORG, "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
        )
        return bool(rows[0][0])

    # --- connections -----------------------------------------------------------------------------

    async def _read(self, org: str, sql: str, *values: object, first: tuple[str, ...] = ()) -> Sequence[Row]:
        """``first``: a statement, with its values, that makes settings for this query only."""
        if self._replica is not None:
            try:
                return await self._fetched(self._replica, org, sql, values, first)
            except _PASSING:  # an unavailable replica is no reason to fail
                pass
        return await self._retried(lambda: self._fetched(self._pool, org, sql, values, first))

    async def _read_now(self, org: str, sql: str, *values: object) -> Sequence[Row]:
        return await self._retried(lambda: self._fetched(self._pool, org, sql, values))

    # For jobs that run beside the server.
    rows = _read_now

    @contextlib.asynccontextmanager
    async def turn(self, lock: int, org: str) -> AsyncIterator[bool]:
        """False where another job has this lock of the organisation; it ends with the connection at the latest."""
        async with self._pool.acquire(timeout=10.0) as connection:
            place = crc32(org.encode()) & 0x7FFFFFFF
            is_ours = await connection.fetchval("SELECT pg_try_advisory_lock($1, $2)", lock, place)
            try:
                yield bool(is_ours)
            finally:
                if is_ours:
                    await connection.fetchval("SELECT pg_advisory_unlock($1, $2)", lock, place)

    @staticmethod
    async def _fetched(
        pool: Any, org: str, sql: str, values: tuple[object, ...], first: tuple[str, ...] = ()
    ) -> Sequence[Row]:
        found: Sequence[Row]
        async with pool.acquire(timeout=10.0) as connection:
            await _as_org(connection, org)
            if not first:
                found = await connection.fetch(sql, *values)
                return found
            async with connection.transaction():
                await connection.fetch(*first)
                found = await connection.fetch(sql, *values)
                return found

    async def _write(
        self, org: str, work: Callable[[Transaction], Awaitable[Result]], *, is_retried: bool = True
    ) -> Result:
        async def once() -> Result:
            async with self._pool.acquire(timeout=10.0) as connection, connection.transaction():
                await _as_org(connection, org)
                return await work(_PostgresTransaction(connection))

        return await self._retried(once, None if is_retried else 0.0)

    async def _retried(self, work: Callable[[], Awaitable[Result]], patience: float | None = None) -> Result:
        """Retry until it works or a timeout; a failover takes some seconds."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        deadline = begun + (self._patience if patience is None else patience)
        pause = _RETRY_FIRST
        while True:
            if self._pool is None:
                raise Unavailable("the server is closing")
            try:
                return await work()
            except (asyncpg.PostgresError, *_PASSING) as problem:
                if not isinstance(problem, _PASSING):
                    raise
                is_refused = isinstance(problem, asyncpg.ReadOnlySQLTransactionError)
                if is_refused:
                    # What waited behind another write has waited for long enough.
                    is_known = loop.time() < self._refused_until
                    deadline = min(deadline, begun + (0.0 if is_known else _READ_ONLY_SECONDS))
                if loop.time() + pause > deadline:
                    if is_refused and patience is None:
                        self._refused_until = loop.time() + _READ_ONLY_SECONDS
                    raise Unavailable(f"the database does not answer: {type(problem).__name__}") from problem
            if self._pool is not None:
                # Idle connections may lead to a server that is no longer the primary.
                await self._pool.expire_connections()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_MOST)

    # --- appends ---------------------------------------------------------------------------------

    async def _commit(self, ask: AppendRequest) -> Head | None:
        if self._closing:
            raise Unavailable("the server is closing")
        future: asyncio.Future[Head | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(ask.org, deque()).append((ask, future))
        if ask.org not in self._committing:
            self._committing[ask.org] = asyncio.create_task(self._commit_all(ask.org))
        return await future

    async def _commit_all(self, org: str) -> None:
        """Commit the pending appends of one organisation, batch by batch."""
        try:
            while waiting := self._waiting.get(org):
                batch = [waiting.popleft() for _ in range(min(len(waiting), _MOST_AT_ONCE))]
                await self._commit_batch(org, batch)
        finally:
            del self._committing[org]
            if not self._waiting.get(org):
                self._waiting.pop(org, None)

    async def _commit_batch(self, org: str, batch: list[_Pending]) -> None:
        appends = [ask for ask, _ in batch]
        self.batches = (self.batches[0] + 1, self.batches[1] + len(batch))
        try:
            results = await self._write(org, lambda tx: commit_appends(tx, org, appends, now_ms()))
        except Exception as problem:  # noqa: BLE001 - handed to those who wait
            if len(batch) > 1 and isinstance(problem, asyncpg.PostgresError):
                # One of them failed; retry each alone, so that the others succeed.
                for one in batch:
                    await self._commit_batch(org, [one])
                return
            for _, waiter in batch:
                if not waiter.done():
                    waiter.set_exception(problem)
            return
        for (_, waiter), result in zip(batch, results, strict=True):
            if not waiter.done():
                waiter.set_result(result)

    async def _confirm(self, org: str) -> None:
        """A commit may be visible while it still waits for a standby; a commit after it waits again."""
        sql = "SELECT pg_logical_emit_message(true, 'recollect', '')"
        await self._write(org, lambda tx: tx.rows(sql))

    async def reach(self, org: str, session: str, key: str, after: int) -> None:
        """Fetches the object with that line, which the reader needs next."""
        await self._moved_lines(org, session_ref(org, session), key, after)

    # --- words and months ------------------------------------------------------------------------

    async def _tidy(self, now: int) -> None:
        await self._read_now(EVERY_ORG, CREATE_MONTHS, now)
        await self._read_now(EVERY_ORG, EMPTY_LISTS)

    async def _delete_texts(self, tx: Transaction, ref: bytes) -> None:
        await tx.rows("DELETE FROM texts WHERE ref = $1", ref)

    async def search(self, org: str, wanted: LineSearch) -> LineHits:
        words = tsquery(wanted.query)

        async def blocks(window: Window, size: int, offset: int) -> AsyncIterator[Row]:
            more, values = conditions(
                2,
                ("texts.ref =", None if wanted.session is None else session_ref(org, wanted.session)),
                ("sessions.project =", wanted.project),
                ("texts.newest >=", wanted.since),
                ("texts.oldest <", wanted.until),
                ("texts.newest >=", window[0]),
                ("texts.newest <", window[1]),
            )
            if wanted.reader is not None:
                more += f" AND {seen_by(wanted.reader, f'${len(values) + 2}')}"
                values.append(wanted.reader.user)
            sql = BLOCKS.format(more=more, limit=size, offset=offset)
            for row in await self._read(org, sql, org, *values, first=(SETTINGS, words)):
                yield row

        found = BlockSearch(wanted, partial(self.segments, org))
        return await found.run(blocks, now_ms())


async def _prepared(connection: Any) -> None:
    # An acknowledged append must survive a crash of the database, under any of its settings.
    await connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    await connection.execute(SHORT_LIST)


async def _as_org(connection: Any, org: str) -> None:
    """Set the organisation whose rows this connection sees."""
    await connection.fetch("SELECT set_config('recollect.org', $1, false)", org)
