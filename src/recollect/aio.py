"""The library for programs with an event loop: the same classes with async methods.

    async with await recollect.aio.Store("logs/").create("/srv/app") as log:
        await log.append(recollect.user("Hello"))        # returns after the sync

    session = await recollect.aio.Home().session("6ada00ba")
    conversation = await session.conversation()
    last = await conversation.messages(-50)              # decodes only these fifty

Every class is a proxy of its synchronous counterpart and runs each disk access in a thread, so that the
loop is not blocked. Names and meanings are the same; read the documentation there. A property that
would read from disk is a method here, because it must be awaited.

Two promises are added. Calls on one open session are carried out in the order of the calls, even if they
are not awaited one by one. And a cancelled call does not go on in the background: its thread is
waited for, so the work is either done or not begun when the cancellation arrives.

For many small appends to one log use ``AsyncLog``, which combines waiting appends into one write.
Nothing here is faster than the synchronous class. Type checkers read ``aio.pyi``, which ``make docs`` writes.
"""

from __future__ import annotations

import asyncio

from recollect.ask.sessions import session
from recollect.change import actions
from recollect.model.conversation import conversation
from recollect.store import store
from recollect.store.logs import reader, summary
from recollect.store.logs.aio_log import AsyncLog, async_follow
from recollect.system.thread_hop import AsyncProxy, AsyncWalk, KeyedExecutor, in_thread, threaded_function

__all__ = [
    "AsyncConversationLoader",
    "AsyncLog",
    "AsyncLogReader",
    "AsyncWalk",
    "Conversation",
    "Home",
    "KeyedExecutor",
    "Session",
    "SessionLog",
    "Store",
    "archive",
    "async_follow",
    "check",
    "in_thread",
    "repair",
    "scan",
    "watch",
]


class Home(AsyncProxy, of=actions.Home):
    """The Claude homes of this machine, or those given, for an event loop. Takes what ``recollect.Home`` takes."""

    async def watch(self, interval=2.0):
        """The sessions that clients have open, with their cost: at once, and again whenever it has changed.

        It looks every ``interval`` seconds and ends with its task.
        """
        shown = None
        while True:
            seen = await self.look()
            if seen != shown:
                yield seen
                shown = seen
            await asyncio.sleep(interval)


class Session(
    AsyncProxy,
    of=session.Session,
    awaited=("agent", "continued_in", "cwd", "glance", "graph", "log", "title"),
):
    """One session of a Claude home, for an event loop. Make one with ``Home.session``."""


class Conversation(AsyncProxy, of=conversation.Conversation):
    """The entries from a root to one leaf, for an event loop; contents are read when asked for."""

    def __len__(self):
        """How many messages it has."""
        return len(self._original.messages)

    async def messages(self, start=None, stop=None):
        """The messages from ``start`` to ``stop``, counted as in a slice; only those are read."""
        return await in_thread(lambda: self._original.messages[start:stop])


class Store(AsyncProxy, of=store.Store):
    """A directory of sessions of our own, for an event loop. Takes what ``recollect.Store`` takes."""

    def log_at(self, path):
        """A durable log with this store's settings."""
        store = self._original
        store.paths.require_inside(path)
        lock = store.paths.lock(path)
        return AsyncLog(path, lock_path=lock, lock_timeout=store._lock_timeout)  # noqa: SLF001


class SessionLog(AsyncProxy, of=store.SessionLog, is_ordered=True):
    """One open session, for an event loop: entries are chained in the order of the calls."""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self.close()


class AsyncLogReader(AsyncProxy, of=reader.LogReader):
    """``LogReader`` for an event loop."""

    def __aiter__(self):
        return self.entries()


class AsyncConversationLoader(AsyncProxy, of=summary.ConversationLoader):
    """``ConversationLoader`` for an event loop."""


async def watch(*directories, interval=2.0):
    """``Home.watch`` over the homes of this machine, or over those given."""
    async for seen in Home(*directories).watch(interval):
        yield seen


check = threaded_function(actions.check)
repair = threaded_function(actions.repair)
archive = threaded_function(actions.archive)
scan = threaded_function(actions.scan)
