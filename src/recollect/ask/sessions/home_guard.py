"""Law 5 for writers: a store that is a Claude home of this machine is someone else's house.

There a session that a running client has open is left alone, since two writers would fork its conversation, and nothing
is emptied. The mirror of another agent's home only follows that home: what would be changed or added there, no client
would ever see. Also: what taking a session out would move, and how one is told from others in a line.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.agents.mirror import dialect_of
from recollect.ask.sessions.session import Session
from recollect.errors import Busy, NotFound, RecollectError, UsageError
from recollect.index.access import index_path, is_built, open_index
from recollect.index.cost_queries import gone_sessions
from recollect.index.database import Failure
from recollect.model.lines.ids import SessionId, command_name, short_id
from recollect.model.text.titles import copy_note, project_name
from recollect.store.home import ClaudeHome
from recollect.store.live import live_sessions
from recollect.store.logs.summary import fork_origin
from recollect.store.trash import trash_at
from recollect.system.locations import agent_of, claude_homes, client_home
from recollect.system.paths import CLAUDE, agent_homes_around, client_homes, is_within


def refuse_live(home: ClaudeHome, session: SessionId) -> None:
    """Refuse to write to a session that a running client has open."""
    if not _is_claude_home(home.root):
        return
    if any(str(one.session_id) == session for one in live_sessions(home)):
        raise UsageError(
            f"session {session}: a running client has it open; nothing was stored",
            hint="end that client first, or fork the session",
        )


def open_in(home: ClaudeHome, session: str) -> int | None:
    """The process that has a session open, as far as its marker tells."""
    return next((one.pid for one in live_sessions(home) if str(one.session_id) == session), None)


def refuse_open(home: ClaudeHome, session: str) -> None:
    """Refuse to change a session that a client has open."""
    process = open_in(home, session)
    if process is not None:
        raise Busy(
            f"session {session}: a client has it open (process {process}); nothing was changed",
            hint="leave the session in that client first",
        )


def refuse_reset(home: ClaudeHome) -> None:
    """Refuse to empty a Claude home."""
    if _is_claude_home(home.root):
        raise UsageError(
            f"reset: {home.root} is a Claude home of this machine",
            hint="remove its sessions one by one with `recollect rm`; nothing was changed",
        )


def is_only_read(session: Session) -> bool:
    """Whether it is a session of another agent, or a copy of one: what changes a conversation is refused there, and not offered."""
    return session.agent != CLAUDE


def refuse_mirrored(session: Session) -> None:
    """Refuse to change a session of another agent, or a copy of one, or to make another one of it there."""
    if is_only_read(session):
        raise UsageError(
            f"session {session.id}: it belongs to {session.agent}, whose sessions recollect only reads",
            hint="make one of Claude out of it first:"
            f" recollect export {shlex.quote(command_name(session.id, session.path))} --to claude",
        )


def refuse_client_home(target: Path) -> None:
    """Refuse to put a session of another client below a directory that a client takes for its home."""
    homes = [(agent, home) for agent, home in client_homes(os.environ) if is_within(str(target), home)]
    for agent, _ in homes[:1]:
        raise UsageError(
            f"{target}: lies in the home of {agent}, where recollect writes no session of another",
            hint="name another directory with --output DIR, and copy the file yourself",
        )


def refuse_agent_home(target: Path, option: str) -> None:
    """Refuse to write into the home of another agent: all that take a path from the user ask this.

    It is one where its client looks for it, and wherever its files are. ``option`` is what names another place.
    """
    for agent, home in agent_homes_around(str(target), os.environ):
        # A directory above may have other things of such names.
        if is_within(home, str(target)) or _has_sessions(agent, Path(home)):
            raise _refused(target, agent, home, option)


def refuse_own_home(target: Path, session: Session, option: str) -> None:
    """The same for a session's own files. They make a home of the directory that they are put into, and others may follow:
    only the home that they are of counts, and those where clients look for theirs.
    """
    own = (session.agent, client_home(str(session.home.root)))
    for agent, home in (own, *client_homes(os.environ)):
        if agent != CLAUDE and is_within(str(target), home):
            raise _refused(target, agent, home, option)


def _refused(target: Path, agent: str, home: str, option: str) -> UsageError:
    return UsageError(
        f"{target}: lies in {home}, the home of {agent}, where recollect writes nothing",
        hint=f"name another place with {option}, and copy it there yourself if it must be there",
    )


def _has_sessions(agent: str, place: Path) -> bool:
    is_usual = (agent, str(place)) in client_homes(os.environ)
    return is_usual or bool(dialect_of(agent).units(place))


def is_mirror(home: ClaudeHome) -> bool:
    """Whether it follows the home of another agent: its sessions are neither moved nor cleaned up."""
    return agent_of(str(home.root)) != CLAUDE


def without_mirrors(homes: Iterable[ClaudeHome]) -> list[ClaudeHome]:
    """The homes whose sessions may be moved: those of Claude."""
    return [home for home in homes if not is_mirror(home)]


def kept_by_its_client(home: ClaudeHome) -> str | None:
    """What to say where only our copy of a session is changed; None where there is no other."""
    if not is_mirror(home):
        return None
    return f"this is recollect's own copy; the files of {agent_of(str(home.root))} itself stay as they are"


def _is_claude_home(root: Path) -> bool:
    resolved = root.resolve()
    return any(home.path.resolve() == resolved for home in claude_homes())


class RemovalPlan(Struct, frozen=True):
    """What taking a session out would move. ``open_in`` is the process that has it open, if any, ``batch`` what it became."""

    session: str
    title: str
    items: tuple[Path, ...]
    bytes: int
    open_in: int | None
    batch: str | None = None


def planned_removal(session: Session) -> RemovalPlan:
    """Everything that belongs to a session, its log first."""
    items = tuple(item for item in dict.fromkeys(_items(session)) if os.path.lexists(item))
    size = sum(map(_size, items))
    return RemovalPlan(session.id, session.title, items, size, open_in(session.home, session.id))


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


_TITLE = 40


def in_short(session: Session) -> str:
    """Id, date, project, title, and what it is a copy of: one line of a list to choose from."""
    at = session.glance.last_at or dt.datetime.fromtimestamp(session.file.mtime_ns / 1e9, dt.UTC)
    project = project_name(session.cwd, session.place.parent.name)
    marks = [copy_note(session.title, fork_origin(session.path)), "archived" if session.is_archived else ""]
    return "  ".join(
        part
        for part in (
            short_id(session.id),
            f"{at.astimezone():%Y-%m-%d %H:%M}",
            project,
            f"{session.title[:_TITLE]!r}",
            *marks,
        )
        if part
    )


def missing_session(name: str, data: Path, homes: Sequence[Path], cache: Path | None) -> NotFound:
    """The error for a session that no home has, with the place it went to."""
    batches = [
        one
        for one in trash_at(data).batches()
        if (bool(name) and (one.session.startswith(name) or one.title.casefold() == name.strip().casefold()))
    ]
    if batches:
        last = max(batches, key=lambda one: one.at)
        return NotFound(
            f"session {last.session}: it was moved to the trash on {last.at[:10]}",
            hint=f"bring it back with: recollect undo {last.batch} --apply",
        )
    gone = _gone(name, homes, cache)
    if gone is not None:
        return NotFound(
            f"session {gone}: its log was deleted from the home, and neither archive nor trash has it",
            hint="its cost is still in the totals; `recollect protect now` keeps the sessions there are",
        )
    return NotFound(f"session {name!r}: not found", hint="`recollect list` shows what there is")


def _gone(name: str, homes: Sequence[Path], cache: Path | None) -> str | None:
    """The only deleted session in the index whose id begins so."""
    if not is_built(index_path(homes, cache)):
        return None
    with contextlib.suppress(Failure, RecollectError), open_index(homes, cache=cache) as opened:
        found = gone_sessions(opened.database, name)
        return found[0] if len(found) == 1 else None
    return None
