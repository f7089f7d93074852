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
from recollect.store.logs.batch import BatchLines
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
        if self._closed:
            raise LogUnusable(self.path, "the log is closed")
        self._log.join([job])
        try:
            await asyncio.sleep(0)  # what is appended side by side is one batch
            await asyncio.get_running_loop().run_in_executor(self._worker, self._log.commit, [job])
        except BaseException:
            self._log.leave([job])
            raise
        return self._log.answer(job)

    async def close(self) -> None:
        """Wait for pending appends, then close. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        try:
            await asyncio.sleep(0)  # appends that were called before are given to the worker first
        finally:
            closed = self._worker.submit(self._log.close)
            self._worker.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(closed))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


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
