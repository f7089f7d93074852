"""``ClaudeStorageProvider``: conversations of an agent framework, kept in the clients' own format.

    async with ClaudeStorageProvider(base_dir="logs/") as provider:
        await provider.log_message("/srv/app", ChatMessage(role="user", content="Hello"), session_id)
        sessions = await provider.get_sessions("/srv/app")
        messages = await provider.get_session_messages("/srv/app", sessions[0]["sessionId"], limit=50)

The one idea: a framework speaks in messages, a log in lines. A ``ChatMessage``
becomes as many lines as the client would make of it, and lines become the
message again, under the id of its first line. In between lies an ordinary store
in the claude layout, which the client resumes and the rest of recollect reads.

``log_message`` returns after the sync. Messages that are logged without awaiting
each other are chained in the order of the calls. A message logged again under the
same ``uuid`` is stored once. Sub-agents share the session's id and have a log and
a todo list of their own. Nothing is ever deleted: ``reset`` moves to the trash.

The directory is ours to write. Pointed at a real Claude home (law 5) it reads
and adds, but refuses to touch a session that a running client has open and to
``reset``. Todos are only started here; their contents are ``TodoFiles``' work.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict

import msgspec
from msgspec import Struct, structs

from recollect.aio import InOrder, in_thread
from recollect.errors import NotFound, StorageError, UsageError
from recollect.model import draft
from recollect.model.blocks import (
    BashExecutionResultBlock,
    Block,
    CodeExecutionResultBlock,
    McpToolResultBlock,
    McpToolUseBlock,
    ServerToolUseBlock,
    TextBlock,
    TextEditorResultBlock,
    ToolResultBlock,
    ToolUseBlock,
    WebFetchResultBlock,
    WebSearchResultBlock,
    decode_block,
)
from recollect.model.chain import Load
from recollect.model.conversation import spoken
from recollect.model.damage import Line
from recollect.model.entry import Assistant
from recollect.model.graph import Graph
from recollect.model.ids import AgentId, ProjectKey, SessionId
from recollect.model.ledger import Ledger
from recollect.model.lifecycle import SessionState
from recollect.model.made_ids import derived_uuid
from recollect.model.money import Spending
from recollect.model.node import Node
from recollect.model.scan import usage_of
from recollect.model.strict_json import encoded, json_of
from recollect.model.usage import Usage
from recollect.services.fork import apply as apply_fork
from recollect.services.fork import planned_fork
from recollect.services.session import Session
from recollect.storage import fsops
from recollect.storage.glance import glance
from recollect.storage.home import ClaudeHome, SessionFile
from recollect.storage.live import live_sessions
from recollect.storage.log import SyncPolicy
from recollect.storage.log_graph import LogGraph
from recollect.storage.places import claude_homes, data_dir
from recollect.storage.reader import read_lines
from recollect.storage.store import Place, SessionLog, Store, StoredSession, Trashed
from recollect.storage.todo_files import TodoFiles

__all__ = ["ChatMessage", "ClaudeStorageProvider", "ConversationStats", "SessionInfo"]

UNKNOWN_MODEL = "unknown"
"""Written for an answer whose model nobody named; its tokens are counted and reported as unpriced."""

_OPEN_LOGS = 32
_CALLS = (ToolUseBlock, ServerToolUseBlock, McpToolUseBlock)
_RESULTS = (
    ToolResultBlock,
    WebSearchResultBlock,
    WebFetchResultBlock,
    CodeExecutionResultBlock,
    BashExecutionResultBlock,
    TextEditorResultBlock,
    McpToolResultBlock,
)


class ChatMessage(Struct, frozen=True, kw_only=True):
    """One message, to be logged or as it was read.

    ``role`` is user, assistant or system. ``content`` is text, or blocks: ours, or
    mappings as the Messages API has them; what is read is text where it is
    nothing but one text. To be logged it needs no more than these two. ``uuid``
    makes a repeat harmless, ``parent_uuid`` starts a branch there, ``at`` is when it was
    said (now, if not given), the rest describes an answer.
    """

    role: str
    content: str | Sequence[Block | Mapping[str, Any]]
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    at: dt.datetime | None = None
    model: str | None = None
    usage: Usage | None = None
    message_id: str | None = None
    request_id: str | None = None
    stop_reason: str | None = None
    is_meta: bool = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The content as blocks of ours."""
        if isinstance(self.content, str):
            return (TextBlock(self.content),)
        return tuple(_block(part) for part in self.content)

    @property
    def text(self) -> str:
        """Its prose, one block a paragraph."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))


class SessionInfo(TypedDict):
    """What ``get_sessions`` tells of a session."""

    sessionId: str
    projectPath: str
    title: str | None
    createdAt: dt.datetime | None
    updatedAt: dt.datetime | None
    size: int
    agents: list[str]


class ConversationStats(Struct, frozen=True, kw_only=True):
    """Counts of everything that was said, on all branches and by sub-agents; each answer is paid for once.

    ``user_messages`` leaves out tool results and what the user did not type.
    """

    sessions: int = 0
    agents: int = 0
    messages: int = 0
    user_messages: int = 0
    assistant_messages: int = 0
    system_messages: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    first_at: dt.datetime | None = None
    last_at: dt.datetime | None = None
    spending: Spending = Spending()


class ClaudeStorageProvider:
    """Messages in, messages out, over one store in the claude layout. An async context manager.

    Without ``base_dir`` it is the store in our own data directory, never a Claude home.
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
        self._archive = _Archive(Store(root, sync=sync, lock_timeout=lock_timeout, clock=clock))
        self._turns = InOrder()

    @property
    def base_dir(self) -> Path:
        """The store's directory."""
        return self._archive.store.paths.root

    async def log_message(
        self,
        project_path: str | Path,
        message: ChatMessage,
        session_id: str,
        agent_id: str | None = None,
    ) -> str:
        """Store a message and return its uuid, after the sync.

        With ``agent_id`` it goes to that sub-agent's log in the same session; the
        session's own id names the main agent.
        """
        turn = (session_id, agent_id)
        return await self._turns.run(
            turn, lambda: self._archive.log(str(project_path), message, session_id, agent_id)
        )

    async def get_sessions(self, project_path: str | Path) -> list[SessionInfo]:
        """The sessions of a project, the one with the newest entry first."""
        return await in_thread(lambda: self._archive.sessions(str(project_path)))

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

        ``types`` keeps those roles only; ``since`` and ``until`` those said from the
        one time to before the other; ``skip_tools`` takes calls and results out of
        messages, and messages out that were nothing else; ``skip_system`` leaves out
        system and meta messages; ``whole`` keeps what compactions hide.
        """
        wanted = _Filter(
            types=types,
            since=_utc(since),
            until=_utc(until),
            skip_tools=skip_tools,
            skip_system=skip_system,
            whole=whole,
        )
        place = (str(project_path), session_id, agent_id)
        return await in_thread(lambda: self._archive.messages(*place, limit, wanted))

    async def get_message(self, project_path: str | Path, session_id: str, uuid: str) -> ChatMessage:
        """The message with this uuid, on any branch and of any sub-agent."""
        return await in_thread(lambda: self._archive.message(str(project_path), session_id, uuid))

    async def get_ancestry(self, project_path: str | Path, session_id: str, uuid: str) -> list[ChatMessage]:
        """The message with this uuid and all it follows, the first one first."""
        return await in_thread(lambda: self._archive.ancestry(str(project_path), session_id, uuid))

    async def fork_session(
        self, project_path: str | Path, session_id: str, at: str | None = None, *, title: str | None = None
    ) -> str:
        """A new session with the conversation up to the message ``at``, or all of it; returns its id.

        The original is not touched. Copies keep their ids, so answers are not paid for
        twice. Results of the last message's own calls come along, as the client has it.
        """
        return await in_thread(lambda: self._archive.fork(str(project_path), session_id, at, title))

    async def get_statistics(
        self, project_path: str | Path, session_id: str | None = None
    ) -> ConversationStats:
        """Counts, tokens and cost of one session, or of the whole project."""
        return await in_thread(lambda: self._archive.statistics(str(project_path), session_id))

    async def reset(self, project_path: str | Path) -> list[Trashed]:
        """Move every session of a project to the trash, with logs of sub-agents and todos."""
        return await in_thread(lambda: self._archive.reset(str(project_path)))

    async def restore(self, batch: str) -> StoredSession:
        """Bring one session back that ``reset`` took away."""
        return await in_thread(lambda: self._archive.restore(batch))

    async def close(self) -> None:
        """Let go of the files. The provider can be used again afterwards."""
        await in_thread(self._archive.writers.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


# ---- messages into lines ------------------------------------------------------------------------------------


class _Placed(draft.Draft, frozen=True, kw_only=True):
    """A draft with a time and a place of the caller's choice; ``note`` makes it a system line."""

    said: draft.Draft
    note: str | None = None
    parent: str | None = None
    at: dt.datetime | None = None


