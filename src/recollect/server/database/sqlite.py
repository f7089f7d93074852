"""The contract on one SQLite file: the default, for one machine or a small team.

One thread writes. Work that arrives during a commit shares the next one, so that the sync of
``synchronous=FULL`` is paid once for many appends. Failed work is rolled back to its savepoint and does
not affect the rest. Readers have their own threads and connections and never wait for the writer (WAL).

Several server processes may use one file; they take turns.
"""

from __future__ import annotations

import asyncio
import queue
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from recollect.errors import UsageError
from recollect.server.database.contract import AppendWaiter, Unavailable
from recollect.server.database.records import (
    LIVE,
    AppendRequest,
    LineMatch,
    LineMatches,
    LineSearch,
    Moved,
    SessionAppend,
)
from recollect.server.database.sql import SqlDatabase, conditions
from recollect.server.database.sql_append import BUSY, GATHER_SECONDS, commit_appends
from recollect.server.database.sql_base import now_ms
from recollect.server.database.sql_usage import USAGE, BulkStatement, Row, ToldResponse, Transaction
from recollect.server.database.sql_visibility import seen_by
from recollect.server.database.sqlite_append import all_rows, move
from recollect.server.database.tables.steps import sqlite_steps
from recollect.server.database.tables.usage_months import response_ref

Result = TypeVar("Result")
_BUSY_MS = 30_000
_MOST_AT_ONCE = 512
_READERS = 4
_MARK = re.compile(r"\$(\d+)")
_KNOWN = (
    "FROM (SELECT DISTINCT value ->> 0 AS message, value ->> 1 AS ref FROM json_each(?2)) AS asked"
    " CROSS JOIN responses AS known ON known.ref = asked.ref"
)
_USAGE = (
    f"SELECT asked.message{', NULL' * (USAGE.count(', ') - 1)}, known.said {_KNOWN}"
    f" UNION ALL SELECT {', '.join(f'usage.{name}' for name in USAGE.split(', '))} {_KNOWN} CROSS JOIN usage"
    " ON usage.org = ?1 AND usage.message = asked.message AND usage.said = known.said"
)
_KNOW = (
    "INSERT INTO responses(ref, said, org) SELECT DISTINCT value ->> 1, value ->> 2, ?1 FROM json_each(?2)"
    " WHERE NOT EXISTS (SELECT 1 FROM responses AS known WHERE known.ref = value ->> 1)"
)


@lru_cache(maxsize=512)
def _numbered(sql: str) -> str:
    """``$1`` is a name in SQLite; ``?1`` is a position."""
    return _MARK.sub(r"?\1", sql)


def _finished(work: Awaitable[Result]) -> Result:
    """Run a coroutine that never waits: on SQLite every result is available at once."""
    assert isinstance(work, Coroutine)  # noqa: S101 - for the type checker
    try:
        work.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    raise RuntimeError("a transaction waited for something other than its database")


class _SqliteTransaction:
    def __init__(self, connection: apsw.Connection) -> None:
        self._run = connection.execute
        self._connection = connection

    async def rows(self, sql: str, *values: object) -> Sequence[Row]:
        return list(self._run(_numbered(sql), values))

    async def many(self, sql: str, values: Sequence[tuple[object, ...]]) -> Sequence[Row]:
        return list(self._connection.executemany(_numbered(sql), values))

    async def put(self, put: BulkStatement, rows: Sequence[tuple[object, ...]]) -> None:
        list(all_rows(self._connection, put.sql.replace("{rows}", "VALUES {rows}"), rows))

    async def usage(self, org: str, asked: Sequence[ToldResponse]) -> Sequence[Row]:
        values = org, msgspec.json.encode(asked).decode()
        found = list(self._run(_USAGE, values))
        list(self._run(_KNOW, values))
        return found

    async def lock_responses(self, org: str, messages: Iterable[str] | None) -> None:
        """Not needed: there is one writer."""

    async def move(self, org: str, asks: Sequence[SessionAppend], now: int) -> list[Moved | None]:
        return move(self._connection, org, asks, now)


class _WriteJob:
    """One append, or one piece of work, with its ``result`` or ``problem``."""

    __slots__ = ("append", "loop", "problem", "result", "waiter", "work")

    def __init__(
        self,
        append: AppendRequest | None,
        work: Callable[[Transaction], Awaitable[Any]] | None,
        waiter: AppendWaiter,
    ) -> None:
        self.append, self.work, self.waiter = append, work, waiter
        self.loop = asyncio.get_running_loop()
        self.result: Any = None
        self.problem: BaseException | None = None

    def answer(self) -> None:
        """Tell the one who waits; runs in the loop's thread."""
        if self.waiter.done():
            return
        if self.problem is None:
            self.waiter.set_result(self.result)
        else:
            self.waiter.set_exception(self.problem)


