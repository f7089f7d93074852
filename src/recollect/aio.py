"""The library for programs with an event loop: the same classes with async methods.

    async with await recollect.aio.Store("logs/").create("/srv/app") as log:
        await log.append(recollect.user("Hello"))        # returns after the sync

    session = await recollect.aio.Home().session("6ada00ba")
    conversation = await session.conversation()
    last = await conversation.messages(-50)              # decodes only these fifty

Every class wraps its synchronous counterpart and runs each disk access in a thread, so that the
loop is not blocked. Names and meanings are the same; read the documentation there. A property that
would read from disk is a method here, because it must be awaited.

Two promises are added. Calls on one object are carried out in the order of the calls, even if they
are not awaited one by one. And a cancelled call does not go on in the background: its thread is
waited for, so the work is either done or not begun when the cancellation arrives.

For many small appends to one log use ``AsyncLog``, which combines waiting appends into one write.
Nothing here is faster than the synchronous class.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Hashable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from recollect.model.conversation.conversation import Conversation as SyncConversation
from recollect.model.conversation.conversation import Message
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.model.cost.money import Spending
from recollect.model.damage import Damage
from recollect.model.draft import Draft
from recollect.model.entry import Entry
from recollect.model.ids import SessionId
from recollect.model.lifecycle import DEFAULT_LIFE, SessionState
from recollect.services.homes import Home as SyncHome
from recollect.services.library.walk import Walk
from recollect.services.session import Branches
from recollect.services.session import Session as SyncSession
from recollect.storage.home import ClaudeHome, SessionFile
from recollect.storage.logs.aio_log import AsyncLog
from recollect.storage.logs.aio_reader import AsyncConversationLoader, AsyncLogReader, async_follow, streamed
from recollect.storage.logs.conversation_cache import ConversationCache
from recollect.storage.logs.log import SyncPolicy
from recollect.storage.logs.log_graph import LogGraph
from recollect.storage.logs.summary import LogSummary
from recollect.storage.prompt_history import Prompt
from recollect.storage.store import Clock, NewId, random_id, utc_now
from recollect.storage.store import SessionLog as SyncSessionLog
from recollect.storage.store import Store as SyncStore
from recollect.storage.store_layout import StoreLayout
from recollect.system.locations import HomeRoot
from recollect.system.thread_hop import in_thread

if TYPE_CHECKING:
    from recollect.services.check.check import CheckReport
    from recollect.services.library.actions import (
        ArchiveReport,
        SessionRepair,
    )
    from recollect.services.library.plugins import SessionCheck
    from recollect.services.list import ListedSession
    from recollect.services.secrets.scan import SecretScan
    from recollect.services.watch import WatchSnapshot

__all__ = [
    "AsyncConversation",
    "AsyncConversationLoader",
    "AsyncHome",
    "AsyncLog",
    "AsyncLogReader",
    "AsyncSession",
    "AsyncSessionLog",
    "AsyncStore",
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

_Result = TypeVar("_Result")
_Item = TypeVar("_Item")
_Original = TypeVar("_Original")
_Parameters = ParamSpec("_Parameters")


class _AsyncTwin(Generic[_Original]):
    """What wraps one object of the synchronous library."""

    _twin: _Original

    def __repr__(self) -> str:
        return f"<Async{repr(self._twin)[1:]}"


def _threaded(
    method: Callable[Concatenate[_Original, _Parameters], _Result],
) -> Callable[Concatenate[_AsyncTwin[_Original], _Parameters], Coroutine[Any, Any, _Result]]:
    """The method of the twin, in a thread: with its parameters, its types and its documentation."""

    @functools.wraps(method)
    async def threaded(
        self: _AsyncTwin[_Original], /, *values: _Parameters.args, **named: _Parameters.kwargs
    ) -> _Result:
        return await in_thread(lambda: method(self._twin, *values, **named))

    return threaded


class KeyedExecutor:
    """Runs work in threads: for one key one after another in the order of the calls, else side by side.

    It orders the calls of one event loop; several loops may share it, but no
    order holds among them.
    """

    def __init__(self) -> None:
        self._locks: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, weakref.WeakValueDictionary[Hashable, asyncio.Lock]
        ] = weakref.WeakKeyDictionary()

    async def run(self, key: Hashable, work: Callable[[], _Result]) -> _Result:
        """What ``work`` returns, once everything that was asked for before under ``key`` is done."""
        locks = self._locks.setdefault(asyncio.get_running_loop(), weakref.WeakValueDictionary())
        # The lock lives as long as it is held or awaited. asyncio locks are fair, which keeps the order.
        lock = locks.setdefault(key, asyncio.Lock())
        async with lock:
            return await in_thread(work)


class AsyncWalk(Generic[_Item]):
    """``Walk`` for an event loop: iterate with ``async for``, or take what is left as an Arrow table."""

    def __init__(self, walk: Walk[Any], made: Callable[[Any], _Item]) -> None:
        self._walk, self._made = walk, made

    def __repr__(self) -> str:
        return f"<Async{repr(self._walk)[1:]}"

    async def __aiter__(self) -> AsyncGenerator[_Item, None]:
        async for item in streamed(self._generator()):
            yield self._made(item)

    async def close(self) -> None:
        """End the walk and give back what it holds open. Not needed after the last one."""
        await in_thread(self._walk.close)

    async def to_arrow(self) -> Any:
        """See ``Walk.to_arrow``."""
        return await in_thread(self._walk.to_arrow)

    async def to_batches(self, rows: int = 10_000) -> AsyncGenerator[Any, None]:
        """See ``Walk.to_batches``."""
        batches = self._walk.to_batches(rows)
        while (batch := await in_thread(lambda: next(batches, None))) is not None:
            yield batch

    def _generator(self) -> Generator[Any, None, None]:
        try:
            yield from self._walk
        finally:
            self._walk.close()


def _walked(
    method: Callable[Concatenate[_Original, _Parameters], Walk[_Item]],
) -> Callable[Concatenate[_AsyncTwin[_Original], _Parameters], AsyncWalk[_Item]]:
    """The same for a method that gives a walk: the walk is made at once, and awaited item by item."""

    @functools.wraps(method)
    def walked(
        self: _AsyncTwin[_Original], /, *values: _Parameters.args, **named: _Parameters.kwargs
    ) -> AsyncWalk[_Item]:
        return AsyncWalk(method(self._twin, *values, **named), lambda item: item)

    return walked


class AsyncHome(_AsyncTwin[SyncHome]):
    """The Claude homes of this machine, or those given, for an event loop. Takes what ``recollect.Home`` takes."""

    def __init__(
        self,
        *directories: str | Path,
        data: str | Path | None = None,
        index: bool = True,
        cache: ConversationCache | None = None,
    ) -> None:
        self._twin = SyncHome(*directories, data=data, index=index, cache=cache)

    @property
    def roots(self) -> Sequence[HomeRoot]:
        """The directories looked at, also those that are not there."""
        return self._twin.roots

    @property
    def homes(self) -> Sequence[ClaudeHome]:
        """Those that are there."""
        return self._twin.homes

    @property
    def has_index(self) -> bool:
        """Whether an index may be read and written."""
        return self._twin.has_index

    @property
    def cache(self) -> ConversationCache:
        """The graphs of sessions that were read lately."""
        return self._twin.cache

    def sessions(self, project: str | Path | None = None) -> AsyncWalk[AsyncSession]:
        """Every session, newest file first; ``project`` is a directory, or part of one's name."""
        return AsyncWalk(self._twin.sessions(project), AsyncSession)

    listed = _threaded(SyncHome.listed)

    async def at(self, listed: ListedSession) -> AsyncSession:
        """See ``Home.at``."""
        return AsyncSession(await in_thread(lambda: self._twin.at(listed)))

    async def archived_only(self, project: str | Path | None = None) -> AsyncGenerator[AsyncSession, None]:
        """Sessions of these homes that only the archive still has, by project and name."""
        async for session in streamed(self._twin.archived_only(project)):
            yield AsyncSession(session)

    async def session(self, name: str) -> AsyncSession:
        """One session: by id, unique start of an id, path, title, or ``@last`` for the newest."""
        return AsyncSession(await in_thread(lambda: self._twin.session(name)))

    async def own_session(self, name: str) -> AsyncSession:
        """See ``Home.own_session``."""
        return AsyncSession(await in_thread(lambda: self._twin.own_session(name)))

    async def latest(self, cwd: str | Path) -> AsyncSession | None:
        """The session ``claude --continue`` would take in a directory."""
        found = await in_thread(lambda: self._twin.latest(cwd))
        return None if found is None else AsyncSession(found)

    async def prompts(self) -> AsyncGenerator[Prompt, None]:
        """See ``Home.prompts``."""
        async for prompt in streamed(self._twin.prompts()):
            yield prompt

    messages = _walked(SyncHome.messages)
    tool_calls = _walked(SyncHome.tool_calls)
    responses = _walked(SyncHome.responses)
    costs = _threaded(SyncHome.costs)
    search = _threaded(SyncHome.search)
    recall = _threaded(SyncHome.recall)
    stats = _threaded(SyncHome.stats)
    blame = _threaded(SyncHome.blame)
    log = _threaded(SyncHome.log)
    look = _threaded(SyncHome.look)

    async def watch(self, interval: float = 2.0) -> AsyncGenerator[WatchSnapshot, None]:
        """The sessions that clients have open, with their cost: at once, and again whenever it has changed.

        It looks every ``interval`` seconds and ends with its task.
        """
        shown: WatchSnapshot | None = None
        while True:
            seen = await self.look()
            if seen != shown:
                yield seen
                shown = seen
            await asyncio.sleep(interval)

    check = _threaded(SyncHome.check)
    repair = _threaded(SyncHome.repair)
    todos = _threaded(SyncHome.todos)
    move_todo = _threaded(SyncHome.move_todo)
    clean_up = _threaded(SyncHome.clean_up)
    migrate = _threaded(SyncHome.migrate)
    history = _threaded(SyncHome.history)
    rewind = _threaded(SyncHome.rewind)
    undo = _threaded(SyncHome.undo)
    archive = _threaded(SyncHome.archive)
    scan = _threaded(SyncHome.scan)
    live_ids = _threaded(SyncHome.live_ids)


