import datetime as dt
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

# Written by tools/build_aio_stub.py (`make docs`) from the synchronous library; do not edit.
from typing import Any, Generic, Literal, Self, TypeVar

from recollect.ask.blame.blame import Blame
from recollect.ask.blame.log import FileLogDocument
from recollect.ask.doctor.check import CheckReport, SessionCheck
from recollect.ask.history import CommandHistory
from recollect.ask.report.stats import StatsDocument
from recollect.ask.search.hits import SearchResult
from recollect.ask.search.recall import RecallResult
from recollect.ask.secrets.scan import SecretScan
from recollect.ask.sessions.session import ActiveBranch, Branches, Compaction, SessionCounts
from recollect.ask.todos import SessionTodoList, TodoMove
from recollect.ask.watch import WatchSnapshot
from recollect.change.actions import ArchiveReport
from recollect.change.keeping import CleanupDocument
from recollect.change.migration import SessionMigration
from recollect.change.repair import SessionRepair
from recollect.change.rewind import RewindReport
from recollect.model.conversation.conversation import Branch, BranchDifference, Influence, Message
from recollect.model.conversation.graph import Graph, Node
from recollect.model.conversation.tool_calls import ToolCall
from recollect.model.cost.money import PricedResponse, Spending
from recollect.model.cost.report import CostReport
from recollect.model.lifecycle import SessionState
from recollect.model.lines.damage import Damage, Limits, PendingTail
from recollect.model.lines.draft import Draft
from recollect.model.lines.entry import Entry
from recollect.model.lines.ids import SessionId
from recollect.model.session import SessionSummary
from recollect.store.home import AgentFile, ClaudeHome, SessionFile
from recollect.store.logs.aio_log import AsyncLog as AsyncLog
from recollect.store.logs.aio_log import async_follow as async_follow
from recollect.store.logs.conversation_cache import ConversationCache, LogGraph
from recollect.store.logs.summary import LogSummary
from recollect.store.prompt_history import Prompt
from recollect.store.store import Clock, NewId, StoredSession, TrashedSession
from recollect.store.store_layout import StoreLayout
from recollect.system.locations import HomeRoot
from recollect.system.thread_hop import KeyedExecutor as KeyedExecutor
from recollect.system.thread_hop import in_thread as in_thread

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
_Item = TypeVar("_Item")

class AsyncWalk(Generic[_Item]):
    """``Walk`` for an event loop: iterate with ``async for``, or take what is left as an Arrow table."""
    def __aiter__(self) -> AsyncGenerator[_Item]: ...
    async def close(self) -> None:
        """End the walk and give back what it holds open. Not needed after the last one."""
    async def to_arrow(self) -> Any:
        """See ``Walk.to_arrow``."""
    def to_batches(self, rows: int = 10_000) -> AsyncGenerator[Any]:
        """See ``Walk.to_batches``."""

class Home:
    """The Claude homes of this machine, or those given, for an event loop. Takes what ``recollect.Home`` takes."""
    def __init__(
        self,
        *directories: str | Path,
        data: str | Path | None = None,
        index: bool = True,
        cache: ConversationCache | None = None,
    ) -> None: ...
    @property
    def roots(self) -> Sequence[HomeRoot]: ...
    @property
    def homes(self) -> Sequence[ClaudeHome]: ...
    @property
    def cache(self) -> ConversationCache: ...
    def watch(self, interval: float = 2.0) -> AsyncGenerator[WatchSnapshot]:
        """The sessions that clients have open, with their cost: at once, and again whenever it has changed."""
    def sessions(self, project: str | Path | None = None) -> AsyncWalk[Session]:
        """See ``Home.sessions``."""
    def archived_only(self, project: str | Path | None = None) -> AsyncGenerator[Session]:
        """See ``Home.archived_only``."""
    async def session(self, name: str) -> Session:
        """See ``Home.session``."""
    async def own_session(self, name: str) -> Session:
        """See ``Home.own_session``."""
    async def latest(self, cwd: str | Path) -> Session | None:
        """See ``Home.latest``."""
    def prompts(self) -> AsyncGenerator[Prompt]:
        """See ``Home.prompts``."""
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
    @property
    def has_index(self) -> bool:
        """Whether an index may be read and written."""
    async def listed(self) -> list[SessionSummary]:
        """See ``Home.listed``."""
    async def at(self, listed: SessionSummary) -> Session:
        """See ``Home.at``."""
    def messages(
        self,
        *,
        branches: Branches = "active",
        agents: bool = False,
        project: str | Path | None = None,
        archived: bool = True,
    ) -> AsyncWalk[Message]:
        """See ``Home.messages``."""
    def tool_calls(
        self, *, agents: bool = True, project: str | Path | None = None, archived: bool = True
    ) -> AsyncWalk[ToolCall]:
        """See ``Home.tool_calls``."""
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
    async def live_ids(self) -> set[str]:
        """See ``Home.live_ids``."""
    async def history(
        self, session: str | None = None, *, project: str | Path | None = None, limit: int | None = None
    ) -> CommandHistory:
        """See ``Home.history``."""
    async def stats(self, *, project: str | Path | None = None, timezone: str | None = None) -> StatsDocument:
        """See ``Home.stats``."""
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
    async def blame(self, path: str | Path) -> Blame:
        """See ``Home.blame``."""
    async def log(self, path: str | Path) -> FileLogDocument:
        """See ``Home.log``."""
    async def look(self) -> WatchSnapshot:
        """See ``Home.look``."""
    async def check(
        self, *sessions: str, with_secrets: bool = True, rules: Sequence[SessionCheck] = ()
    ) -> CheckReport:
        """See ``Home.check``."""
    async def todos(self, session: str | None = None) -> list[SessionTodoList]:
        """See ``Home.todos``."""
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
    async def scan(self, *sessions: str) -> SecretScan:
        """See ``Home.scan``."""
    async def repair(self, session: str, *, apply: bool = False, in_place: bool = False) -> SessionRepair:
        """See ``Home.repair``."""
    async def clean_up(
        self, days: float = 30.0, *, project: str | Path | None = None, apply: bool = False
    ) -> CleanupDocument:
        """See ``Home.clean_up``."""
    async def migrate(
        self, session: str, target: str, *, cwd: str | None = None, apply: bool = False
    ) -> SessionMigration:
        """See ``Home.migrate``."""
    async def rewind(self, session: str, prompt: str | None = None, *, apply: bool = False) -> RewindReport:
        """See ``Home.rewind``."""
    async def undo(self, change: str) -> tuple[Path, ...]:
        """See ``Home.undo``."""
    async def archive(self, *sessions: str) -> ArchiveReport:
        """See ``Home.archive``."""

