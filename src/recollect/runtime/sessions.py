"""Opens a session for the agent to write: a new one, or one to continue.

In a Claude home we append only to sessions of this runtime; a field in their prompts marks them, and
clients ignore it. A client's own session is continued in a copy (``services.fork``), so its file is
unchanged (law 5), and one that a running client has open is not touched. In a store of ours every
session is ours.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.errors import UsageError
from recollect.model import draft
from recollect.model.blocks import ToolResultBlock
from recollect.model.conversation.api import api_messages
from recollect.model.conversation.client_words import INTERRUPTED_RESULT
from recollect.model.conversation.tool_calls import ToolCallStatus, tool_calls
from recollect.model.damage import Line
from recollect.model.entry import Assistant, Attachment, Entry, System, User
from recollect.model.ids import ProjectKey, SessionId
from recollect.model.json.text import loose_object
from recollect.model.lifecycle import SessionState
from recollect.model.project_key import project_key, same_long_prefix
from recollect.runtime.agent_log import AgentLog, HomeStore, milliseconds_now
from recollect.runtime.compaction import tokens_of
from recollect.services.fork import apply, planned_fork
from recollect.services.home_guard import refuse_live
from recollect.services.homes import Home
from recollect.services.session import Session
from recollect.storage.git_directories import repository_of
from recollect.storage.home import ClaudeHome
from recollect.storage.home_locks import lock_path
from recollect.storage.logs.reader import read_lines
from recollect.storage.store import LogContext, Store
from recollect.storage.todo_files import TodoFiles
from recollect.storage.todo_transaction import settle_todos
from recollect.system.lock import FileLock
from recollect.system.peek import open_regular

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
    session = Home(home.root, data=data).own_session(name)
    _require_project(session, cwd)
    copied_from = None
    if data is not None and not _is_ours(session):
        plan = planned_fork(session)
        path = apply(plan)
        copied_from = session.id
        session = Home(home.root, data=data).own_session(str(path))
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
    entries = Home(home.root, data=data).own_session(str(session.path)).conversation().entries()
    # Attachments are the client's notes about its own tools, and as untrusted as the file.
    messages = api_messages([entry for entry in entries if not isinstance(entry.body, Attachment)])
    return AgentSession(log, home, tuple(messages), _tokens(entries), copied_from)


def _tokens(entries: Sequence[Entry]) -> int:
    """What the last response of the conversation counted."""
    for entry in reversed(entries):
        if isinstance(entry.body, User) and entry.body.is_compact_summary:
            return 0
        if isinstance(entry.body, Assistant) and entry.body.message.usage is not None:
            return tokens_of(entry.body.message.usage)
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


def _require_project(session: Session, cwd: str) -> None:
    key, name = project_key(cwd), session.path.parent.name
    if key != name and not same_long_prefix(name, key):
        raise UsageError(
            f"session {session.id}: belongs to {session.cwd or name}, not to {cwd}",
            hint="go to that directory and resume it there",
        )


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
