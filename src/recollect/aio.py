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
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from recollect.model.conversation.conversation import Branch, BranchDifference, Message
from recollect.model.conversation.conversation import Conversation as SyncConversation
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.influence import Influence
from recollect.model.conversation.node import Node
from recollect.model.conversation.tool_calls import ToolCall
from recollect.model.cost.money import Spending
from recollect.model.damage import Damage
from recollect.model.draft import Draft
from recollect.model.entry import Entry
from recollect.model.ids import SessionId
from recollect.model.lifecycle import DEFAULT_LIFE, SessionState
from recollect.services.homes import Home as SyncHome
from recollect.services.library.walk import Walk
from recollect.services.session import ActiveBranch, AgentCost, Branches, Compaction, SessionCounts
from recollect.services.session import Session as SyncSession
from recollect.storage.home import AgentFile, ClaudeHome, SessionFile
from recollect.storage.logs.aio_log import AsyncLog
from recollect.storage.logs.aio_reader import AsyncConversationLoader, AsyncLogReader, async_follow, streamed
from recollect.storage.logs.conversation_cache import ConversationCache
from recollect.storage.logs.log import SyncPolicy
from recollect.storage.logs.log_graph import LogGraph
from recollect.storage.logs.summary import LogSummary
from recollect.storage.prompt_history import Prompt
from recollect.storage.store import Clock, NewId, StoredSession, TrashedSession, random_id, utc_now
from recollect.storage.store import SessionLog as SyncSessionLog
from recollect.storage.store import Store as SyncStore
from recollect.storage.store_layout import StoreLayout
from recollect.system.locations import HomeRoot
from recollect.system.thread_hop import in_thread

if TYPE_CHECKING:
    from recollect.model.cost.report import CostReport
    from recollect.model.cost.response import PricedResponse
    from recollect.services.check.check import CheckReport
    from recollect.services.command_history import CommandHistory
    from recollect.services.documents.blame import BlameDocument, FileLogDocument
    from recollect.services.documents.cost.stats import StatsDocument
    from recollect.services.library.actions import (
        ArchiveReport,
        CleanupReport,
        MigrationReport,
        SessionRepair,
    )
    from recollect.services.library.plugins import SessionCheck
    from recollect.services.list import ListedSession
    from recollect.services.recall.recall import RecallResult
    from recollect.services.rewind import RewindReport
    from recollect.services.search.search import SearchResult
    from recollect.services.secrets.scan import SecretScan
    from recollect.services.todos import SessionTodoList, TodoMove
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


