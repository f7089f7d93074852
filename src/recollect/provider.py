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
from pathlib import Path
from types import TracebackType
from typing import Self

from recollect.aio import KeyedExecutor, in_thread
from recollect.model.todo import TodoItem, TodoStatus
from recollect.services.cost.conversation_stats import ConversationStats
from recollect.services.provider.chat_message import UNKNOWN_MODEL, ChatMessage, utc
from recollect.services.provider.message_filter import MessageFilter
from recollect.services.provider.message_store import MessageStore
from recollect.services.provider.project_sessions import SessionInfo
from recollect.storage.logs.log import SyncPolicy
from recollect.storage.store import Store, StoredSession, TrashedSession
from recollect.system.locations import data_dir

__all__ = [
    "UNKNOWN_MODEL",
    "ChatMessage",
    "ClaudeStorageProvider",
    "ConversationStats",
    "SessionInfo",
    "TodoItem",
    "TodoStatus",
]


class ClaudeStorageProvider:
    """Stores and reads messages in one store with the claude layout. An async context manager.

    Without ``base_dir`` it uses the store in recollect's data directory, never a Claude home.
    """

    def __init__(
        self,
        base_dir: str | Path | None = None,
        *,
        sync: SyncPolicy = SyncPolicy.ALWAYS,
        lock_timeout: float = 10.0,
        clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        root = data_dir() / "store" if base_dir is None else Path(base_dir).expanduser()
        self._messages = MessageStore(Store(root, sync=sync, lock_timeout=lock_timeout, clock=clock))
        self._turns = KeyedExecutor()

    @property
    def base_dir(self) -> Path:
        """The store's directory."""
        return self._messages.store.paths.root

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
        turn = (session_id, agent_id)
        return await self._turns.run(
            turn, lambda: self._messages.log(str(project_path), message, session_id, agent_id, todos)
        )

    async def get_todos(
        self, project_path: str | Path, session_id: str, agent_id: str | None = None
    ) -> tuple[TodoItem, ...]:
        """The todo list of the main agent, or of a sub-agent."""
        turn = (session_id, agent_id)
        return await self._turns.run(
            turn, lambda: self._messages.todos(str(project_path), session_id, agent_id)
        )

    async def get_sessions(self, project_path: str | Path) -> list[SessionInfo]:
        """The sessions of a project, newest entry first."""
        return await in_thread(lambda: self._messages.sessions(str(project_path)))

    async def get_session_messages(
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
        wanted = MessageFilter(
            types=types,
            since=utc(since),
            until=utc(until),
            skip_tools=skip_tools,
            skip_system=skip_system,
            whole=whole,
        )
        place = (str(project_path), session_id, agent_id)
        return await in_thread(lambda: self._messages.messages(*place, limit, wanted))

    async def get_message(self, project_path: str | Path, session_id: str, uuid: str) -> ChatMessage:
        """The message with this uuid, on any branch and of any sub-agent."""
        return await in_thread(lambda: self._messages.message(str(project_path), session_id, uuid))

    async def get_ancestry(self, project_path: str | Path, session_id: str, uuid: str) -> list[ChatMessage]:
        """The message with this uuid and all before it, first one first."""
        return await in_thread(lambda: self._messages.ancestry(str(project_path), session_id, uuid))

    async def fork_session(
        self, project_path: str | Path, session_id: str, at: str | None = None, *, title: str | None = None
    ) -> str:
        """A new session with the conversation up to the message ``at``, or all of it; returns its id.

        The original is not changed. Copies keep their ids, so responses are not counted
        twice. Results of the last message's own calls are included, as in the client.
        """
        return await in_thread(lambda: self._messages.fork(str(project_path), session_id, at, title))

    async def get_statistics(
        self, project_path: str | Path, session_id: str | None = None
    ) -> ConversationStats:
        """Counts, tokens and cost of one session, or of the whole project."""
        return await in_thread(lambda: self._messages.statistics(str(project_path), session_id))

    async def reset(self, project_path: str | Path) -> list[TrashedSession]:
        """Move every session of a project to the trash, with logs of sub-agents and todos."""
        return await in_thread(lambda: self._messages.reset(str(project_path)))

    async def restore(self, batch: str) -> StoredSession:
        """Restore one session that ``reset`` removed."""
        return await in_thread(lambda: self._messages.restore(batch))

    async def close(self) -> None:
        """Close the files. The provider can be used again afterwards."""
        await in_thread(self._messages.writers.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