class AsyncSession(_AsyncTwin[SyncSession]):
    """One session of a Claude home, for an event loop. Make one with ``Home.session``."""

    def __init__(self, session: SyncSession) -> None:
        self._twin = session

    @property
    def id(self) -> str:
        """Its id; for a log with a name no client gives, that name."""
        return self._twin.id

    @property
    def session_id(self) -> SessionId | None:
        """Its id as a checked type, None for a name no client gives."""
        return self._twin.session_id

    @property
    def path(self) -> Path:
        """Its log."""
        return self._twin.path

    @property
    def place(self) -> Path:
        """Where its log is in the home, or will be once it is restored."""
        return self._twin.place

    @property
    def home(self) -> ClaudeHome:
        """The home that holds it."""
        return self._twin.home

    @property
    def file(self) -> SessionFile:
        """Its log as it was found: path, size, time."""
        return self._twin.file

    @property
    def is_archived(self) -> bool:
        """Whether only the archive has it."""
        return self._twin.is_archived

    @property
    def cache(self) -> ConversationCache | None:
        """Where graphs of logs are kept; None where each session reads its own."""
        return self._twin.cache

    async def agent(self) -> str:
        """Whose session it is: "claude", or another agent's; of a copy of a mirrored one what its log says."""
        return await in_thread(lambda: self._twin.agent)

    async def log(self) -> LogGraph:
        """Its log as a graph."""
        return await in_thread(lambda: self._twin.log)

    async def glance(self) -> LogSummary:
        """What a list shows of it: title, times, directory."""
        return await in_thread(lambda: self._twin.glance)

    async def title(self) -> str:
        """Its title, in the client's order: custom, generated, last prompt, first prompt."""
        return await in_thread(lambda: self._twin.title)

    async def continued_in(self) -> str | None:
        """The session that took over, when this one was sent to the background."""
        return await in_thread(lambda: self._twin.continued_in)

    async def cwd(self) -> str:
        """The directory it worked in, by its own entries."""
        return await in_thread(lambda: self._twin.cwd)

    async def graph(self) -> Graph:
        """Its message graph."""
        return await in_thread(lambda: self._twin.graph)

    load = _threaded(SyncSession.load)

    def entries(self) -> AsyncGenerator[Entry | Damage, None]:
        """Everything in the log, in file order, a batch in memory at a time."""
        return AsyncLogReader(self.path).entries()

    damage = _threaded(SyncSession.damage)

    async def conversation(self, leaf: str | None = None, *, whole: bool = False) -> AsyncConversation:
        """The conversation as client 2.1.325 would load it, or the one that ends at ``leaf``."""
        return AsyncConversation(await in_thread(lambda: self._twin.conversation(leaf, whole=whole)))

    async def messages(
        self, *, branches: Branches = "active", agents: bool = False
    ) -> AsyncGenerator[Message, None]:
        """See ``Session.messages``."""
        async for message in streamed(self._twin.messages(branches=branches, agents=agents)):
            yield message

    branches = _threaded(SyncSession.branches)
    difference = _threaded(SyncSession.difference)
    compactions = _threaded(SyncSession.compactions)
    tool_calls = _threaded(SyncSession.tool_calls)
    influences = _threaded(SyncSession.influences)
    active_branches = _threaded(SyncSession.active_branches)
    active_messages = _threaded(SyncSession.active_messages)
    summaries = _threaded(SyncSession.summaries)
    agents = _threaded(SyncSession.agents)
    counts = _threaded(SyncSession.counts)
    agent_costs = _threaded(SyncSession.agent_costs)
    spending = _threaded(SyncSession.spending)