class _MessageLog(SessionLog):
    """A session's log that also takes placed drafts."""

    def _lines(self, draft: draft.Draft, entry_id: str, parent: str | None, at: dt.datetime) -> list[bytes]:
        if not isinstance(draft, _Placed):
            return super()._lines(draft, entry_id, parent, at)
        lines = super()._lines(draft.said, entry_id, draft.parent or parent, draft.at or at)
        return lines if draft.note is None else [_system_line(lines[0], draft.note)]


def _draft_of(message: ChatMessage) -> _Placed:
    note = None
    if message.role == "assistant":
        said: draft.Draft = draft.assistant(
            message.content if isinstance(message.content, str) else message.blocks,
            model=message.model or UNKNOWN_MODEL,
            usage=message.usage,
            message_id=message.message_id,
            request_id=message.request_id,
            stop_reason=msgspec.UNSET if message.stop_reason is None else message.stop_reason,
        )
    elif message.role == "user":
        content = message.content if isinstance(message.content, str) else message.blocks
        said = draft.user(content, is_meta=message.is_meta)
    elif message.role == "system":
        note = message.text
        said = draft.user(note)
    else:
        raise UsageError(f"role {message.role!r} is not one of a log", hint="use user, assistant or system")
    return _Placed(said=said, note=note, parent=message.parent_uuid, at=_utc(message.at))