class _WriterThread(threading.Thread):
    """The only thread that writes."""

    def __init__(self, path: str) -> None:
        super().__init__(name="recollect-writer", daemon=True)
        self._jobs: queue.SimpleQueue[_WriteJob | None] = queue.SimpleQueue()
        self._connection = opened(path)
        self._transaction = _SqliteTransaction(self._connection)
        self.batches = self.batched = 0
        # Recent number of jobs per commit.
        self._busy = 0

    def give(self, job: _WriteJob) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        """Stop after all jobs given so far."""
        self._jobs.put(None)
        self.join()
        self._connection.close()

    def run(self) -> None:
        while True:
            jobs = [self._jobs.get()]
            if self._busy >= BUSY:
                # More are on their way; and the loop has the interpreter meanwhile.
                time.sleep(GATHER_SECONDS)
            while len(jobs) < _MOST_AT_ONCE:
                try:
                    jobs.append(self._jobs.get_nowait())
                except queue.Empty:
                    break
            pending = [job for job in jobs if job is not None]
            self._busy = max(len(pending), self._busy // 2)
            if pending:
                self._commit(pending)
                self._answer(pending)
            if len(pending) < len(jobs):
                return

    def _commit(self, jobs: list[_WriteJob]) -> None:
        self.batches += 1
        self.batched += len(jobs)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._all(jobs)
            self._connection.execute("COMMIT")
        except BaseException as problem:  # noqa: BLE001 - handed to those who wait
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            for job in jobs:
                job.problem = Unavailable(f"SQLite error: {problem}")

    def _all(self, jobs: list[_WriteJob]) -> None:
        appends = [job for job in jobs if job.append is not None]
        for job in jobs:
            if job.work is not None:
                self._alone(job)
        while appends:
            wave: dict[tuple[str, str, str], _WriteJob] = {}
            rest: list[_WriteJob] = []
            for job in appends:
                assert job.append is not None  # noqa: S101 - for the type checker
                place = (job.append.org, job.append.session, job.append.key)
                (rest.append(job) if place in wave else wave.__setitem__(place, job))
            self._together(list(wave.values()))
            appends = rest

    def _together(self, jobs: list[_WriteJob]) -> None:
        """Appends to different logs together; if one fails, each is tried alone."""
        by_org: dict[str, list[_WriteJob]] = {}
        for job in jobs:
            assert job.append is not None  # noqa: S101 - for the type checker
            by_org.setdefault(job.append.org, []).append(job)
        for org, group in by_org.items():
            appends = [job.append for job in group if job.append is not None]
            try:
                with self._connection:  # a savepoint
                    results = _finished(commit_appends(self._transaction, org, appends, now_ms()))
            except Exception as problem:
                if isinstance(problem, apsw.FullError | apsw.IOError | apsw.CorruptError):
                    raise
                if len(group) == 1:
                    group[0].problem = problem
                    continue
                for job in group:
                    self._together([job])
                continue
            for job, result in zip(group, results, strict=True):
                job.result = result

    def _alone(self, job: _WriteJob) -> None:
        assert job.work is not None  # noqa: S101 - for the type checker
        try:
            with self._connection:
                job.result = _finished(job.work(self._transaction))
        except (apsw.FullError, apsw.IOError, apsw.CorruptError):
            raise
        except Exception as problem:  # noqa: BLE001 - passed to the waiting caller
            job.problem = problem

    @staticmethod
    def _answer(jobs: list[_WriteJob]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[_WriteJob]] = {}
        for job in jobs:
            by_loop.setdefault(job.loop, []).append(job)
        for loop, done in by_loop.items():
            try:
                loop.call_soon_threadsafe(_answer_all, done)
            except RuntimeError:  # the loop has ended; no one waits for the result
                continue


def _answer_all(jobs: list[_WriteJob]) -> None:
    for job in jobs:
        job.answer()


class SqliteDatabase(SqlDatabase):
    """The contract on one file."""

    def __init__(self, path: Path | str) -> None:
        super().__init__()
        self._path = str(path)
        self._writer: _WriterThread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._own = threading.local()
        self._connections: list[apsw.Connection] = []

    @property
    def batches(self) -> tuple[int, int]:
        """The number of commits, and of writes in them."""
        return (self._writer.batches, self._writer.batched) if self._writer else (0, 0)

    async def open(self) -> None:
        if not Path(self._path).exists():
            raise UsageError(
                f"{self._path}: the database does not exist",
                hint="create it: recollect serve --migrate, or recollect admin org add",
            )
        version = await asyncio.to_thread(_version, self._path)
        if version != len(sqlite_steps()):
            raise UsageError(
                f"{self._path}: the tables have version {version}, this recollect needs version {len(sqlite_steps())}",
                hint="bring them up to date: recollect serve --migrate",
            )
        self._writer = _WriterThread(self._path)
        self._writer.start()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="recollect-reader")

    async def close(self) -> None:
        writer, readers = self._writer, self._readers
        self._writer = self._readers = None
        if readers is not None:
            await asyncio.to_thread(readers.shutdown)
        if writer is not None:
            await asyncio.to_thread(writer.stop)
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._own = threading.local()

    async def migrate(self) -> int:
        return await asyncio.to_thread(_migrate, self._path)

    async def ready(self) -> str | None:
        try:
            await self._write("*", _nothing)
        except (Unavailable, apsw.Error) as problem:
            return str(problem)
        return None

    def connections(self) -> Mapping[str, int]:
        return {"pool_most_connections": _READERS + 1, "pool_connections": len(self._connections) + 1}

    async def _read(self, org: str, sql: str, *values: object) -> Sequence[Row]:
        if self._readers is None:
            raise Unavailable("the server is closing")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._readers, self._rows, _numbered(sql), values)
        except apsw.Error as problem:
            raise Unavailable(f"SQLite error: {problem}") from problem

    _read_now = _read

    def _rows(self, sql: str, values: tuple[object, ...]) -> Sequence[Row]:
        connection: apsw.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = opened(self._path, read_only=True)
            self._connections.append(connection)
        return list(connection.execute(sql, values))

    async def _write(
        self, org: str, work: Callable[[Transaction], Awaitable[Result]], *, is_retried: bool = True
    ) -> Result:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._give(_WriteJob(None, work, future))
        result: Result = await future
        return result

    def begin_append(self, ask: AppendRequest, waiter: AppendWaiter) -> bool:
        self._give(_WriteJob(ask, None, waiter))
        return True

    def _give(self, job: _WriteJob) -> None:
        if self._writer is None:
            raise Unavailable("the server is closing")
        self._writer.give(job)

    async def _confirm(self, org: str) -> None:
        """Not needed: visible data is already synced."""

    async def _forget_derived(self, tx: Transaction) -> None:
        # A deleted row is only marked in the index: its words are gone when it is written again.
        await tx.rows("INSERT INTO words(words) VALUES('optimize')")

    async def _delete_texts(self, tx: Transaction, ref: bytes) -> None:
        await tx.rows("DELETE FROM words WHERE rowid IN (SELECT id FROM texts WHERE ref = $1)", ref)
        await tx.rows("DELETE FROM texts WHERE ref = $1", ref)

    async def search(self, org: str, wanted: LineSearch) -> LineMatches:
        more, values = conditions(
            3,
            ("sessions.id =", wanted.session),
            ("sessions.project =", wanted.project),
            ("texts.at >=", wanted.since),
            ("texts.at <", wanted.until),
        )
        if wanted.reader is not None:
            more += f" AND {seen_by(wanted.reader, f'${len(values) + 3}')}"
            values.append(wanted.reader.user)
        rows = await self._read(
            org,
            "SELECT sessions.id, texts.key, texts.line, texts.at, texts.type FROM words"  # noqa: S608 - made of constants
            " JOIN texts ON texts.id = words.rowid JOIN sessions ON sessions.ref = texts.ref"
            f" WHERE words MATCH $2 AND texts.org = $1 AND sessions.state = {LIVE}{more}"
            f" ORDER BY coalesce(texts.at, 0) DESC, texts.id DESC LIMIT {int(wanted.limit)}",
            org,
            wanted.query.fts(),
            *values,
        )
        return LineMatches([LineMatch(*row) for row in rows])

    async def _tidy_months(self, now: int, audit_before: int = 0, usage_before: int = 0) -> int:
        """Not needed: SQLite uses the space of deleted rows again."""
        return 0