class Session:
    """One session of a Claude home, for an event loop. Make one with ``Home.session``."""
    @property
    def home(self) -> ClaudeHome: ...
    @property
    def file(self) -> SessionFile: ...
    @property
    def cache(self) -> ConversationCache | None: ...
    @property
    def id(self) -> str:
        """Its id; for a log with a name no client gives, that name."""
    @property
    def session_id(self) -> SessionId | None:
        """Its id as a checked type, None for a name no client gives."""
    @property
    def path(self) -> Path:
        """Its log."""
    @property
    def place(self) -> Path:
        """Where its log is in the home, or will be once it is restored."""
    async def agent(self) -> str:
        """See ``Session.agent``."""
    @property
    def is_archived(self) -> bool:
        """Whether only the archive has it."""
    async def glance(self) -> LogSummary:
        """See ``Session.glance``."""
    async def among_others(self, seen: LogSummary) -> LogSummary:
        """See ``Session.among_others``."""
    async def title(self) -> str:
        """See ``Session.title``."""
    async def continued_in(self) -> str | None:
        """See ``Session.continued_in``."""
    async def cwd(self) -> str:
        """See ``Session.cwd``."""
    async def log(self) -> LogGraph:
        """See ``Session.log``."""
    async def graph(self) -> Graph:
        """See ``Session.graph``."""
    async def load(self, node: Node) -> Entry | None:
        """See ``Session.load``."""
    def entries(self) -> AsyncGenerator[Entry | Damage]:
        """See ``Session.entries``."""
    async def damage(self) -> list[Damage]:
        """See ``Session.damage``."""
    async def conversation(self, leaf: str | None = None, *, whole: bool = False) -> Conversation:
        """See ``Session.conversation``."""
    def messages(self, *, branches: Branches = "active", agents: bool = False) -> AsyncGenerator[Message]:
        """See ``Session.messages``."""
    async def branches(self) -> list[Branch]:
        """See ``Session.branches``."""
    async def difference(self, left: str, right: str) -> BranchDifference:
        """See ``Session.difference``."""
    async def compactions(self) -> list[Compaction]:
        """See ``Session.compactions``."""
    async def summaries(self) -> list[str]:
        """See ``Session.summaries``."""
    async def active_branches(self) -> list[ActiveBranch]:
        """See ``Session.active_branches``."""
    async def active_messages(self) -> list[Message]:
        """See ``Session.active_messages``."""
    async def tool_calls(self) -> list[ToolCall]:
        """See ``Session.tool_calls``."""
    async def influences(self) -> list[Influence]:
        """See ``Session.influences``."""
    async def agents(self) -> list[AgentFile]:
        """See ``Session.agents``."""
    async def spending(self, *, with_agents: bool = True) -> Spending:
        """See ``Session.spending``."""
    async def counts(self) -> SessionCounts:
        """See ``Session.counts``."""

class Conversation:
    """The entries from a root to one leaf, for an event loop; contents are read when asked for."""
    @property
    def graph(self) -> Graph: ...
    @property
    def leaf(self) -> Node: ...
    def __len__(self) -> int:
        """How many messages it has."""
    async def messages(self, start: int | None = None, stop: int | None = None) -> list[Message]:
        """The messages from ``start`` to ``stop``, counted as in a slice; only those are read."""
    @property
    def history(self) -> list[Node]:
        """All of them, also what the last compaction hides."""
    @property
    def nodes(self) -> list[Node]:
        """Those that are loaded."""
    @property
    def hidden(self) -> int:
        """How many entries the last compaction hides from the model; they are still in ``history``."""
    async def entries(self) -> list[Entry]:
        """See ``Conversation.entries``."""
    async def to_api(self) -> list[dict[str, Any]]:
        """See ``Conversation.to_api``."""