class AsyncConversation(_AsyncTwin[SyncConversation]):
    """The entries from a root to one leaf, for an event loop; contents are read when asked for."""

    def __init__(self, conversation: SyncConversation) -> None:
        self._twin = conversation

    def __len__(self) -> int:
        """How many messages it has."""
        return len(self._twin.messages)

    @property
    def graph(self) -> Graph:
        """The graph it was found in."""
        return self._twin.graph

    @property
    def leaf(self) -> Node:
        """Where it ends."""
        return self._twin.leaf

    @property
    def history(self) -> list[Node]:
        """Its entries, with those that compactions hide."""
        return self._twin.history

    @property
    def nodes(self) -> list[Node]:
        """Its entries, as the model would see them."""
        return self._twin.nodes

    @property
    def hidden(self) -> int:
        """How many entries the last compaction keeps from the model."""
        return self._twin.hidden

    async def messages(self, start: int | None = None, stop: int | None = None) -> list[Message]:
        """The messages from ``start`` to ``stop``, counted as in a slice; only those are read."""
        return await in_thread(lambda: self._twin.messages[start:stop])

    entries = _threaded(SyncConversation.entries)
    to_api = _threaded(SyncConversation.to_api)


class AsyncStore(_AsyncTwin[SyncStore]):
    """A directory of sessions of our own, for an event loop. Takes what ``recollect.Store`` takes."""

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        layout: StoreLayout | str = StoreLayout.CLAUDE,
        life: dt.timedelta = DEFAULT_LIFE,
        sync: SyncPolicy | str = SyncPolicy.ALWAYS,
        lock_timeout: float = 10.0,
        clock: Clock = utc_now,
        new_id: NewId = random_id,
        part_bytes: int | None = None,
        auto_cleanup: bool = False,
    ) -> None:
        self._twin = SyncStore(
            root,
            layout=layout,
            life=life,
            sync=sync,
            lock_timeout=lock_timeout,
            clock=clock,
            new_id=new_id,
            part_bytes=part_bytes,
            auto_cleanup=auto_cleanup,
        )
        self._sync, self._lock_timeout = SyncPolicy(sync), lock_timeout

    @property
    def root(self) -> Path:
        """The directory."""
        return self._twin.root

    def log_at(self, path: Path) -> AsyncLog:
        """A durable log with this store's settings."""
        paths = self._twin.paths
        paths.require_inside(path)
        return AsyncLog(path, lock_path=paths.lock(path), sync=self._sync, lock_timeout=self._lock_timeout)

    async def create(
        self, project: str | Path, *, session: str | None = None, git_branch: str = ""
    ) -> AsyncSessionLog:
        """A new session of the project. Nothing is written before the first entry."""
        return AsyncSessionLog(
            await in_thread(lambda: self._twin.create(project, session=session, git_branch=git_branch))
        )

    async def open(self, session: str) -> AsyncSessionLog:
        """Resume a session by id, or by the start of an id that fits only one."""
        return AsyncSessionLog(await in_thread(lambda: self._twin.open(session)))

    find = _threaded(SyncStore.find)
    sessions = _threaded(SyncStore.sessions)
    delete = _threaded(SyncStore.delete)
    clean_up = _threaded(SyncStore.clean_up)
    trash = _threaded(SyncStore.trash)
    restore = _threaded(SyncStore.restore)


