"""The contract on one SQLite file: the default, for one machine or a small team.

One thread writes. Work that arrives during a commit shares the next one, so that the sync of
``synchronous=FULL`` is paid once for many appends. Failed work is rolled back to its savepoint and does
not affect the rest. Readers have their own threads and connections and never wait for the writer (WAL).

Several server processes may use one file; they take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import apsw

from recollect.errors import UsageError
from recollect.model.text.terms import indexed_text
from recollect.server.database.records import (
    LIVE,
    AppendRequest,
    LineSearch,
    Row,
    Transaction,
    Unavailable,
    insert,
    now_ms,
    seen_by,
)
from recollect.server.database.sql import Database, conditions
from recollect.server.database.sql_logs import commit_appends
from recollect.server.database.tables import sqlite_steps
from recollect.share.sync.wire import Head, LineHit, LineHits

Result = TypeVar("Result")
_BUSY_MS = 30_000
_MOST_AT_ONCE = 512
_READERS = 4
_TEXT = insert("texts", "id, ref, key, line, org, at, type")
_MARK = re.compile(r"\$(\d+)")
_Job = tuple[Callable[[Transaction], Awaitable[Any]], Future[Any]]


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
    EACH = "SELECT value FROM json_each({})"

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def rows(self, sql: str, *values: object) -> Sequence[Row]:
        return list(self._connection.execute(_numbered(sql), values))

    async def many(self, sql: str, values: Sequence[tuple[object, ...]]) -> None:
        list(self._connection.executemany(_numbered(sql), values))

    async def lock_responses(self, org: str, messages: Iterable[str] | None) -> None:
        """Not needed: there is one writer."""

    async def add_texts(self, ref: bytes, ask: AppendRequest, now: int) -> None:
        # There is no other writer before the commit: the next numbers are ours.
        last = (await self.rows("SELECT coalesce(max(id), 0) FROM texts"))[0][0]
        rows = list(enumerate(ask.prepared.texts, last + 1))
        places = [(number, ref, ask.key, row.line, ask.org, row.at, row.type) for number, row in rows]
        await self.many(_TEXT, places)
        words = [(number, indexed_text(row.text)) for number, row in rows]
        await self.many(insert("words", "rowid, text"), words)


class _WriterThread(threading.Thread):
    """The only thread that writes."""

    def __init__(self, path: str) -> None:
        super().__init__(name="recollect-writer", daemon=True)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._connection = opened(path)
        self._transaction = _SqliteTransaction(self._connection)
        self.batches = self.batched = 0

    def give(self, work: Callable[[Transaction], Awaitable[Result]]) -> Future[Result]:
        result: Future[Result] = Future()
        self._jobs.put((work, result))
        return result

    def stop(self) -> None:
        """Stop after all jobs given so far."""
        self._jobs.put(None)
        self.join()
        self._connection.close()

    def run(self) -> None:
        while True:
            jobs = [self._jobs.get()]
            while len(jobs) < _MOST_AT_ONCE:
                try:
                    jobs.append(self._jobs.get_nowait())
                except queue.Empty:
                    break
            pending = [job for job in jobs if job is not None]
            if pending:
                self._commit(pending)
            if len(pending) < len(jobs):
                return

    def _commit(self, jobs: list[_Job]) -> None:
        """All of them in one transaction; those that fail by themselves are undone and told so."""
        jobs = [(work, result) for work, result in jobs if result.set_running_or_notify_cancel()]
        self.batches += 1
        self.batched += len(jobs)
        outcomes: list[tuple[Any, BaseException | None]]
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = [self._alone(work) for work, _ in jobs]
            self._connection.execute("COMMIT")
        except BaseException as problem:  # noqa: BLE001 - handed to those who wait
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            outcomes = [(None, Unavailable(f"SQLite error: {problem}"))] * len(jobs)
        for (_, result), (value, failure) in zip(jobs, outcomes, strict=True):
            if failure is None:
                result.set_result(value)
            else:
                result.set_exception(failure)

    def _alone(self, work: Callable[[Transaction], Awaitable[Any]]) -> tuple[Any, BaseException | None]:
        try:
            with self._connection:
                value = _finished(work(self._transaction))
            return value, None
        except (apsw.FullError, apsw.IOError, apsw.CorruptError):
            raise
        except Exception as problem:  # noqa: BLE001 - passed to the waiting caller
            return None, problem


class SqliteDatabase(Database):
    """The contract on one file."""

    def __init__(self, path: Path | str) -> None:
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
                hint="create it: recollect team serve --migrate, or recollect team admin org add",
            )
        version = await asyncio.to_thread(_version, self._path)
        if version != len(sqlite_steps()):
            raise UsageError(
                f"{self._path}: the tables have version {version}, this recollect needs version {len(sqlite_steps())}",
                hint="bring them up to date: recollect team serve --migrate",
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
        return await asyncio.to_thread(migrate, self._path)

    async def ready(self) -> str | None:
        try:
            await self._write("*", lambda tx: tx.rows("SELECT 1"))
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
        if self._writer is None:
            raise Unavailable("the server is closing")
        return await asyncio.wrap_future(self._writer.give(work))

    async def _commit(self, ask: AppendRequest) -> Head | None:
        async def work(tx: Transaction) -> Head | None:
            return (await commit_appends(tx, ask.org, [ask], now_ms()))[0]

        return await self._write(ask.org, work)

    async def _confirm(self, org: str) -> None:
        """Not needed: visible data is already synced."""

    async def _forget_derived(self, tx: Transaction) -> None:
        # A deleted row is only marked in the index: its words are gone when it is written again.
        await tx.rows("INSERT INTO words(words) VALUES('optimize')")

    async def _delete_texts(self, tx: Transaction, ref: bytes) -> None:
        await tx.rows("DELETE FROM words WHERE rowid IN (SELECT id FROM texts WHERE ref = $1)", ref)
        await tx.rows("DELETE FROM texts WHERE ref = $1", ref)

    async def search(self, org: str, wanted: LineSearch) -> LineHits:
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
        return LineHits([LineHit(*row) for row in rows])


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
    with contextlib.closing(opened(path)) as connection:
        return int(connection.pragma("user_version"))


def migrate(path: str) -> int:
    """Bring the tables of a file to this version; returns the number of steps."""
    # The file will hold everyone's conversations; create it with our own mode before SQLite would.
    Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    Path(path).touch(mode=0o600)
    with contextlib.closing(opened(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        steps = sqlite_steps()
        version = int(connection.pragma("user_version"))
        if version > len(steps):
            raise UsageError(
                f"{path}: made by a newer recollect (tables {version}, this version knows {len(steps)})",
                hint="use that version",
            )
        for step in steps[version:]:
            connection.execute(step)
        connection.pragma("user_version", len(steps))
        connection.execute("COMMIT")
        return len(steps) - version