class Store:
    """A directory of sessions of our own, for an event loop. Takes what ``recollect.Store`` takes."""
    def __init__(
        self,
        root: str | Path | None = None,
        *,
        layout: StoreLayout | str = ...,
        life: dt.timedelta = ...,
        lock_timeout: float = 10.0,
        clock: Clock = ...,
        new_id: NewId = ...,
        part_bytes: int | None = None,
        auto_cleanup: bool = False,
    ) -> None: ...
    def log_at(self, path: Path) -> AsyncLog:
        """A durable log with this store's settings."""
    @property
    def root(self) -> Path:
        """The store's directory."""
    async def create(
        self, project: str | Path, *, session: str | None = None, git_branch: str = ""
    ) -> SessionLog:
        """See ``Store.create``."""
    async def open(self, session: str) -> SessionLog:
        """See ``Store.open``."""
    async def find(self, session: str) -> StoredSession:
        """See ``Store.find``."""
    async def sessions(self, project: str | Path | None = None) -> list[StoredSession]:
        """See ``Store.sessions``."""
    async def delete(self, session: str) -> TrashedSession:
        """See ``Store.delete``."""
    async def clean_up(self) -> list[TrashedSession]:
        """See ``Store.clean_up``."""
    async def trash(self) -> list[TrashedSession]:
        """See ``Store.trash``."""
    async def restore(self, batch: str) -> StoredSession:
        """See ``Store.restore``."""

class SessionLog:
    """One open session, for an event loop: entries are chained in the order of the calls."""
    @property
    def state(self) -> SessionState: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *error: object) -> None: ...
    @property
    def id(self) -> SessionId:
        """The session's id; a sub-agent's log belongs to the same session."""
    @property
    def path(self) -> Path:
        """The log file."""
    @property
    def is_flat(self) -> bool:
        """Whether it is written in the flat dialect."""
    @property
    def spending(self) -> Spending:
        """Tokens and cost of the whole session, each response counted once."""
    async def agent_log(self, agent: str) -> SessionLog:
        """See ``SessionLog.agent_log``."""
    async def append(self, draft: Draft, *, entry_id: str | None = None) -> str:
        """See ``SessionLog.append``."""
    async def append_many(self, drafts: Sequence[Draft]) -> list[str]:
        """See ``SessionLog.append_many``."""
    def entries(self) -> AsyncGenerator[Entry | Damage]:
        """See ``SessionLog.entries``."""
    async def conversation(self, *, whole: bool = False) -> Conversation:
        """See ``SessionLog.conversation``."""
    async def close(self) -> None:
        """See ``SessionLog.close``."""

class AsyncLogReader:
    """``LogReader`` for an event loop."""
    def __init__(self, path: str | Path, limits: Limits = ...) -> None: ...
    @property
    def path(self) -> Path: ...
    def __aiter__(self) -> AsyncGenerator[Entry | Damage]: ...
    def entries(self, start: int = 0, stop: int | None = None) -> AsyncGenerator[Entry | Damage]:
        """See ``LogReader.entries``."""
    async def pending(self) -> PendingTail | None:
        """See ``LogReader.pending``."""
    async def tail(self, count: int) -> list[Entry | Damage]:
        """See ``LogReader.tail``."""
    async def entry_at(self, offset: int, length: int = 0) -> Entry | Damage | None:
        """See ``LogReader.entry_at``."""

class AsyncConversationLoader:
    """``ConversationLoader`` for an event loop."""
    def __init__(self, path_of: Callable[[SessionId], Path], limits: Limits = ...) -> None: ...
    async def load_summary(self, session: SessionId) -> list[Entry]:
        """See ``ConversationLoader.load_summary``."""
    async def load_messages(self, session: SessionId, offset: int, limit: int) -> list[Entry]:
        """See ``ConversationLoader.load_messages``."""
    def stream_messages(self, session: SessionId) -> AsyncGenerator[Entry]:
        """See ``ConversationLoader.stream_messages``."""

async def check(
    *sessions: str, home: Home | None = None, with_secrets: bool = True, rules: Sequence[SessionCheck] = ()
) -> CheckReport:
    """See ``recollect.check``."""

async def repair(
    session: str, *, home: Home | None = None, apply: bool = False, in_place: bool = False
) -> SessionRepair:
    """See ``recollect.repair``."""

async def archive(*sessions: str, home: Home | None = None) -> ArchiveReport:
    """See ``recollect.archive``."""

async def scan(*sessions: str, home: Home | None = None) -> SecretScan:
    """See ``recollect.scan``."""

def watch(*directories: str | Path, interval: float = 2.0) -> AsyncGenerator[WatchSnapshot]:
    """``Home.watch`` over the homes of this machine, or over those given."""