def _system_line(line: bytes, note: str) -> bytes:
    """A prompt's line as a note of the client: the same links, shown to people, not sent to the model."""
    fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    del fields["message"]
    own = {"type": "system", "subtype": "informational", "content": note, "isMeta": False, "level": "info"}
    return encoded(fields | own)


def _block(part: Block | Mapping[str, Any]) -> Block:
    return decode_block(json_of("content", dict(part))) if isinstance(part, Mapping) else part


def _utc(moment: dt.datetime | None) -> dt.datetime | None:
    """A time without a zone counts as UTC, as everywhere in a log."""
    return moment.replace(tzinfo=dt.UTC) if moment is not None and moment.tzinfo is None else moment


# ---- lines into messages ------------------------------------------------------------------------------------


def _gathered(nodes: Iterable[Node]) -> list[tuple[Node, ...]]:
    """The lines of each message: of one answer those with its id, of a prompt those made of its first id."""
    waiting = {node.uuid: node for node in nodes}
    groups: list[list[Node]] = []
    answers: dict[str, list[Node]] = {}
    for uuid, node in list(waiting.items()):
        if waiting.pop(uuid, None) is None:
            continue
        if node.type == "assistant" and node.message_id in answers:
            answers[node.message_id].append(node)
        elif node.is_message or node.type == "system":
            groups.append([node])
            if node.type == "assistant" and node.message_id:
                answers[node.message_id] = groups[-1]
            while node.type == "user":
                more = waiting.pop(derived_uuid(uuid, len(groups[-1])), None)
                if more is None:
                    break
                groups[-1].append(more)
    return [tuple(group) for group in groups]


