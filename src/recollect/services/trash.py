"""Take a session out of its home, all of it. ``services/undo.py`` brings it back.

A session is its log, its side directory, the logs of sub-agents that lie beside it,
and what other directories of the home keep under its id: file backups, tasks,
todos, shell environments. All of it goes to our trash, none of it is deleted.
What belongs to no single session (prompt history, pasted texts, plans) stays.

A session that a client has open is refused: the client would go on writing and
leave a new log with only its later lines behind.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from recollect.errors import Busy
from recollect.services.session import Session
from recollect.storage.home_locks import lock_path
from recollect.storage.live import live_sessions
from recollect.storage.trash import Trash, TrashBatch
from recollect.system.lock import FileLock


class RemovalPlan(Struct, frozen=True):
    """What taking a session out would move. ``open_in`` is the process that has it open, if any."""

    session: str
    title: str
    items: tuple[Path, ...]
    bytes: int
    open_in: int | None


def trash_at(data: Path) -> Trash:
    """The trash in our own directory."""
    return Trash(data / "trash")


def planned_removal(session: Session) -> RemovalPlan:
    """Everything that belongs to a session, its log first."""
    items = tuple(item for item in dict.fromkeys(_items(session)) if os.path.lexists(item))
    size = sum(map(_size, items))
    return RemovalPlan(session.id, session.title, items, size, _open_in(session))


def remove(session: Session, data: Path) -> TrashBatch:
    """Move it to the trash; ``Busy`` where a client has it open, or another of us writes to it."""
    with FileLock(lock_path(session.path, data), guards=session.path):
        plan = planned_removal(session)
        if plan.open_in is not None:
            raise _refused(session, plan.open_in)
        now = dt.datetime.now(dt.UTC)
        return trash_at(data).put(session.home.root, plan.items, session=session.id, title=plan.title, at=now)


def _items(session: Session) -> Iterator[Path]:
    home, file = session.home, session.file
    yield file.path
    yield file.side_dir
    if file.id is None:
        return
    for agent in home.agents(file):
        if agent.layout == "flat":
            yield agent.path
            if agent.meta_path is not None:
                yield agent.meta_path
    yield home.file_history_dir(file.id)
    yield home.tasks_dir(file.id)
    yield from (todo.path for todo in home.todos() if todo.session == file.id)
    yield home.session_env_dir(file.id)


def _size(path: Path) -> int:
    if path.is_dir() and not path.is_symlink():
        return sum(_size(inner) for inner in path.iterdir())
    return path.lstat().st_size


def _open_in(session: Session) -> int | None:
    """The process that has this session open, as far as its marker tells."""
    if session.session_id is None:
        return None
    return next(
        (one.pid for one in live_sessions(session.home) if one.session_id == session.session_id), None
    )


def _refused(session: Session, process: int) -> Busy:
    return Busy(
        f"session {session.id}: a client has it open (process {process}); nothing was moved",
        hint="leave the session in that client first",
    )
