"""Appending to a log from an event loop, and following one, with the same promises as ``Log`` and ``follow``.

Appends that are pending when the worker is free become one batch: one write and one sync for all of them. The
worker is one thread of this object's own, so that a slow disk never blocks the loop or other threads.

Cancelling an append that still waits removes it from the queue: nothing is stored. Cancelling one that is
being written only stops the waiting, so it may be stored; appending it again with the same id is harmless
(P9).

One object belongs to one event loop. For many threads, share a ``Log`` instead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from recollect.errors import LogUnusable
from recollect.model.lines.damage import DEFAULT_LIMITS, Limits
from recollect.store.logs.batch import AppendJob, BatchLines
from recollect.store.logs.follow import Followed, Follower, FollowFrom
from recollect.store.logs.log import AppendResult, Log, checked_job
from recollect.system.thread_hop import in_thread


class AsyncLog:
    """The writing end of one log, for one event loop. An async context manager."""

    def __init__(
        self,
        path: Path,
        *,
        lock_path: Path | None = None,
        lock_timeout: float = 10.0,
    ) -> None:
        self._log = Log(path, lock_path=lock_path, lock_timeout=lock_timeout)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recollect-log")
        self._waiting: dict[AppendJob, asyncio.Future[None]] = {}
        self._draining: asyncio.Task[None] | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<AsyncLog {self.path}>"

    @property
    def path(self) -> Path:
        """The log file."""
        return self._log.path

    @property
    def failed(self) -> bool:
        """Whether a sync failed, after which this object takes no more lines."""
        return self._log.failed

    async def append(self, line: bytes, entry_id: str | None = None) -> AppendResult:
        """Store one line, given without its newline."""
        return (await self.append_many([(line, entry_id)]))[0]

    async def append_many(self, lines: BatchLines) -> list[AppendResult]:
        """Store lines with one write and one sync; all are acknowledged or none."""
        if not lines:
            return []
        job = checked_job(lines)
        self._refuse_if_closed()
        written = asyncio.get_running_loop().create_future()
        self._waiting[job] = written
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        try:
            await written
        finally:
            self._waiting.pop(job, None)
        return self._log.answer(job)

    async def close(self) -> None:
        """Wait for pending appends, then close. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._drained()
            await asyncio.get_running_loop().run_in_executor(self._worker, self._log.close)
        finally:
            # For a close that was cancelled half way; otherwise this does nothing.
            self._worker.submit(self._log.close)
            self._worker.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise LogUnusable(self.path, "the log is closed")

    async def _drained(self) -> None:
        if self._draining is not None:
            await asyncio.wait([self._draining])

    async def _drain(self) -> None:
        """Write what is waiting until the queue is empty."""
        loop = asyncio.get_running_loop()
        batch: dict[AppendJob, asyncio.Future[None]] = {}
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, {}
                run = loop.run_in_executor(self._worker, self._log.run, list(batch))
                await asyncio.wait([run])
                for written in batch.values():
                    _resolve(written, run.exception())
        finally:
            self._draining = None
            # After a cancellation some callers remain: they must not wait for a task that has ended.
            for written in (*batch.values(), *self._waiting.values()):
                written.cancel()


async def async_follow(
    path: Path,
    *,
    offset: FollowFrom = None,
    poll: float = 0.2,
    stop: asyncio.Event | None = None,
    wait: Callable[[float], Awaitable[object]] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> AsyncGenerator[Followed, None]:
    """``follow`` for an event loop: ends when ``stop`` is set or the task is cancelled."""
    stop = stop or asyncio.Event()
    follower = Follower(path, offset, limits)
    try:
        while not stop.is_set():
            news = await in_thread(follower.look)
            for item in news:
                yield item
            if not news:
                await (wait(poll) if wait else _pause(stop, poll))
    finally:
        follower.close()


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def _resolve(written: asyncio.Future[None], error: BaseException | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