def _chat_message(group: Sequence[Node], load: Load, session_id: str) -> ChatMessage:
    said = spoken(group, load)
    last = said.entries[-1] if said.entries else None
    answer = last.body if last is not None and isinstance(last.body, Assistant) else None
    only = said.blocks[0] if len(said.blocks) == 1 else None
    return ChatMessage(
        role=said.role,
        content=only.text if isinstance(only, TextBlock) else said.blocks,
        uuid=group[0].uuid,
        parent_uuid=said.parent_uuid,
        session_id=session_id,
        agent_id=last.chain.agent_id if last is not None and last.chain is not None else None,
        at=said.at,
        model=said.model,
        usage=said.usage,
        message_id=answer.message.id if answer else None,
        request_id=answer.request_id if answer else None,
        stop_reason=answer.message.stop_reason if answer else None,
        is_meta=said.is_meta,
    )


class _Filter(Struct, frozen=True, kw_only=True):
    """Which messages are wanted, and what of them."""

    types: Collection[str] | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    skip_tools: bool = False
    skip_system: bool = False
    whole: bool = False

    def of(self, message: ChatMessage) -> ChatMessage | None:
        """The message, or what is left of it; None where it is not wanted."""
        if self.types is not None and message.role not in self.types:
            return None
        if self.skip_system and (message.role == "system" or message.is_meta):
            return None
        if not self._in_time(message.at):
            return None
        return _without_tools(message) if self.skip_tools else message

    def _in_time(self, at: dt.datetime | None) -> bool:
        if at is None:
            return self.since is None and self.until is None
        return (self.since is None or self.since <= at) and (self.until is None or at < self.until)


def _without_tools(message: ChatMessage) -> ChatMessage | None:
    kept = tuple(block for block in message.blocks if not isinstance(block, (*_CALLS, *_RESULTS)))
    if len(kept) == len(message.blocks):
        return message
    return structs.replace(message, content=kept) if kept else None


# ---- the synchronous core -----------------------------------------------------------------------------------


class _Writer:
    """A log that may be open, how many callers have it, and which file it was when it was last used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.users = 0
        self.busy = threading.Lock()
        self._log: _MessageLog | None = None
        self._identity: tuple[int, int] | None = None

    def log(self, store: Store, place: Place) -> SessionLog:
        """The open log. Where its file was replaced or taken away, what it remembers is wrong: open anew."""
        if self._log is not None and fsops.identity_at(str(self.path)) != self._identity:
            self.close()
        if self._log is None:
            state = SessionState.RESUMED if self.path.exists() else SessionState.CREATED
            self._log = _MessageLog(store, place, state)
        return self._log

    def note_file(self) -> None:
        """Remember which file it is now."""
        self._identity = fsops.identity_at(str(self.path))

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        if self._log is not None:
            self._log.close()
            self._log = None


class _Writers:
    """The logs that were written to last, kept open: opening one reads it whole."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._guard = threading.Lock()
        self._open: OrderedDict[Path, _Writer] = OrderedDict()

    @contextlib.contextmanager
    def writing(self, place: Place) -> Iterator[SessionLog]:
        """The log of a place, for one caller at a time. After a failure it is opened anew."""
        writer = self._taken(place.path)
        try:
            with writer.busy:
                try:
                    yield writer.log(self._store, place)
                    writer.note_file()
                except BaseException:
                    writer.close()
                    raise
        finally:
            with self._guard:
                writer.users -= 1

    def close(self, which: Callable[[Path], bool] = lambda _: True) -> None:
        """Close the logs with these paths, once nobody writes to them."""
        with self._guard:
            chosen = [writer for path, writer in self._open.items() if which(path)]
        for writer in chosen:
            with writer.busy:
                writer.close()

    def _taken(self, path: Path) -> _Writer:
        with self._guard:
            writer = self._open.pop(path, None) or _Writer(path)
            self._open[path] = writer
            writer.users += 1
            idle = [path for path, other in self._open.items() if not other.users]
            surplus = [self._open.pop(path) for path in idle[: max(len(self._open) - _OPEN_LOGS, 0)]]
        for old in surplus:
            old.close()
        return writer


