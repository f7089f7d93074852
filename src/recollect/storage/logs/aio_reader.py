"""Reading logs from an event loop.

The synchronous readers run in a thread, a batch at a time, so that the loop continues and the cost of
switching is shared by many entries. The promises are those of the synchronous classes.

Leaving an iteration early, by ``break`` and ``aclose`` or by cancelling the task, closes the descriptor
before control returns: a running batch is awaited first, because a descriptor must not be closed while a
thread reads from it. A batch is a few megabytes at most, so that wait is short.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from pathlib import Path
from typing import TypeVar

from recollect.errors import RecollectError
from recollect.model.damage import DEFAULT_LIMITS, Damage, Limits, PendingTail
from recollect.model.entry import Entry
from recollect.model.ids import SessionId
from recollect.storage.logs.follow import Followed, Follower, FollowFrom
from recollect.storage.logs.loader import ConversationLoader
from recollect.storage.logs.reader import LogPage, LogReader
from recollect.system.thread_hop import in_thread

_BATCH_ITEMS = 256
_BATCH_BYTES = 4 * 1024 * 1024

Item = TypeVar("Item")


class AsyncLogReader:
    """``LogReader`` for an event loop."""

    def __init__(self, path: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        self._reader = LogReader(path, limits)

    def __repr__(self) -> str:
        return f"<AsyncLogReader {self.path}>"

    @property
    def path(self) -> Path:
        """The log file."""
        return self._reader.path

    def __aiter__(self) -> AsyncIterator[Entry | Damage]:
        return self.entries()

    def entries(self, start: int = 0, stop: int | None = None) -> AsyncGenerator[Entry | Damage, None]:
        """Stream items; see ``LogReader.entries``."""
        return streamed(self._reader.entries(start, stop))

    async def pending(self) -> PendingTail | None:
        """The unterminated tail, if there is one at this moment."""
        return await in_thread(self._reader.pending)

    async def page_forward(self, offset: int, limit: int) -> LogPage:
        """See ``LogReader.page_forward``."""
        return await in_thread(lambda: self._reader.page_forward(offset, limit))

    async def page_backward(self, offset: int | None, limit: int) -> LogPage:
        """See ``LogReader.page_backward``."""
        return await in_thread(lambda: self._reader.page_backward(offset, limit))

    async def tail(self, count: int) -> LogPage:
        """The last ``count`` items."""
        return await in_thread(lambda: self._reader.tail(count))

    async def entry_at(self, offset: int, length: int = 0) -> Entry | Damage | None:
        """See ``LogReader.entry_at``."""
        return await in_thread(lambda: self._reader.entry_at(offset, length))


class AsyncConversationLoader:
    """``ConversationLoader`` for an event loop."""

    def __init__(self, path_of: Callable[[SessionId], Path], limits: Limits = DEFAULT_LIMITS) -> None:
        self._loader = ConversationLoader(path_of, limits)

    async def load_summary(self, session: SessionId) -> list[Entry]:
        """See ``ConversationLoader.load_summary``."""
        return await in_thread(lambda: self._loader.load_summary(session))

    async def load_messages(self, session: SessionId, offset: int, limit: int) -> list[Entry]:
        """See ``ConversationLoader.load_messages``."""
        return await in_thread(lambda: self._loader.load_messages(session, offset, limit))

    def stream_messages(self, session: SessionId) -> AsyncGenerator[Entry, None]:
        """All messages, one batch in memory at a time."""
        return streamed(self._loader.stream_messages(session))


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
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


async def streamed(items: Iterator[Item]) -> AsyncGenerator[Item, None]:
    """Items of a generator that reads the disk, in batches; items read before a failure are returned."""
    try:
        failure: RecollectError | None = None
        batch: list[Item] = []
        while failure is None:
            batch, failure = await in_thread(lambda: _batch(items))
            for item in batch:
                yield item
            if not batch and failure is None:
                return
        raise failure
    finally:
        if isinstance(items, Generator):
            items.close()


def _batch(items: Iterator[Item]) -> tuple[list[Item], RecollectError | None]:
    """Some items, and the error after them: items already read must not be lost."""
    batch: list[Item] = []
    size = 0
    try:
        for item in items:
            batch.append(item)
            size += getattr(item, "length", 0)
            if len(batch) >= _BATCH_ITEMS or size >= _BATCH_BYTES:
                break
    except RecollectError as failure:
        return batch, failure
    return batch, None
