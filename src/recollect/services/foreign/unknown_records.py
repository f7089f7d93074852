"""Records of another agent that no one could read: they are kept in the log, and are no part of its conversation."""

from __future__ import annotations

from recollect.services.session import Session
from recollect.system.paths import AGENTS


def unknown_records(session: Session) -> int:
    """How many a session has; `check` names them."""
    if session.agent not in AGENTS:
        return 0
    mark = f'{{"type":"{session.agent}:'.encode()
    with session.path.open("rb") as log:
        return sum(line.startswith(mark) for line in log)