class _Archive:
    """What the provider does, without an event loop. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.writers = _Writers(store)
        self._home = ClaudeHome(store.paths.root)
        self._todos = TodoFiles(self._home)

    # --- writing -----------------------------------------------------------------------------

    def log(self, project: str, message: ChatMessage, session_id: str, agent_id: str | None) -> str:
        """Store one message in the log it belongs to."""
        what = _draft_of(message)
        place = self._place(project, session_id, agent_id)
        self._refuse_live(place.session)
        if message.parent_uuid is not None:
            self._require_entry(place.path, message.parent_uuid)
        # Before the log: repeating this is harmless, while a message must not be logged twice because it failed.
        self._start_todos(place.session, place.agent)
        with self.writers.writing(place) as log:
            return log.append(what, entry_id=message.uuid)

    def fork(self, project: str, session_id: str, at: str | None, title: str | None) -> str:
        """Copy a conversation into a new session."""
        session = self._session(project, session_id)
        leaf = None if at is None else self._group_of(session.graph, at)[-1].uuid
        plan = planned_fork(session, leaf, title)
        self._start_todos(plan.new, None)
        apply_fork(plan)
        return str(plan.new)

    def reset(self, project: str) -> list[Trashed]:
        """All sessions of a project to the trash, one batch each."""
        if self._is_claude_home():
            raise UsageError(
                f"reset: {self.store.paths.root} is a Claude home of this machine",
                hint="remove its sessions one by one with `recollect rm`; nothing was changed",
            )
        return [self._trash(session) for session in self._stored(project)]

    def restore(self, batch: str) -> StoredSession:
        """A session of the trash back to its place, then its todos."""
        found = self.store.restore(batch)
        trashed = self.store.paths.trashed(self._home.todos_dir, batch)
        for source in sorted(trashed.glob("*.json")):
            with _as_storage_error("restore", source):
                fsops.move(source, self._home.todos_dir / source.name)
        return found

    def _trash(self, session: StoredSession) -> Trashed:
        side = self.store.paths.session_dir(session.key, session.id)
        self.writers.close(lambda path: path == session.path or side in path.parents)
        trashed = self.store.delete(session.id)
        for todo in [todo for todo in self._home.todos() if todo.session == session.id]:
            with _as_storage_error("move to the trash", todo.path):
                fsops.move(todo.path, self.store.paths.trashed(todo.path, trashed.batch))
        return trashed

    def _start_todos(self, session: SessionId, agent: AgentId | None) -> None:
        if not self._todos.read(session, agent).path.exists():
            self._todos.write(session, (), agent)

    # --- reading -----------------------------------------------------------------------------

    def sessions(self, project: str) -> list[SessionInfo]:
        """What there is of a project, newest first."""
        return [self._info(session) for session in self._stored(project)]

    def messages(
        self, project: str, session_id: str, agent_id: str | None, limit: int | None, wanted: _Filter
    ) -> list[ChatMessage]:
        """The last messages that pass the filter; only as many are read as are needed."""
        if limit is not None and limit < 1:
            raise UsageError(f"limit {limit}: too few", hint="ask for at least one message, or for all")
        nodes, load = self._conversation(project, session_id, agent_id, whole=wanted.whole)
        found: list[ChatMessage] = []
        for group in reversed(_gathered(nodes)):
            message = wanted.of(_chat_message(group, load, session_id))
            if message is not None:
                found.append(message)
            if len(found) == limit:
                break
        return found[::-1]

    def message(self, project: str, session_id: str, uuid: str) -> ChatMessage:
        """One message, wherever it is in the session."""
        _, log = self._log_with(project, session_id, uuid)
        return _chat_message(self._group_of(log.graph, uuid), log.load, session_id)

    def ancestry(self, project: str, session_id: str, uuid: str) -> list[ChatMessage]:
        """The way to a message."""
        session, log = self._log_with(project, session_id, uuid)
        leaf = self._group_of(log.graph, uuid)[-1]
        nodes = _way_to(session, leaf.uuid) if log is session else _own_way_to(log.graph, leaf)
        return [_chat_message(group, log.load, session_id) for group in _gathered(nodes)]

    def statistics(self, project: str, session_id: str | None) -> ConversationStats:
        """One pass over every log concerned."""
        stored = self._stored(project)
        if session_id is not None:
            self._session(project, session_id)
            stored = [session for session in stored if session.id == session_id]
        count, ledger = _Counts(), Ledger()
        for session in stored:
            agents = self._agent_logs(session.key, session.id)
            count.sessions += 1
            count.agents += len(agents)
            for path in (session.path, *agents):
                log = LogGraph(path)
                for group in _gathered(log.graph.nodes.values()):
                    count.take(_chat_message(group, log.load, session.id))
                _take_usage(path, ledger)
        return count.result(ledger.total())

    def _conversation(
        self, project: str, session_id: str, agent_id: str | None, *, whole: bool
    ) -> tuple[list[Node], Load]:
        place = self._place(project, session_id, agent_id)
        if place.agent is None:
            session = self._session(project, session_id)
            if session.graph.active_leaf is None:
                return [], session.load
            return session.conversation(whole=whole).nodes, session.load
        if not place.path.is_file():
            raise NotFound(f"agent {agent_id}: has no log in session {session_id}", hint="see get_sessions")
        log = LogGraph(self.store.paths.require_inside(place.path))
        last = next((node for node in reversed(log.graph.nodes.values()) if node.is_link), None)
        return _own_way_to(log.graph, last) if last else [], log.load

    def _log_with(self, project: str, session_id: str, uuid: str) -> tuple[Session, Session | LogGraph]:
        """The session, and the log of it that holds an entry: its own or a sub-agent's."""
        session = self._session(project, session_id)
        if uuid in session.graph.nodes:
            return session, session
        key = self.store.paths.layout.key(_resolved(project))
        for path in self._agent_logs(key, SessionId(session_id)):
            log = LogGraph(path)
            if uuid in log.graph.nodes:
                return session, log
        raise NotFound(f"message {uuid!r}: not in session {session_id}", hint="see get_session_messages")

    def _group_of(self, graph: Graph, uuid: str) -> tuple[Node, ...]:
        for group in _gathered(graph.nodes.values()):
            if any(node.uuid == uuid for node in group):
                return group
        raise NotFound(f"message {uuid!r}: not in this session", hint="see get_session_messages")

    # --- finding -----------------------------------------------------------------------------

    def _place(self, project: str, session_id: str, agent_id: str | None) -> Place:
        cwd = _resolved(project)
        key, session = self.store.paths.layout.key(cwd), SessionId(session_id)
        place = Place(self.store.paths.log(key, session), key, session, cwd)
        if agent_id is None or agent_id == session_id:
            return place
        agent = AgentId(agent_id)
        return structs.replace(place, path=self.store.paths.agent_log(key, session, agent), agent=agent)

    def _session(self, project: str, session_id: str) -> Session:
        place = self._place(project, session_id, None)
        path = self.store.paths.require_inside(place.path)
        try:
            seen = path.stat()
        except FileNotFoundError:
            raise NotFound(
                f"session {session_id}: not in project {project}", hint="get_sessions lists what there is"
            ) from None
        file = SessionFile(path, seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_dev, id=place.session)
        return Session(self._home, file)

    def _stored(self, project: str) -> list[StoredSession]:
        """The sessions of a project. Others may share its directory: ``/a/b`` and ``/a-b`` have one key."""
        cwd = _resolved(project)
        key = self.store.paths.layout.key(cwd)

        def is_of_another(session: StoredSession) -> bool:
            own = glance(session.path).cwd
            return own is not None and own != cwd and self.store.paths.layout.key(own) == key

        return [session for session in self.store.sessions(cwd) if not is_of_another(session)]

    def _info(self, session: StoredSession) -> SessionInfo:
        seen = glance(session.path)
        return SessionInfo(
            sessionId=str(session.id),
            projectPath=seen.cwd or "",
            title=seen.title,
            createdAt=seen.first_at,
            updatedAt=seen.last_at,
            size=session.size,
            agents=[str(agent) for agent in self.store.paths.agents(session.key, session.id)],
        )

    def _agent_logs(self, key: ProjectKey, session: SessionId) -> list[Path]:
        paths = self.store.paths
        return [paths.agent_log(key, session, agent) for agent in paths.agents(key, session)]

    def _require_entry(self, path: Path, uuid: str) -> None:
        if not path.is_file() or uuid not in LogGraph(path).graph.nodes:
            raise NotFound(
                f"parent_uuid {uuid!r}: not in {path.name}",
                hint="leave it out to follow the last message; nothing was stored",
            )

    def _is_claude_home(self) -> bool:
        root = self.store.paths.root.resolve()
        return any(home.path.resolve() == root for home in claude_homes())

    def _refuse_live(self, session: SessionId) -> None:
        if not self._is_claude_home():
            return
        if any(str(one.session_id) == session for one in live_sessions(self._home)):
            raise UsageError(
                f"session {session}: a running client has it open; nothing was stored",
                hint="end that client first, or fork the session",
            )