class AsyncHome:
    """The Claude homes of this machine, or those given, for an event loop. Takes what ``recollect.Home`` takes."""

    def __init__(
        self,
        *directories: str | Path,
        data: str | Path | None = None,
        index: bool = True,
        cache: ConversationCache | None = None,
    ) -> None:
        self._home = SyncHome(*directories, data=data, index=index, cache=cache)

    def __repr__(self) -> str:
        return f"<Async{repr(self._home)[1:]}"

    @property
    def roots(self) -> Sequence[HomeRoot]:
        """The directories looked at, also those that are not there."""
        return self._home.roots

    @property
    def homes(self) -> Sequence[ClaudeHome]:
        """Those that are there."""
        return self._home.homes

    @property
    def has_index(self) -> bool:
        """Whether an index may be read and written."""
        return self._home.has_index

    @property
    def cache(self) -> ConversationCache:
        """The graphs of sessions that were read lately."""
        return self._home.cache

    def sessions(self, project: str | Path | None = None) -> AsyncWalk[AsyncSession]:
        """Every session, newest file first; ``project`` is a directory, or part of one's name."""
        return AsyncWalk(self._home.sessions(project), AsyncSession)

    async def listed(self) -> list[ListedSession]:
        """See ``Home.listed``."""
        return await in_thread(self._home.listed)

    async def at(self, listed: ListedSession) -> AsyncSession:
        """See ``Home.at``."""
        return AsyncSession(await in_thread(lambda: self._home.at(listed)))

    async def archived_only(self, project: str | Path | None = None) -> AsyncGenerator[AsyncSession, None]:
        """Sessions of these homes that only the archive still has, by project and name."""
        async for session in streamed(self._home.archived_only(project)):
            yield AsyncSession(session)

    async def session(self, name: str) -> AsyncSession:
        """One session: by id, unique start of an id, path, title, or ``@last`` for the newest."""
        return AsyncSession(await in_thread(lambda: self._home.session(name)))

    async def own_session(self, name: str) -> AsyncSession:
        """See ``Home.own_session``."""
        return AsyncSession(await in_thread(lambda: self._home.own_session(name)))

    async def latest(self, cwd: str | Path) -> AsyncSession | None:
        """The session ``claude --continue`` would take in a directory."""
        found = await in_thread(lambda: self._home.latest(cwd))
        return None if found is None else AsyncSession(found)

    async def prompts(self) -> AsyncGenerator[Prompt, None]:
        """See ``Home.prompts``."""
        async for prompt in streamed(self._home.prompts()):
            yield prompt

    def messages(
        self,
        *,
        branches: Branches = "active",
        agents: bool = False,
        project: str | Path | None = None,
        archived: bool = True,
    ) -> AsyncWalk[Message]:
        """See ``Home.messages``."""
        walk = self._home.messages(branches=branches, agents=agents, project=project, archived=archived)
        return AsyncWalk(walk, _itself)

    def tool_calls(
        self, *, agents: bool = True, project: str | Path | None = None, archived: bool = True
    ) -> AsyncWalk[ToolCall]:
        """See ``Home.tool_calls``."""
        walk = self._home.tool_calls(agents=agents, project=project, archived=archived)
        return AsyncWalk(walk, _itself)

    def responses(
        self,
        *,
        since: dt.datetime | str | None = None,
        until: dt.datetime | str | None = None,
        project: str | Path | None = None,
        model: str | None = None,
        session: str | None = None,
    ) -> AsyncWalk[PricedResponse]:
        """See ``Home.responses``."""
        walk = self._home.responses(since=since, until=until, project=project, model=model, session=session)
        return AsyncWalk(walk, _itself)

    async def costs(
        self,
        *by: str,
        since: dt.datetime | str | None = None,
        until: dt.datetime | str | None = None,
        timezone: str | None = None,
        project: str | Path | None = None,
        model: str | None = None,
        session: str | None = None,
        mode: str = "calculate",
        explain: bool = False,
    ) -> CostReport:
        """See ``Home.costs``."""
        return await in_thread(
            lambda: self._home.costs(
                *by,
                since=since,
                until=until,
                timezone=timezone,
                project=project,
                model=model,
                session=session,
                mode=mode,
                explain=explain,
            )
        )

    async def search(
        self,
        query: str,
        *,
        how: str = "words",
        kinds: Sequence[str] | None = None,
        project: str | None = None,
        since: dt.datetime | str | None = None,
        until: dt.datetime | str | None = None,
        session: str | None = None,
        rank: bool = False,
        limit: int = 20,
        sessions: int = 0,
    ) -> SearchResult:
        """See ``Home.search``."""
        return await in_thread(
            lambda: self._home.search(
                query,
                how=how,
                kinds=kinds,
                project=project,
                since=since,
                until=until,
                session=session,
                rank=rank,
                limit=limit,
                sessions=sessions,
            )
        )

    async def recall(
        self,
        question: str,
        *,
        also: Sequence[str] = (),
        project: str | Path | None = None,
        since: dt.datetime | str | None = None,
        until: dt.datetime | str | None = None,
        without: Sequence[str] = (),
        limit: int = 5,
        quotes: int = 2,
    ) -> RecallResult:
        """See ``Home.recall``."""
        return await in_thread(
            lambda: self._home.recall(
                question,
                also=also,
                project=project,
                since=since,
                until=until,
                without=without,
                limit=limit,
                quotes=quotes,
            )
        )

    async def stats(self, *, project: str | Path | None = None, timezone: str | None = None) -> StatsDocument:
        """See ``Home.stats``."""
        return await in_thread(lambda: self._home.stats(project=project, timezone=timezone))

    async def blame(self, path: str | Path) -> BlameDocument:
        """See ``Home.blame``."""
        return await in_thread(lambda: self._home.blame(path))

    async def log(self, path: str | Path) -> FileLogDocument:
        """See ``Home.log``."""
        return await in_thread(lambda: self._home.log(path))

    async def look(self) -> WatchSnapshot:
        """See ``Home.look``."""
        return await in_thread(self._home.look)

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

    async def check(
        self,
        *sessions: str,
        with_secrets: bool = True,
        with_plugins: bool = True,
        rules: Sequence[SessionCheck] = (),
    ) -> CheckReport:
        """See ``Home.check``."""
        return await in_thread(
            lambda: self._home.check(
                *sessions, with_secrets=with_secrets, with_plugins=with_plugins, rules=rules
            )
        )

    async def repair(self, session: str, *, apply: bool = False, in_place: bool = False) -> SessionRepair:
        """See ``Home.repair``."""
        return await in_thread(lambda: self._home.repair(session, apply=apply, in_place=in_place))

    async def todos(self, session: str | None = None) -> list[SessionTodoList]:
        """See ``Home.todos``."""
        return await in_thread(lambda: self._home.todos(session))

    async def move_todo(
        self,
        session: str,
        number: str,
        status: str,
        *,
        kind: Literal["todos", "tasks"] | None = None,
        agent: str | None = None,
        apply: bool = False,
    ) -> TodoMove:
        """See ``Home.move_todo``."""
        return await in_thread(
            lambda: self._home.move_todo(session, number, status, kind=kind, agent=agent, apply=apply)
        )

    async def clean_up(
        self, days: float = 30.0, *, project: str | Path | None = None, apply: bool = False
    ) -> CleanupReport:
        """See ``Home.clean_up``."""
        return await in_thread(lambda: self._home.clean_up(days, project=project, apply=apply))

    async def migrate(
        self, session: str, target: str, *, cwd: str | None = None, apply: bool = False
    ) -> MigrationReport:
        """See ``Home.migrate``."""
        return await in_thread(lambda: self._home.migrate(session, target, cwd=cwd, apply=apply))

    async def history(
        self, session: str | None = None, *, project: str | Path | None = None, limit: int | None = None
    ) -> CommandHistory:
        """See ``Home.history``."""
        return await in_thread(lambda: self._home.history(session, project=project, limit=limit))

    async def rewind(self, session: str, prompt: str | None = None, *, apply: bool = False) -> RewindReport:
        """See ``Home.rewind``."""
        return await in_thread(lambda: self._home.rewind(session, prompt, apply=apply))

    async def undo(self, change: str) -> tuple[Path, ...]:
        """See ``Home.undo``."""
        return await in_thread(lambda: self._home.undo(change))

    async def archive(self, *sessions: str) -> ArchiveReport:
        """See ``Home.archive``."""
        return await in_thread(lambda: self._home.archive(*sessions))

    async def scan(self, *sessions: str) -> SecretScan:
        """See ``Home.scan``."""
        return await in_thread(lambda: self._home.scan(*sessions))

    async def live_ids(self) -> set[str]:
        """Sessions that a running client has open; a hint, never proof."""
        return await in_thread(self._home.live_ids)


