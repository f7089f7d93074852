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
from recollect.model.ids import SessionId
from recollect.storage.home import ClaudeHome
from recollect.storage.live import live_sessions
from recollect.system.locations import agent_of, claude_homes
from recollect.system.paths import CLAUDE, agent_at, client_homes

if TYPE_CHECKING:
    from recollect.services.session import Session


def refuse_live(home: ClaudeHome, session: SessionId) -> None:
    """Refuse to write to a session that a running client has open."""
    if not _is_claude_home(home.root):
        return
    if any(str(one.session_id) == session for one in live_sessions(home)):
        raise UsageError(
            f"session {session}: a running client has it open; nothing was stored",
            hint="end that client first, or fork the session",
        )


def refuse_open(home: ClaudeHome, session: str) -> None:
    """Refuse to change a session that a client has open."""
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


def refuse_mirrored(session: Session) -> None:
    """Refuse to change a session of another agent, or a copy of one, or to make another one of it there."""
    agent = session.agent
    if agent != CLAUDE:
        raise UsageError(
            f"session {session.id}: it belongs to {agent}, whose sessions recollect only reads",
            hint=f"make one of Claude out of it first: recollect convert {session.id} --to claude --apply",
        )


def refuse_client_home(target: Path) -> None:
    """Refuse to put a session of another client below a directory that a client takes for its home."""
    agent = _home_around(target)
    if agent is not None:
        raise UsageError(
            f"{target}: lies in the home of {agent}, where recollect writes no session of another",
            hint="name another directory with --into DIR, and copy the file yourself",
        )


def refuse_agent_home(target: Path) -> None:
    """Refuse to restore into the home of another agent: its client would not know what to do with our log."""
    agent = _home_around(target) or agent_at(str(target))
    if agent != CLAUDE:
        raise UsageError(
            f"{target}: is the home of {agent}, where recollect writes nothing",
            hint="name another directory with --to DIR",
        )


def _home_around(target: Path) -> str | None:
    real = target.expanduser().resolve()
    homes = ((agent, Path(path).resolve()) for agent, path in client_homes(os.environ))
    return next((agent for agent, home in homes if real.is_relative_to(home)), None)


def without_mirrors(homes: Iterable[ClaudeHome]) -> list[ClaudeHome]:
    """The homes whose sessions may be moved: those of Claude."""
    return [home for home in homes if agent_of(str(home.root)) == CLAUDE]


def kept_by_its_client(home: ClaudeHome) -> str | None:
    """What to say where only our copy of a session is changed; None where there is no other."""
    agent = agent_of(str(home.root))
    if agent == CLAUDE:
        return None
    return f"this is recollect's own copy; the files of {agent} itself stay as they are"


def _is_claude_home(root: Path) -> bool:
    resolved = root.resolve()
    return any(home.path.resolve() == resolved for home in claude_homes())
