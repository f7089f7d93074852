"""``ClaudeStorageProvider``: conversations of an agent framework, stored in the clients' own format.

    async with ClaudeStorageProvider(base_dir="logs/") as provider:
        await provider.log_message("/srv/app", ChatMessage(role="user", content="Hello"), session_id)
        sessions = await provider.get_sessions("/srv/app")
        messages = await provider.get_session_messages("/srv/app", sessions[0]["sessionId"], limit=50)

A framework works with messages, a log with lines. A ``ChatMessage`` is stored as the lines the client
would write for it, and read back under the id of its first line. The store has the claude layout, so
the client can resume its sessions and the rest of recollect reads them.

``log_message`` returns after the sync. Messages that are logged concurrently are chained in the order
of the calls. A message logged again under the same ``uuid`` is stored once. Sub-agents share the
session's id and have their own log and todo list. Nothing is ever deleted: ``reset`` moves to the trash.

In a real Claude home it reads and adds, but refuses to change a session that a running client has open
and to ``reset``. A todo list changes together with a message (``todos``), or through ``TodoFiles``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict

from msgspec import structs

from recollect.ask.sessions.home_guard import refuse_live, refuse_reset
from recollect.ask.sessions.session import Session, own_way_to, way_to
from recollect.change.chat_messages import (
    UNKNOWN_MODEL,
    ChatMessage,
    ConversationStats,
    MessageFilter,
    chat_message,
    gathered,
    group_of,
    placed_draft,
    statistics,
    utc,
)
from recollect.change.fork import apply as apply_fork
from recollect.change.fork import planned_fork
from recollect.errors import NotFound, UsageError
from recollect.model.conversation.chain import Load
from recollect.model.conversation.graph import Node
from recollect.model.lifecycle import SessionState
from recollect.model.lines.ids import AgentId, ProjectKey, SessionId
from recollect.model.todo import TodoItem, TodoStatus
from recollect.store.home import ClaudeHome, SessionFile
from recollect.store.logs.conversation_cache import LogGraph
from recollect.store.logs.log import OpenLogs
from recollect.store.logs.summary import glance
from recollect.store.store import LogContext, SessionLog, Store, StoredSession, TrashedSession
from recollect.store.todo_files import TodoFiles, append_with_todos, settle_todos
from recollect.system import fsops
from recollect.system.fsops import as_storage_error
from recollect.system.locations import data_dir
from recollect.system.thread_hop import KeyedExecutor, in_thread, threaded

__all__ = [
    "UNKNOWN_MODEL",
    "ChatMessage",
    "ClaudeStorageProvider",
    "ConversationStats",
    "SessionInfo",
    "TodoItem",
    "TodoStatus",
]


_OPEN_LOGS = 32


class SessionInfo(TypedDict):
    """List information about a session, as ``get_sessions`` returns it."""

    sessionId: str
    projectPath: str
    title: str | None
    createdAt: dt.datetime | None
    updatedAt: dt.datetime | None
    size: int
    agents: list[str]


class ClaudeStorageProvider:
    """Stores and reads messages in one store with the claude layout. An async context manager.

    Without ``base_dir`` it uses the store in recollect's data directory, never a Claude home.
    """

    def __init__(
        self,
        base_dir: str | Path | None = None,
        *,
        lock_timeout: float = 10.0,
        clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        root = data_dir() / "store" if base_dir is None else Path(base_dir).expanduser()
        self._store = Store(root, lock_timeout=lock_timeout, clock=clock)
        self._writers: OpenLogs[SessionLog] = OpenLogs(_OPEN_LOGS)
        self._home = ClaudeHome(self._store.root)
        self._todos = TodoFiles(self._home)
        self._turns = KeyedExecutor()

    @property
    def base_dir(self) -> Path:
        """The store's directory."""
        return self._store.root

    # --- writing -----------------------------------------------------------------------------

    async def log_message(
        self,
        project_path: str | Path,
        message: ChatMessage,
        session_id: str,
        agent_id: str | None = None,
        *,
        todos: Sequence[TodoItem] | None = None,
    ) -> str:
        """Store a message and return its uuid, after the sync.

        With ``agent_id`` it goes to that sub-agent's log in the same session; the
        session's own id names the main agent. With ``todos`` the agent's todo list is
        replaced in the same step: after a crash both are stored, or neither.
        """

        def store() -> str:
            draft = placed_draft(message)
            place = self._place(project_path, session_id, agent_id)
            refuse_live(self._home, place.session)
            if message.parent_uuid is not None:
                _require_entry(place.path, message.parent_uuid)
            # Before the log: repeating this is harmless, while a message must not be logged twice.
            self._start_todos(place.session, place.agent)
            with self._writing(place) as log:
                if todos is not None:
                    return append_with_todos(log, self._todos, draft, todos, entry_id=message.uuid)
                return log.append(draft, entry_id=message.uuid)

        return await self._turns.run((session_id, agent_id), store)

    async def get_todos(
        self, project_path: str | Path, session_id: str, agent_id: str | None = None
    ) -> tuple[TodoItem, ...]:
        """The todo list of the main agent, or of a sub-agent."""

        def read() -> tuple[TodoItem, ...]:
            place = self._place(project_path, session_id, agent_id)
            with self._writing(place) as log:
                settle_todos(log, self._todos)
            return self._todos.read(place.session, place.agent).items

        return await self._turns.run((session_id, agent_id), read)

    def _writing(self, place: LogContext) -> AbstractContextManager[SessionLog]:
        state = SessionState.RESUMED if place.path.exists() else SessionState.CREATED
        return self._writers.using(place.path, lambda: SessionLog(self._store, place, state))

    @threaded
    def fork_session(
        self, project_path: str | Path, session_id: str, at: str | None = None, *, title: str | None = None
    ) -> str:
        """A new session with the conversation up to the message ``at``, or all of it; returns its id.

        The original is not changed. Copies keep their ids, so responses are not counted
        twice. Results of the last message's own calls are included, as in the client.
        """
        session = self._session(project_path, session_id)
        leaf = None if at is None else group_of(session.graph, at)[-1].uuid
        plan = planned_fork(session, leaf, title)
        self._start_todos(plan.new, None)
        apply_fork(plan)
        return str(plan.new)

    @threaded
    def reset(self, project_path: str | Path) -> list[TrashedSession]:
        """Move every session of a project to the trash, with logs of sub-agents and todos."""
        refuse_reset(self._home)
        return [self._to_trash(session) for session in self._stored(project_path)]

    def _to_trash(self, session: StoredSession) -> TrashedSession:
        side = self._store.paths.session_dir(session.key, session.id)
        self._writers.close(lambda path: path == session.path or side in path.parents)
        trashed = self._store.delete(session.id)
        for todo in [todo for todo in self._home.todos() if todo.session == session.id]:
            with as_storage_error("move to the trash", todo.path):
                fsops.move(todo.path, self._store.paths.trashed(todo.path, trashed.batch))
        return trashed

    @threaded
    def restore(self, batch: str) -> StoredSession:
        """Restore one session that ``reset`` removed, then its todos."""
        session = self._store.restore(batch)
        trashed = self._store.paths.trashed(self._home.todos_dir, batch)
        for source in sorted(trashed.glob("*.json")):
            with as_storage_error("restore", source):
                fsops.move(source, self._home.todos_dir / source.name)
        return session

    def _start_todos(self, session: SessionId, agent: AgentId | None) -> None:
        if not self._todos.read(session, agent).path.exists():
            self._todos.write(session, (), agent)

    # --- reading -----------------------------------------------------------------------------

    @threaded
    def get_sessions(self, project_path: str | Path) -> list[SessionInfo]:
        """The sessions of a project, newest entry first."""
        return [self._info(session) for session in self._stored(project_path)]

    @threaded
    def get_session_messages(
        self,
        project_path: str | Path,
        session_id: str,
        limit: int | None = None,
        *,
        agent_id: str | None = None,
        types: Collection[str] | None = None,
        since: dt.datetime | None = None,
        until: dt.datetime | None = None,
        skip_tools: bool = False,
        skip_system: bool = False,
        whole: bool = False,
    ) -> list[ChatMessage]:
        """The last ``limit`` messages, oldest first, of the conversation the client would resume.

        ``types`` selects roles; ``since`` (included) and ``until`` (excluded) select times;
        ``skip_tools`` removes calls and results, and messages without anything else;
        ``skip_system`` omits system and meta messages; ``whole`` includes messages from
        before compactions.
        """
        if limit is not None and limit < 1:
            raise UsageError(f"limit {limit}: too small", hint="use at least 1, or None for all messages")
        chosen = MessageFilter(
            types=types,
            since=utc(since),
            until=utc(until),
            skip_tools=skip_tools,
            skip_system=skip_system,
        )
        nodes, load = self._conversation(project_path, session_id, agent_id, whole=whole)
        messages: list[ChatMessage] = []
        # Backwards, so that only as many as asked for are read.
        for group in reversed(gathered(nodes)):
            message = chosen.of(chat_message(group, load, session_id))
            if message is not None:
                messages.append(message)
            if len(messages) == limit:
                break
        return messages[::-1]

    @threaded
    def get_message(self, project_path: str | Path, session_id: str, uuid: str) -> ChatMessage:
        """The message with this uuid, on any branch and of any sub-agent."""
        _, log = self._log_with(project_path, session_id, uuid)
        return chat_message(group_of(log.graph, uuid), log.load, session_id)

    @threaded
    def get_ancestry(self, project_path: str | Path, session_id: str, uuid: str) -> list[ChatMessage]:
        """The message with this uuid and all before it, first one first."""
        session, log = self._log_with(project_path, session_id, uuid)
        leaf = group_of(log.graph, uuid)[-1]
        nodes = way_to(session, leaf.uuid) if log is session else own_way_to(log.graph, leaf)
        return [chat_message(group, log.load, session_id) for group in gathered(nodes)]

    @threaded
    def get_statistics(self, project_path: str | Path, session_id: str | None = None) -> ConversationStats:
        """Counts, tokens and cost of one session, or of the whole project."""
        stored = self._stored(project_path)
        if session_id is not None:
            self._session(project_path, session_id)
            stored = [session for session in stored if session.id == session_id]
        return statistics(
            (session.id, session.path, self._agent_logs(session.key, session.id)) for session in stored
        )

    def _conversation(
        self, project: str | Path, session_id: str, agent_id: str | None, *, whole: bool
    ) -> tuple[list[Node], Load]:
        place = self._place(project, session_id, agent_id)
        if place.agent is None:
            session = self._session(project, session_id)
            if session.graph.active_leaf is None:
                return [], session.load
            return session.conversation(whole=whole).nodes, session.load
        if not place.path.is_file():
            raise NotFound(f"agent {agent_id}: has no log in session {session_id}", hint="see get_sessions")
        log = LogGraph(self._store.paths.require_inside(place.path))
        last = next((node for node in reversed(log.graph.nodes.values()) if node.is_link), None)
        return own_way_to(log.graph, last) if last else [], log.load

    def _log_with(
        self, project: str | Path, session_id: str, uuid: str
    ) -> tuple[Session, Session | LogGraph]:
        """The session, and its log that holds an entry: its own or a sub-agent's."""
        session = self._session(project, session_id)
        if uuid in session.graph.nodes:
            return session, session
        place = self._place(project, session_id)
        for path in self._agent_logs(place.key, place.session):
            log = LogGraph(path)
            if uuid in log.graph.nodes:
                return session, log
        raise NotFound(f"message {uuid!r}: not in session {session_id}", hint="see get_session_messages")

    def _place(self, project: str | Path, session_id: str, agent_id: str | None = None) -> LogContext:
        """The location of a log, whether it exists or not; the session's own id names the main agent."""
        cwd = _resolved(project)
        key, session = self._store.paths.layout.key(cwd), SessionId(session_id)
        place = LogContext(self._store.paths.log(key, session), key, session, cwd)
        if agent_id is None or agent_id == session_id:
            return place
        agent = AgentId(agent_id)
        return structs.replace(place, path=self._store.paths.agent_log(key, session, agent), agent=agent)

    def _session(self, project: str | Path, session_id: str) -> Session:
        """An existing session."""
        place = self._place(project, session_id)
        path = self._store.paths.require_inside(place.path)
        try:
            seen = path.stat()
        except FileNotFoundError:
            raise NotFound(
                f"session {session_id}: not in project {project}", hint="get_sessions lists the sessions"
            ) from None
        file = SessionFile(path, seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_dev, id=place.session)
        return Session(self._home, file)

    def _stored(self, project: str | Path) -> list[StoredSession]:
        """The sessions of a project. Others may share its directory: ``/a/b`` and ``/a-b`` have one key."""
        cwd = _resolved(project)
        key = self._store.paths.layout.key(cwd)

        def is_of_another(session: StoredSession) -> bool:
            own = glance(session.path).cwd
            return own is not None and own != cwd and self._store.paths.layout.key(own) == key

        return [session for session in self._store.sessions(cwd) if not is_of_another(session)]

    def _agent_logs(self, key: ProjectKey, session: SessionId) -> list[Path]:
        paths = self._store.paths
        return [paths.agent_log(key, session, agent) for agent in paths.agents(key, session)]

    def _info(self, session: StoredSession) -> SessionInfo:
        seen = glance(session.path)
        return SessionInfo(
            sessionId=str(session.id),
            projectPath=seen.cwd or "",
            title=seen.title,
            createdAt=seen.first_at,
            updatedAt=seen.last_at,
            size=session.size,
            agents=[str(agent) for agent in self._store.paths.agents(session.key, session.id)],
        )

    async def close(self) -> None:
        """Close the files. The provider can be used again afterwards."""
        await in_thread(self._writers.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _resolved(project: str | Path) -> str:
    """A project's directory, as its sessions name it."""
    return str(Path(project).expanduser().resolve())


def _require_entry(path: Path, uuid: str) -> None:
    if not path.is_file() or uuid not in LogGraph(path).graph.nodes:
        raise NotFound(
            f"parent_uuid {uuid!r}: not in {path.name}",
            hint="leave it out to follow the last message; nothing was stored",
        )