async def _nothing(tx: Transaction) -> None:
    await tx.rows("SELECT 1")


def opened(path: str, *, read_only: bool = False) -> apsw.Connection:
    """A connection with the settings of this database."""
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(path, flags=flags, statementcachesize=512)
    connection.set_busy_timeout(_BUSY_MS)
    connection.pragma("cache_size", -16_000)
    if not read_only:
        connection.pragma("journal_mode", "wal")
        # An acknowledged append must survive a power cut; NORMAL may lose the last commits.
        connection.pragma("synchronous", "full")
    return connection


def _version(path: str) -> int:
    connection = opened(path)
    try:
        return int(connection.pragma("user_version"))
    finally:
        connection.close()


def _response_ref(*values: object) -> str:
    org, message = map(str, values)
    return response_ref(org, message)


def _migrate(path: str) -> int:
    # The file will hold everyone's conversations; create it with our own mode before SQLite would.
    Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    Path(path).touch(mode=0o600)
    connection = opened(path)
    try:
        connection.execute("BEGIN IMMEDIATE")
        steps = sqlite_steps()
        version = int(connection.pragma("user_version"))
        if version > len(steps):
            connection.execute("ROLLBACK")
            raise UsageError(
                f"{path}: made by a newer recollect (tables {version}, this version knows {len(steps)})",
                hint="use that version",
            )
        connection.create_scalar_function("response_ref", _response_ref, 2)
        for step in steps[version:]:
            connection.execute(step)
        connection.pragma("user_version", len(steps))
        connection.execute("COMMIT")
        return len(steps) - version
    finally:
        connection.close()