class _Counts:
    """Adds up messages."""

    def __init__(self) -> None:
        self.sessions = self.agents = self.messages = 0
        self._roles = {"user": 0, "assistant": 0, "system": 0}
        self._calls: set[str] = set()
        self._results = 0
        self._times: list[dt.datetime] = []

    def take(self, message: ChatMessage) -> None:
        """Count one."""
        self.messages += 1
        results = sum(isinstance(block, _RESULTS) for block in message.blocks)
        self._results += results
        self._calls.update(block.id for block in message.blocks if isinstance(block, _CALLS))
        if message.role != "user" or not (message.is_meta or results == len(message.blocks)):
            self._roles[message.role] += 1
        if message.at is not None:
            times = [*self._times, message.at]
            self._times = [min(times), max(times)]

    def result(self, spending: Spending) -> ConversationStats:
        """What it came to."""
        return ConversationStats(
            sessions=self.sessions,
            agents=self.agents,
            messages=self.messages,
            user_messages=self._roles["user"],
            assistant_messages=self._roles["assistant"],
            system_messages=self._roles["system"],
            tool_calls=len(self._calls),
            tool_results=self._results,
            first_at=self._times[0] if self._times else None,
            last_at=self._times[-1] if self._times else None,
            spending=spending,
        )


def _take_usage(path: Path, ledger: Ledger) -> None:
    for line in read_lines(path):
        record = usage_of(line.data) if isinstance(line, Line) else None
        if record is not None:
            ledger.add(record)


def _way_to(session: Session, leaf: str) -> list[Node]:
    """The entries up to a leaf; compactions hide nothing.

    Results of the leaf's own calls hang off it and are gathered by the client; here they come after.
    """
    nodes = session.conversation(leaf, whole=True).nodes
    end = next((index for index, node in enumerate(nodes, 1) if node.uuid == leaf), len(nodes))
    return nodes[:end]


def _own_way_to(graph: Graph, leaf: Node) -> list[Node]:
    """The entries up to a leaf of a sub-agent, all of whose lines count as being beside a conversation."""
    return list(graph.ancestors(leaf.uuid))[::-1]


def _resolved(project: str) -> str:
    return str(Path(project).expanduser().resolve())


@contextlib.contextmanager
def _as_storage_error(operation: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        hint = "check the disk and who may write there, then try again"
        raise StorageError(operation, path, cause, hint=hint) from cause