def _itself(item: Any) -> Any:
    return item


class AsyncSession:
    """One session of a Claude home, for an event loop. Make one with ``Home.session``."""

    def __init__(self, session: SyncSession) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"<Async{repr(self._session)[1:]}"

    @property
    def id(self) -> str:
        """Its id; for a log with a name no client gives, that name."""
        return self._session.id

    @property
    def session_id(self) -> SessionId | None:
        """Its id as a checked type, None for a name no client gives."""
        return self._session.session_id

    @property
    def path(self) -> Path:
        """Its log."""
        return self._session.path

    @property
    def place(self) -> Path:
        """Where its log is in the home, or will be once it is restored."""
        return self._session.place

    @property
    def home(self) -> ClaudeHome:
        """The home that holds it."""
        return self._session.home

    @property
    def file(self) -> SessionFile:
        """Its log as it was found: path, size, time."""
        return self._session.file

    @property
    def is_archived(self) -> bool:
        """Whether only the archive has it."""
        return self._session.is_archived

    @property
    def cache(self) -> ConversationCache | None:
        """Where graphs of logs are kept; None where each session reads its own."""
        return self._session.cache

    async def log(self) -> LogGraph:
        """Its log as a graph."""
        return await in_thread(lambda: self._session.log)

    async def glance(self) -> LogSummary:
        """What a list shows of it: title, times, directory."""
        return await in_thread(lambda: self._session.glance)

    async def title(self) -> str:
        """Its title, in the client's order: custom, generated, last prompt, first prompt."""
        return await in_thread(lambda: self._session.title)

    async def continued_in(self) -> str | None:
        """The session that took over, when this one was sent to the background."""
        return await in_thread(lambda: self._session.continued_in)

    async def cwd(self) -> str:
        """The directory it worked in, by its own entries."""
        return await in_thread(lambda: self._session.cwd)

    async def graph(self) -> Graph:
        """Its message graph."""
        return await in_thread(lambda: self._session.graph)

    async def load(self, node: Node) -> Entry | None:
        """The entry behind a node of the graph."""
        return await in_thread(lambda: self._session.load(node))

    def entries(self) -> AsyncGenerator[Entry | Damage, None]:
        """Everything in the log, in file order, a batch in memory at a time."""
        return AsyncLogReader(self.path).entries()

    async def damage(self) -> list[Damage]:
        """The lines that cannot be read."""
        return await in_thread(self._session.damage)

    async def conversation(self, leaf: str | None = None, *, whole: bool = False) -> AsyncConversation:
        """The conversation as client 2.1.325 would load it, or the one that ends at ``leaf``."""
        return AsyncConversation(await in_thread(lambda: self._session.conversation(leaf, whole=whole)))

    async def messages(
        self, *, branches: Branches = "active", agents: bool = False
    ) -> AsyncGenerator[Message, None]:
        """See ``Session.messages``."""
        async for message in streamed(self._session.messages(branches=branches, agents=agents)):
            yield message

    async def branches(self) -> list[Branch]:
        """Every end of the conversation, the active one first."""
        return await in_thread(self._session.branches)

    async def difference(self, left: str, right: str) -> BranchDifference:
        """How two branches, named by their leaves, differ."""
        return await in_thread(lambda: self._session.difference(left, right))

    async def compactions(self) -> list[Compaction]:
        """Every compaction, in file order."""
        return await in_thread(self._session.compactions)

    async def tool_calls(self) -> list[ToolCall]:
        """See ``Session.tool_calls``."""
        return await in_thread(self._session.tool_calls)

    async def influences(self) -> list[Influence]:
        """See ``Session.influences``."""
        return await in_thread(self._session.influences)

    async def active_branches(self) -> list[ActiveBranch]:
        """See ``Session.active_branches``."""
        return await in_thread(self._session.active_branches)

    async def active_messages(self) -> list[Message]:
        """See ``Session.active_messages``."""
        return await in_thread(self._session.active_messages)

    async def summaries(self) -> list[str]:
        """Titles that older clients gave this conversation, newest first."""
        return await in_thread(self._session.summaries)

    async def agents(self) -> list[AgentFile]:
        """The logs of its sub-agents, in both layouts."""
        return await in_thread(self._session.agents)

    async def counts(self) -> SessionCounts:
        """See ``Session.counts``."""
        return await in_thread(self._session.counts)

    async def agent_costs(self) -> Sequence[AgentCost]:
        """See ``Session.agent_costs``."""
        return await in_thread(self._session.agent_costs)

    async def spending(self, *, with_agents: bool = True) -> Spending:
        """Tokens and money, each response counted once."""
        return await in_thread(lambda: self._session.spending(with_agents=with_agents))


