"""Opens a session for the agent to write, new or to continue, and writes its log.

In a Claude home we append only to sessions of this runtime; a field in their prompts marks them, and clients ignore
it. A client's own session is continued in a copy (``change.fork``), so its file is unchanged (law 5), and one that a
running client has open is not touched. In a store of ours every session is ours.

Each entry follows the last one *we* wrote, even if another program appended meanwhile, so a result never becomes the
child of another program's prompt.
"""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from recollect.ask.homes import Homes
from recollect.ask.sessions.home_guard import refuse_live
from recollect.ask.sessions.session import Session
from recollect.change.fork import apply, planned_fork
from recollect.errors import UsageError
from recollect.model.conversation.api import api_messages
from recollect.model.conversation.client_words import INTERRUPTED_RESULT
from recollect.model.conversation.tool_calls import ToolCallStatus, tool_calls
from recollect.model.lifecycle import SessionState
from recollect.model.lines import draft
from recollect.model.lines.blocks import ToolResultBlock
from recollect.model.lines.damage import Line
from recollect.model.lines.draft import Draft, MetadataDraft
from recollect.model.lines.entry import Assistant, Attachment, Entry, System, User
from recollect.model.lines.ids import AgentId, ProjectKey, SessionId
from recollect.model.lines.json_text import loose_object
from recollect.model.project_key import project_key, same_long_prefix
from recollect.store.git import repository_of
from recollect.store.home import ClaudeHome
from recollect.store.logs.log import Log
from recollect.store.logs.reader import read_lines
from recollect.store.session_files import lock_path
from recollect.store.store import LogContext, PlacedDraft, SessionLog, Store
from recollect.store.todo_files import TodoFiles, settle_todos
from recollect.system import fsops
from recollect.system.fsops import as_storage_error
from recollect.system.lock import FileLock
from recollect.system.peek import open_regular


