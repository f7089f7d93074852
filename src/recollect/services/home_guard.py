"""Law 5 for writers: a store that is a Claude home of this machine is someone else's house.

There a session that a running client has open is left alone, since two writers would
fork its conversation, and nothing is emptied.
"""

from __future__ import annotations

from pathlib import Path

from recollect.errors import Busy, UsageError
from recollect.model.ids import SessionId
from recollect.storage.home import ClaudeHome
from recollect.storage.live import live_sessions
from recollect.system.locations import claude_homes


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


def _is_claude_home(root: Path) -> bool:
    resolved = root.resolve()
    return any(home.path.resolve() == resolved for home in claude_homes())
