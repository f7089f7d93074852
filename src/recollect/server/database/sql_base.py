"""How queries and transactions run: what each database implements, and everything shared builds on."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from recollect.server.database.contract import AppendWaiter
from recollect.server.database.records import AppendRequest, Author, Grant, LogPlace, Moved, Segment
from recollect.server.database.sql_append import AUDIT
from recollect.server.database.sql_usage import Row, Transaction

Result = TypeVar("Result")
# The server itself, where no organisation is known yet or all are meant.
EVERY_ORG = "*"
_COLUMNS = ("id", "org", "user_id", "scopes", "machine", "created", "expires", "revoked", "last_used")
TOKEN = ", ".join((*_COLUMNS, "kind", "parent", "replaced_by", "retires"))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class SqlRunner(ABC):
    """The parts that differ between SQLite and PostgreSQL."""

    def __init__(self) -> None:
        # Pending token lookups: a busy client needs the same one on all its connections.
        self._asked: dict[bytes, asyncio.Task[Grant | None]] = {}

    @abstractmethod
    async def _read(self, org: str, sql: str, *values: object) -> Sequence[Row]:
        """Rows of a query; may be slightly out of date."""

    async def _read_sums(
        self,
        org: str,
        sql: str,
        values: tuple[object, ...],
        begin: Callable[[], None],
        take: Callable[[Sequence[Row]], None],
    ) -> None:
        """The same for a query that sums many rows: some at a time, in threads, after ``begin``."""
        rows = await self._read(org, sql, *values)
        begin()
        await asyncio.to_thread(take, rows)

    @abstractmethod
    async def _read_now(self, org: str, sql: str, *values: object) -> Sequence[Row]:
        """Rows of a query, with everything that was acknowledged."""

    @abstractmethod
    async def _write(
        self, org: str, work: Callable[[Transaction], Awaitable[Result]], *, is_retried: bool = True
    ) -> Result:
        """A transaction; durable when this returns. ``is_retried``: while the database does not answer."""

    @abstractmethod
    def begin_append(self, ask: AppendRequest, waiter: AppendWaiter) -> bool:
        """One append, batched with concurrent ones; always True."""

    async def _commit(self, ask: AppendRequest) -> Moved | None:
        """The same for a task; None where its log is at another position."""
        future: asyncio.Future[Moved | None] = asyncio.get_running_loop().create_future()
        self.begin_append(ask, future)
        return await future

    @abstractmethod
    async def _confirm(self, org: str) -> None:
        """Make visible data durable, before an append is reported as stored earlier."""

    @abstractmethod
    async def _delete_texts(self, tx: Transaction, ref: bytes) -> None:
        """Remove the words of a session from the search index."""

    @abstractmethod
    async def _tidy_months(self, now: int, audit_before: int = 0, usage_before: int = 0) -> int:
        """Create partitions that are needed soon and return the space of empty ones, and of months of the audit log
        and of responses before these times whatever they hold; how many."""

    async def _moved_lines(self, org: str, ref: bytes, key: str, line: int) -> Segment | None:
        """The lines around this one (counted from 0) from the object store; None where they are not there."""
        return None

    async def _moved_end(self, org: str, ref: bytes, key: str, lines: int) -> LogPlace | None:
        """The position after this many lines where an object ends there: known without reading it."""
        return None

    async def _drop_bodies(self, tx: Transaction, ref: bytes) -> None:  # noqa: B027 - only PostgreSQL has objects
        """Give up the objects of a session; a worker removes them."""

    async def _forget_derived(self, tx: Transaction) -> None:  # noqa: B027 - not every database has to
        """Remove what is left of rows that are gone in what is made from them: words, and sums that are empty."""

    async def _written_for_tokens(self, org: str, work: Callable[[Transaction], Awaitable[Result]]) -> Result:
        """A write that may change what tokens mean: lookups begun before it are not used after it."""
        result = await self._write(org, work)
        self._asked.clear()
        return result


async def note(tx: Transaction, org: str, author: Author, act: str, *names: str) -> None:
    """A row of the audit log; ``names``: the objects of the act."""
    target, detail = (*names, "")[:2]
    await tx.rows(AUDIT, org, now_ms(), author.user, author.token, act, target, detail)
