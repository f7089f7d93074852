"""Conversations of a framework in one store: writing, reading, and moving to the trash.

Each method finds its log, turns lines into messages and returns values; the rules are in separate modules. It
is synchronous and threads may share it; ``recollect.provider`` is its async interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recollect.errors import NotFound, UsageError
from recollect.model.conversation.chain import Load
from recollect.model.conversation.node import Node
from recollect.model.ids import AgentId, SessionId
from recollect.model.todo import TodoItem
from recollect.services.ancestry import own_way_to, way_to
from recollect.services.cost.conversation_stats import ConversationStats, SessionLogs, statistics
from recollect.services.fork import apply as apply_fork
from recollect.services.fork import planned_fork
from recollect.services.home_guard import refuse_live, refuse_reset
from recollect.services.provider.chat_message import ChatMessage, placed_draft
from recollect.services.provider.message_filter import MessageFilter
from recollect.services.provider.message_lines import chat_message, gathered, group_of
from recollect.services.provider.project_sessions import ProjectSessions, SessionInfo, resolved
from recollect.services.provider.reset import from_trash, to_trash
from recollect.services.session import Session
from recollect.storage.home import ClaudeHome
from recollect.storage.logs.log_graph import LogGraph
from recollect.storage.logs.session_writers import SessionWriters
from recollect.storage.store import LogContext, Store, StoredSession, TrashedSession
from recollect.storage.todo_files import TodoFiles
from recollect.storage.todo_transaction import append_with_todos, settle_todos


class MessageStore:
    """The provider without an event loop. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.writers = SessionWriters(store)
        self._home = ClaudeHome(store.paths.root)
        self._todos = TodoFiles(self._home)
        self._sessions = ProjectSessions(store, self._home)

    # --- writing -----------------------------------------------------------------------------

    def log(
        self,
        project: str,
        message: ChatMessage,
        session_id: str,
        agent_id: str | None,
        todos: Sequence[TodoItem] | None = None,
    ) -> str:
        """Store one message in its log, with ``todos`` together with the agent's todo list."""
        what = placed_draft(message)
        place = self._place(project, session_id, agent_id)
        refuse_live(self._home, place.session)
        if message.parent_uuid is not None:
            _require_entry(place.path, message.parent_uuid)
        # Before the log: repeating this is harmless, while a message must not be logged twice because it
        # failed.
        self._start_todos(place.session, place.agent)
        with self.writers.writing(place) as log:
            if todos is not None:
                return append_with_todos(log, self._todos, what, todos, entry_id=message.uuid)
            return log.append(what, entry_id=message.uuid)

    def todos(self, project: str, session_id: str, agent_id: str | None) -> tuple[TodoItem, ...]:
        """An agent's todo list, after what a crash left undone is finished."""
        place = self._place(project, session_id, agent_id)
        with self.writers.writing(place) as log:
            settle_todos(log, self._todos)
        return self._todos.read(place.session, place.agent).items

    def fork(self, project: str, session_id: str, at: str | None, title: str | None) -> str:
        session = self._sessions.session(project, session_id)
        leaf = None if at is None else group_of(session.graph, at)[-1].uuid
        plan = planned_fork(session, leaf, title)
        self._start_todos(plan.new, None)
        apply_fork(plan)
        return str(plan.new)

    def reset(self, project: str) -> list[TrashedSession]:
        """Move all sessions of a project to the trash, one batch each."""
        refuse_reset(self._home)
        return [
            to_trash(self.store, self._home, self.writers, session)
            for session in self._sessions.stored(project)
        ]

    def restore(self, batch: str) -> StoredSession:
        """Restore a session from the trash, then its todos."""
        return from_trash(self.store, self._home, batch)

    def _start_todos(self, session: SessionId, agent: AgentId | None) -> None:
        if not self._todos.read(session, agent).path.exists():
            self._todos.write(session, (), agent)

    # --- reading -----------------------------------------------------------------------------

    def sessions(self, project: str) -> list[SessionInfo]:
        """The sessions of a project, newest first."""
        return self._sessions.infos(project)

    def messages(
        self, project: str, session_id: str, agent_id: str | None, limit: int | None, wanted: MessageFilter
    ) -> list[ChatMessage]:
        """The last messages that pass the filter; reads only as many as needed."""
        if limit is not None and limit < 1:
            raise UsageError(f"limit {limit}: too small", hint="use at least 1, or None for all messages")
        nodes, load = self._conversation(project, session_id, agent_id, whole=wanted.whole)
        found: list[ChatMessage] = []
        for group in reversed(gathered(nodes)):
            message = wanted.of(chat_message(group, load, session_id))
            if message is not None:
                found.append(message)
            if len(found) == limit:
                break
        return found[::-1]

    def message(self, project: str, session_id: str, uuid: str) -> ChatMessage:
        """One message, from any log of the session."""
        _, log = self._log_with(project, session_id, uuid)
        return chat_message(group_of(log.graph, uuid), log.load, session_id)

    def ancestry(self, project: str, session_id: str, uuid: str) -> list[ChatMessage]:
        """The path from the root to a message."""
        session, log = self._log_with(project, session_id, uuid)
        leaf = group_of(log.graph, uuid)[-1]
        nodes = way_to(session, leaf.uuid) if log is session else own_way_to(log.graph, leaf)
        return [chat_message(group, log.load, session_id) for group in gathered(nodes)]

    def statistics(self, project: str, session_id: str | None) -> ConversationStats:
        stored = self._sessions.stored(project)
        if session_id is not None:
            self._sessions.session(project, session_id)
            stored = [session for session in stored if session.id == session_id]
        return statistics(
            SessionLogs(session.id, session.path, tuple(self._sessions.agent_logs(session.key, session.id)))
            for session in stored
        )

    def _conversation(
        self, project: str, session_id: str, agent_id: str | None, *, whole: bool
    ) -> tuple[list[Node], Load]:
        place = self._place(project, session_id, agent_id)
        if place.agent is None:
            session = self._sessions.session(project, session_id)
            if session.graph.active_leaf is None:
                return [], session.load
            return session.conversation(whole=whole).nodes, session.load
        if not place.path.is_file():
            raise NotFound(f"agent {agent_id}: has no log in session {session_id}", hint="see get_sessions")
        log = LogGraph(self.store.paths.require_inside(place.path))
        last = next((node for node in reversed(log.graph.nodes.values()) if node.is_link), None)
        return own_way_to(log.graph, last) if last else [], log.load

    def _log_with(self, project: str, session_id: str, uuid: str) -> tuple[Session, Session | LogGraph]:
        """The session, and its log that holds an entry: its own or a sub-agent's."""
        session = self._sessions.session(project, session_id)
        if uuid in session.graph.nodes:
            return session, session
        key = self.store.paths.layout.key(resolved(project))
        for path in self._sessions.agent_logs(key, SessionId(session_id)):
            log = LogGraph(path)
            if uuid in log.graph.nodes:
                return session, log
        raise NotFound(f"message {uuid!r}: not in session {session_id}", hint="see get_session_messages")

    def _place(self, project: str, session_id: str, agent_id: str | None) -> LogContext:
        return self._sessions.place(project, session_id, agent_id)


def _require_entry(path: Path, uuid: str) -> None:
    if not path.is_file() or uuid not in LogGraph(path).graph.nodes:
        raise NotFound(
            f"parent_uuid {uuid!r}: not in {path.name}",
            hint="leave it out to follow the last message; nothing was stored",
        )