def milliseconds_now() -> dt.datetime:
    """The time in whole milliseconds: entries of one millisecond then differ, and times rise in file
    order."""
    now = dt.datetime.now(dt.UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


class HomeStore(Store):
    """A Claude home as a store of sessions. ``data`` is our own directory, which holds the locks."""

    def __init__(self, root: Path, data: Path) -> None:
        super().__init__(root, clock=milliseconds_now)
        self._data = data

    def log_at(self, path: Path) -> Log:
        self.paths.require_inside(path)
        return Log(path, lock_path=lock_path(path, self._data))


class AgentLog(SessionLog):
    """One session being written. ``tip`` is the entry the next one follows, None at the start.

    ``turn`` is held until the log is closed: until then no other run of ours writes to the session.
    """

    def __init__(
        self,
        store: Store,
        place: LogContext,
        state: SessionState,
        *,
        tip: str | None = None,
        turn: FileLock | None = None,
    ) -> None:
        super().__init__(store, place, state)
        self.tip = tip
        self._turn = turn
        self._putting = threading.Lock()  # sub-agents of this session note their changes of files here

    def close(self) -> None:
        """Sync what is left, close the file, and release the turn."""
        try:
            super().close()
        finally:
            if self._turn is not None:
                self._turn.release()
                self._turn.close()

    def put(self, *drafts: Draft) -> list[str]:
        if not drafts:
            return []
        with self._putting:
            return self._put(drafts)

    def start_over(self, *drafts: Draft) -> list[str]:
        """The same, where the first entry follows none: nothing before it is sent any more."""
        with self._putting:
            self.tip = None
            return self._put(drafts)

    def _put(self, drafts: Sequence[Draft]) -> list[str]:
        ids = self.append_many(_placed(drafts, self.tip))
        links = [
            entry_id
            for entry_id, draft in zip(ids, drafts, strict=True)
            if not isinstance(draft, MetadataDraft)
        ]
        self.tip = links[-1] if links else self.tip
        return ids

    def sub_agent(self, agent: str) -> AgentLog:
        path = self._store.paths.agent_log(self.place.key, self.id, AgentId(agent))
        place = structs.replace(self.place, path=path, agent=AgentId(agent))
        return AgentLog(self._store, place, SessionState.CREATED)

    def _store_lines(self, lines: Sequence[tuple[bytes, str | None]]) -> None:
        """The first lines of a session appear together with its file.

        If we were killed between creating the file and writing to it, an empty log would remain, and
        ``claude --continue`` would pick it up with no history.
        """
        if not self.path.exists() and all(entry_id for _, entry_id in lines):
            with as_storage_error("create", self.path):
                fsops.make_directories(self.path.parent)
                fsops.replace_file(self.path, b"".join(line + b"\n" for line, _ in lines))
        super()._store_lines(lines)  # finds them there by their ids


def put(log: SessionLog, *drafts: Draft) -> list[str]:
    return log.put(*drafts) if isinstance(log, AgentLog) else log.append_many(drafts)


def _placed(drafts: Sequence[Draft], tip: str | None) -> list[Draft]:
    """Only entries up to the first linked one name a parent; later ones follow in order."""
    linked = next((at for at, one in enumerate(drafts) if not isinstance(one, MetadataDraft)), len(drafts))
    return [PlacedDraft(draft=one, parent=tip) if at <= linked else one for at, one in enumerate(drafts)]


MARK = "recollectAgent"


@dataclass(frozen=True, slots=True)
class AgentSession:
    """A session about to be written, and the messages to send to the model."""

    log: AgentLog
    home: ClaudeHome
    messages: tuple[dict[str, Any], ...] = ()
    tokens: int = 0
    """How much of the window the last request filled, 0 where that is unknown."""
    copied_from: str | None = None


def new_session(home: ClaudeHome, project: str | Path, *, data: Path | None) -> AgentSession:
    """A new session of a directory. ``data`` is our own directory, None where ``home`` is a store of ours."""
    store, cwd = _store(home, data), os.path.realpath(project)
    key = project_key(cwd)
    session = SessionId(store.new_id())
    place = LogContext(store.paths.log(key, session), key, session, cwd, _git_branch(cwd))
    store.paths.require_inside(place.path)
    turn = _turn(place.path, data)
    turn.acquire()
    return AgentSession(AgentLog(store, place, SessionState.CREATED, turn=turn), home)


def resumed_session(home: ClaudeHome, name: str, project: str | Path, *, data: Path | None) -> AgentSession:
    """A session by id, start of an id, title or ``@last``; it must belong to this directory."""
    cwd = os.path.realpath(project)
    session = Homes(home.root, data=data).own_session(name)
    key, folder = project_key(cwd), session.path.parent.name
    if key != folder and not same_long_prefix(folder, key):
        raise UsageError(
            f"session {session.id}: belongs to {session.cwd or folder}, not to {cwd}",
            hint="go to that directory and resume it there",
        )
    copied_from = None
    if data is not None and not _is_ours(session):
        plan = planned_fork(session)
        path = apply(plan)
        copied_from = session.id
        session = Homes(home.root, data=data).own_session(str(path))
    if session.session_id is None:
        raise UsageError(f"session {session.id}: its name is not a session id", hint="resume another one")
    refuse_live(home, session.session_id)
    key = ProjectKey(session.path.parent.name)
    place = LogContext(session.path, key, session.session_id, cwd, _git_branch(cwd))
    turn = _turn(session.path, data)
    turn.acquire()  # released when the log is closed, or with this object
    leaf = session.conversation().leaf.uuid
    log = AgentLog(_store(home, data), place, SessionState.RESUMED, tip=leaf, turn=turn)
    _close_open_calls(session, log)
    settle_todos(log, TodoFiles(home))
    # Read again: what was just added is part of the conversation.
    entries = Homes(home.root, data=data).own_session(str(session.path)).conversation().entries()
    # Attachments are the client's notes about its own tools, and as untrusted as the file.
    messages = api_messages([entry for entry in entries if not isinstance(entry.body, Attachment)])
    return AgentSession(log, home, tuple(messages), _tokens(entries), copied_from)


def _tokens(entries: Sequence[Entry]) -> int:
    """What the last response of the conversation counted."""
    for entry in reversed(entries):
        if isinstance(entry.body, User) and entry.body.is_compact_summary:
            return 0
        if isinstance(entry.body, Assistant) and entry.body.message.usage is not None:
            return entry.body.message.usage.tokens().total
    return 0


def _store(home: ClaudeHome, data: Path | None) -> Store:
    return Store(home.root, clock=milliseconds_now) if data is None else HomeStore(home.root, data)


def _turn(log: Path, data: Path | None) -> FileLock:
    """The lock for writing a session: two runs at once would fork its conversation."""
    lock = log.with_name(f"{log.name}.agent.lock") if data is None else lock_path(log, data)
    return FileLock(lock if data is None else lock.with_suffix(".agent.lock"), 0.0, guards=log)


def _git_branch(cwd: str) -> str:
    """The branch that is checked out, from git's HEAD file; "" where that is unknown."""
    top = repository_of(cwd)
    try:
        with open_regular(Path(top or cwd, ".git", "HEAD")) as file:
            text = file.read(1024).decode("utf-8")
    except (OSError, ValueError):
        return ""
    if not Path(cwd).is_relative_to(top or cwd):
        return ""  # a worktree has its own HEAD
    name = text.partition("\n")[0]
    return name.removeprefix("ref: refs/heads/") if name.startswith("ref: refs/heads/") else "HEAD"


def _is_ours(session: Session) -> bool:
    """Whether one of its prompts came from here; a copied line in another session does not count."""
    sought = f'"{MARK}":"{session.id}"'.encode()
    for line in read_lines(session.path):
        if isinstance(line, Line) and sought in line.data and loose_object(line.data).get(MARK) == session.id:
            return True
    return False


def _close_open_calls(session: Session, log: AgentLog) -> None:
    """Add results for calls that a crash left open, in the client's words, so that no client has to invent
    them."""
    entries = session.conversation().entries()
    bodies = [entry.body for entry in entries]
    answered = [at for at, body in enumerate(bodies) if isinstance(body, Assistant)]
    if not answered or not all(_is_result(body) for body in bodies[answered[-1] + 1 :]):
        return
    last = bodies[answered[-1]]
    answer_id = last.message.id if isinstance(last, Assistant) else None
    asking = {
        body.uuid
        for body in bodies
        if isinstance(body, Assistant) and answer_id and body.message.id == answer_id
    }
    log.put(
        *(
            draft.tool_result(
                call.id, INTERRUPTED_RESULT, True, f"Error: {INTERRUPTED_RESULT}", tool=call.name
            )
            for call in tool_calls(entries)
            if call.status is ToolCallStatus.MISSING and call.uuid in asking
        )
    )


def _is_result(body: object) -> bool:
    return isinstance(body, System) or (
        isinstance(body, User) and any(isinstance(block, ToolResultBlock) for block in body.message.blocks)
    )
