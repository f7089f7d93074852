"""Law 5 for writers: a store that is a Claude home of this machine is someone else's house.

There a session that a running client has open is left alone, since two writers would
fork its conversation, and nothing is emptied. The mirror of another agent's home only follows that home: what would be
changed or added there, no client would ever see.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.errors import Busy, UsageError
from recollect.system.locations import agent_of, claude_homes, client_home
from recollect.system.paths import CLAUDE, agent_homes_around, client_homes, is_within

if TYPE_CHECKING:
    from recollect.model.ids import SessionId
    from recollect.services.session import Session
    from recollect.storage.home import ClaudeHome


def refuse_live(home: ClaudeHome, session: SessionId) -> None:
    """Refuse to write to a session that a running client has open."""
    from recollect.storage.live import live_sessions

    if not _is_claude_home(home.root):
        return
    if any(str(one.session_id) == session for one in live_sessions(home)):
        raise UsageError(
            f"session {session}: a running client has it open; nothing was stored",
            hint="end that client first, or fork the session",
        )


def refuse_open(home: ClaudeHome, session: str) -> None:
    """Refuse to change a session that a client has open."""
    from recollect.storage.live import live_sessions

    process = next((one.pid for one in live_sessions(home) if str(one.session_id) == session), None)
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
            hint=f"make one of Claude out of it first: recollect convert {session.id} --to claude --apply",
        )


def refuse_client_home(target: Path) -> None:
    """Refuse to put a session of another client below a directory that a client takes for its home."""
    homes = [(agent, home) for agent, home in client_homes(os.environ) if is_within(str(target), home)]
    for agent, _ in homes[:1]:
        raise UsageError(
            f"{target}: lies in the home of {agent}, where recollect writes no session of another",
            hint="name another directory with --into DIR, and copy the file yourself",
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
    from recollect.storage.foreign.mirror import dialect_of

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