class AsyncConversation:
    """The entries from a root to one leaf, for an event loop; contents are read when asked for."""

    def __init__(self, conversation: SyncConversation) -> None:
        self._conversation = conversation

    def __repr__(self) -> str:
        return f"<Async{repr(self._conversation)[1:]}"

    def __len__(self) -> int:
        """How many messages it has."""
        return len(self._conversation.messages)

    @property
    def graph(self) -> Graph:
        """The graph it was found in."""
        return self._conversation.graph

    @property
    def leaf(self) -> Node:
        """Where it ends."""
        return self._conversation.leaf

    @property
    def history(self) -> list[Node]:
        """Its entries, with those that compactions hide."""
        return self._conversation.history

    @property
    def nodes(self) -> list[Node]:
        """Its entries, as the model would see them."""
        return self._conversation.nodes

    @property
    def hidden(self) -> int:
        """How many entries the last compaction keeps from the model."""
        return self._conversation.hidden

    async def messages(self, start: int | None = None, stop: int | None = None) -> list[Message]:
        """The messages from ``start`` to ``stop``, counted as in a slice; only those are read."""
        return await in_thread(lambda: self._conversation.messages[start:stop])

    async def entries(self) -> list[Entry]:
        """Every entry of the conversation, read from the log."""
        return await in_thread(self._conversation.entries)

    async def to_api(self) -> list[dict[str, Any]]:
        """The Messages-API list client 2.1.325 would send, before the new prompt and without its fillers."""
        return await in_thread(self._conversation.to_api)