class AsyncSessionLog(_AsyncTwin[SyncSessionLog]):
    """One open session, for an event loop: entries are chained in the order of the calls."""

    def __init__(self, log: SyncSessionLog) -> None:
        self._twin = log
        self._turns = KeyedExecutor()

    @property
    def id(self) -> SessionId:
        """The session's id; a sub-agent's log belongs to the same session."""
        return self._twin.id

    @property
    def path(self) -> Path:
        """The log."""
        return self._twin.path

    @property
    def state(self) -> SessionState:
        """Created, resumed or active."""
        return self._twin.state

    @property
    def is_flat(self) -> bool:
        """Whether it is written in the flat dialect."""
        return self._twin.is_flat

    @property
    def spending(self) -> Spending:
        """Tokens and money of what was in the log at the last append, each response counted once."""
        return self._twin.spending

    async def agent_log(self, agent: str) -> AsyncSessionLog:
        """The log of a sub-agent of this session (claude layout)."""
        return AsyncSessionLog(await in_thread(lambda: self._twin.agent_log(agent)))

    async def append(self, draft: Draft, *, entry_id: str | None = None) -> str:
        """Store one entry and return its id, after the sync. With ``entry_id`` a repeat is harmless."""
        return await self._turns.run(self, lambda: self._twin.append(draft, entry_id=entry_id))

    async def append_many(self, drafts: Sequence[Draft]) -> list[str]:
        """Store several entries with one write and one sync; returns their ids."""
        return await self._turns.run(self, lambda: self._twin.append_many(drafts))

    async def entries(self) -> AsyncGenerator[Entry | Damage, None]:
        """Everything in the log, from the start, a batch in memory at a time."""
        async for item in streamed(iter(self._twin.entries())):
            yield item

    async def conversation(self, *, whole: bool = False) -> AsyncConversation:
        """See ``SessionLog.conversation``."""
        return AsyncConversation(await in_thread(lambda: self._twin.conversation(whole=whole)))

    async def close(self) -> None:
        """Wait for what was asked for before, sync what is left and let go of the file."""
        await self._turns.run(self, self._twin.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def watch(*directories: str | Path, interval: float = 2.0) -> AsyncGenerator[WatchSnapshot, None]:
    """``AsyncHome.watch`` over the homes of this machine, or over those given."""
    async for seen in AsyncHome(*directories).watch(interval):
        yield seen


async def check(
    *sessions: str,
    home: AsyncHome | None = None,
    with_secrets: bool = True,
    with_plugins: bool = True,
    rules: Sequence[SessionCheck] = (),
) -> CheckReport:
    """``AsyncHome.check`` over the homes of this machine, or over ``home``."""
    chosen = home or AsyncHome()
    return await chosen.check(*sessions, with_secrets=with_secrets, with_plugins=with_plugins, rules=rules)


async def repair(
    session: str, *, home: AsyncHome | None = None, apply: bool = False, in_place: bool = False
) -> SessionRepair:
    """``AsyncHome.repair`` over the homes of this machine, or over ``home``."""
    return await (home or AsyncHome()).repair(session, apply=apply, in_place=in_place)


async def archive(*sessions: str, home: AsyncHome | None = None) -> ArchiveReport:
    """``AsyncHome.archive`` over the homes of this machine, or over ``home``."""
    return await (home or AsyncHome()).archive(*sessions)


async def scan(*sessions: str, home: AsyncHome | None = None) -> SecretScan:
    """``AsyncHome.scan`` over the homes of this machine, or over ``home``."""
    return await (home or AsyncHome()).scan(*sessions)


# Callers write ``aio.Home`` as they write ``recollect.Home``; the classes have names of their own.
Conversation = AsyncConversation
Home = AsyncHome
Session = AsyncSession
SessionLog = AsyncSessionLog
Store = AsyncStore
