"""Moves closed segments of logs into objects: the work of a worker.

PostgreSQL decides every append and keeps the newest hour. What is older is written as one immutable object for each run
of segments, and its rows are removed in the transaction that records the object. A worker that is killed at any point
leaves rows, or an object that is known, never neither. Any number of workers may run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Mapping
from typing import NamedTuple

from recollect.errors import UsageError
from recollect.server.clusters.router import ClusterDatabase
from recollect.server.database.contract import BodyLost, BodyUnavailable, Database, OrgElsewhere
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.postgres_bodies import LogBody, MovableLog
from recollect.server.database.sql_base import now_ms
from recollect.server.jobs import is_done
from recollect.server.objects.store import BlobStore, open_store, unpacked_object

NEWEST_MS = 3_600_000
_EVERY_SECONDS = 60.0
_AT_ONCE = 4
_log = logging.getLogger("recollect.server")


class MoveResult(NamedTuple):
    """What a pass did; ``problem`` is why it ended early."""

    objects: int = 0
    lines: int = 0
    raw_bytes: int = 0
    stored_bytes: int = 0
    removed: int = 0
    problem: str | None = None


def with_objects(
    database: Database, address: str, environment: Mapping[str, str]
) -> BodyMover | ClusterMovers:
    """Let a database read and move bodies of logs in the store at an address."""
    store = open_store(address, environment)
    if isinstance(database, ClusterDatabase):
        for one in database.clusters.values():
            one.objects = store
        return ClusterMovers(database, store)
    if not isinstance(database, PostgresDatabase):
        raise UsageError(
            "--objects: needs PostgreSQL; SQLite keeps all lines in its own file",
            hint="leave --objects out, or give --database postgresql://…",
        )
    database.objects = store
    return BodyMover(database, store)


class BodyMover:
    """One worker."""

    def __init__(self, database: PostgresDatabase, store: BlobStore) -> None:
        self.database, self._store = database, store
        # Whether a server does the work itself, beside answering.
        self.is_working = True
        self._failed_passes = 0

    async def run(self) -> None:
        """Move what is old enough, every minute, until cancelled."""
        while True:
            self._failed_passes += not await is_done("bodies", self._pass())
            await asyncio.sleep(_EVERY_SECONDS)

    async def _pass(self) -> None:
        done = await self.once(now_ms())
        if done.problem is not None:
            self._failed_passes += 1
            _log.warning("bodies", extra={"fields": done._asdict()})
        elif any(done[:5]):
            _log.info("bodies", extra={"fields": done._asdict()})

    async def once(self, now: int, *, newest_ms: int = NEWEST_MS) -> MoveResult:
        """One pass over everything that is old enough. A store that does not answer ends it."""
        total = MoveResult()
        try:
            removed = await self.database.remove_bodies(now, self._store.delete)
            total = total._replace(removed=removed)
            batch: list[MovableLog] = []
            async for log in self.database.movable_logs(now - newest_ms):
                batch.append(log)
                if len(batch) == _AT_ONCE:
                    total = _added(total, await self._all(batch, now, newest_ms))
                    batch = []
            total = _added(total, await self._all(batch, now, newest_ms))
            removed += await self.database.remove_bodies(now, self._store.delete)
            return total._replace(removed=removed)
        except BodyUnavailable as problem:
            return total._replace(problem=str(problem)[:200])

    async def gauges(self) -> dict[str, float]:
        """How far the work is behind, for metrics."""
        waiting, gone = await self.database.body_backlog(now_ms() - NEWEST_MS)
        return {
            "bodies_backlog_seconds": waiting / 1000,
            "bodies_to_remove": gone,
            "bodies_failed_passes": self._failed_passes,
        }

    async def _all(self, logs: list[MovableLog], now: int, newest_ms: int) -> list[MoveResult]:
        done = await asyncio.gather(
            *(self._log_moved(log, now, newest_ms) for log in logs), return_exceptions=True
        )
        for one in done:
            if isinstance(one, BaseException):
                raise one
        return [one for one in done if isinstance(one, MoveResult)]

    async def _log_moved(self, log: MovableLog, now: int, newest_ms: int) -> MoveResult:
        total = MoveResult()
        with contextlib.suppress(OrgElsewhere):  # its cluster's own worker does it
            while body := await self.database.movable_body(log, now - newest_ms):
                if not await self._moved(body, now):
                    break
                total = _added(total, [MoveResult(1, body.lines, body.size, len(body.stored))])
        return total

    async def _moved(self, body: LogBody, now: int) -> bool:
        if not await self.database.claim_body(body, now):
            return False
        if not await self._store.put(body.name, body.stored):
            # Written by a worker that was killed after it. Believed only if it is what we would write.
            try:
                unpacked_object(body.name, body.digest, body.size, await self._store.get(body.name))
            except BodyLost as problem:
                _log.error("bodies", extra={"fields": {"problem": str(problem)}})
                return False
        if await self.database.body_moved(body):
            return True
        await self.database.abandon_body(body)
        return False


class ClusterMovers:
    """The workers of several clusters, with one store: names of objects begin with their organisation."""

    def __init__(self, database: ClusterDatabase, store: BlobStore) -> None:
        self.database, self.is_working = database, True
        self._movers = [BodyMover(one, store) for one in database.clusters.values()]

    async def run(self) -> None:
        await asyncio.gather(*(one.run() for one in self._movers))

    async def once(self, now: int, *, newest_ms: int = NEWEST_MS) -> MoveResult:
        done = [await one.once(now, newest_ms=newest_ms) for one in self._movers]
        problems = [one.problem for one in done if one.problem is not None]
        return _added(MoveResult(problem=problems[0] if problems else None), done)

    async def gauges(self) -> dict[str, float]:
        found = [await one.gauges() for one in self._movers]
        return {
            "bodies_backlog_seconds": max(one["bodies_backlog_seconds"] for one in found),
            "bodies_to_remove": sum(one["bodies_to_remove"] for one in found),
            "bodies_failed_passes": sum(one["bodies_failed_passes"] for one in found),
        }


async def worked_once(mover: BodyMover | ClusterMovers) -> MoveResult:
    """Open the database, move what there is, close it."""
    await mover.database.open()
    try:
        return await mover.once(now_ms())
    finally:
        await mover.database.close()


async def work_until_signal(mover: BodyMover | ClusterMovers) -> None:
    """A worker as a process: SIGTERM and SIGINT end it between two steps."""
    await mover.database.open()
    working = asyncio.ensure_future(mover.run())
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, working.cancel)
    _log.info("worker", extra={"fields": {"state": "started"}})
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await working
    finally:
        await mover.database.close()


def _added(total: MoveResult, more: list[MoveResult]) -> MoveResult:
    for one in more:
        total = MoveResult(
            total.objects + one.objects,
            total.lines + one.lines,
            total.raw_bytes + one.raw_bytes,
            total.stored_bytes + one.stored_bytes,
            total.removed + one.removed,
            total.problem,
        )
    return total