class AsyncStore:
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
        self._store = SyncStore(
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

    def __repr__(self) -> str:
        return f"<Async{repr(self._store)[1:]}"

    @property
    def root(self) -> Path:
        """The directory."""
        return self._store.root

    def log_at(self, path: Path) -> AsyncLog:
        """A durable log with this store's settings."""
        paths = self._store.paths
        paths.require_inside(path)
        return AsyncLog(path, lock_path=paths.lock(path), sync=self._sync, lock_timeout=self._lock_timeout)

    async def create(
        self, project: str | Path, *, session: str | None = None, git_branch: str = ""
    ) -> AsyncSessionLog:
        """A new session of the project. Nothing is written before the first entry."""
        return AsyncSessionLog(
            await in_thread(lambda: self._store.create(project, session=session, git_branch=git_branch))
        )

    async def open(self, session: str) -> AsyncSessionLog:
        """Resume a session by id, or by the start of an id that fits only one."""
        return AsyncSessionLog(await in_thread(lambda: self._store.open(session)))

    async def find(self, session: str) -> StoredSession:
        """The one session with this id, or with an id that starts so."""
        return await in_thread(lambda: self._store.find(session))

    async def sessions(self, project: str | Path | None = None) -> list[StoredSession]:
        """Every session, or those of one project, newest entry first."""
        return await in_thread(lambda: self._store.sessions(project))

    async def delete(self, session: str) -> TrashedSession:
        """Move a session and its side files to the trash."""
        return await in_thread(lambda: self._store.delete(session))

    async def clean_up(self) -> list[TrashedSession]:
        """See ``Store.clean_up``."""
        return await in_thread(self._store.clean_up)

    async def trash(self) -> list[TrashedSession]:
        """What can be restored, oldest first."""
        return await in_thread(self._store.trash)

    async def restore(self, batch: str) -> StoredSession:
        """Bring back what one ``delete`` took away, byte for byte."""
        return await in_thread(lambda: self._store.restore(batch))


class AsyncSessionLog:
    """One open session, for an event loop: entries are chained in the order of the calls."""

    def __init__(self, log: SyncSessionLog) -> None:
        self._log = log
        self._turns = KeyedExecutor()

    def __repr__(self) -> str:
        return f"<Async{repr(self._log)[1:]}"

    @property
    def id(self) -> SessionId:
        """The session's id; a sub-agent's log belongs to the same session."""
        return self._log.id

    @property
    def path(self) -> Path:
        """The log."""
        return self._log.path

    @property
    def state(self) -> SessionState:
        """Created, resumed or active."""
        return self._log.state

    @property
    def is_flat(self) -> bool:
        """Whether it is written in the flat dialect."""
        return self._log.is_flat

    @property
    def spending(self) -> Spending:
        """Tokens and money of what was in the log at the last append, each response counted once."""
        return self._log.spending

    async def agent_log(self, agent: str) -> AsyncSessionLog:
        """The log of a sub-agent of this session (claude layout)."""
        return AsyncSessionLog(await in_thread(lambda: self._log.agent_log(agent)))

    async def append(self, draft: Draft, *, entry_id: str | None = None) -> str:
        """Store one entry and return its id, after the sync. With ``entry_id`` a repeat is harmless."""
        return await self._turns.run(self, lambda: self._log.append(draft, entry_id=entry_id))

    async def append_many(self, drafts: Sequence[Draft]) -> list[str]:
        """Store several entries with one write and one sync; returns their ids."""
        return await self._turns.run(self, lambda: self._log.append_many(drafts))

    async def entries(self) -> AsyncGenerator[Entry | Damage, None]:
        """Everything in the log, from the start, a batch in memory at a time."""
        async for item in streamed(iter(self._log.entries())):
            yield item

    async def conversation(self, *, whole: bool = False) -> AsyncConversation:
        """See ``SessionLog.conversation``."""
        return AsyncConversation(await in_thread(lambda: self._log.conversation(whole=whole)))

    async def close(self) -> None:
        """Wait for what was asked for before, sync what is left and let go of the file."""
        await self._turns.run(self, self._log.close)

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
