"""All sessions of some homes for a list that is refreshed often: one walk, and objects made lazily.

The same sessions as ``Home.sessions``, each once: if several names lead to one file, the first counts,
as in the index. Building path, id and reader for ten thousand logs takes four times as long as the
walk, and a list shows a hundred.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path

from recollect.errors import InvalidId
from recollect.model.ids import SessionId
from recollect.services.session import Session
from recollect.storage.home import ClaudeHome, SessionFile
from recollect.storage.home_walk import FoundLog, scan_logs

Mark = tuple[str, int, int]  # path, size and time of a log


class WalkedSession(Session):
    """A session found by a walk."""

    def __init__(self, home: ClaudeHome, seen: FoundLog) -> None:
        self.home, self.seen = home, seen

    @functools.cached_property
    def file(self) -> SessionFile:  # type: ignore[override]  # made on demand
        seen = self.seen
        try:
            name: SessionId | None = SessionId(seen.session or "")
        except InvalidId:
            name = None
        return SessionFile(Path(seen.path), seen.size, seen.mtime_ns, seen.inode, seen.device, id=name)

    @property
    def id(self) -> str:
        """The session id; for a log with an unusual name, that name."""
        return self.seen.session or ""


def listed(homes: Iterable[ClaudeHome], known: Mapping[str, WalkedSession]) -> list[Session]:
    """Every session, newest file first. Unchanged sessions are the same objects as in ``known``."""
    found: list[tuple[int, Session]] = []
    for home in homes:
        for seen in scan_logs(home.root):
            if seen.role == "session":
                before = known.get(seen.path)
                is_same = before is not None and before.seen == seen
                session = before if before is not None and is_same else WalkedSession(home, seen)
                found.append((seen.mtime_ns, session))
    found.sort(key=lambda pair: pair[0], reverse=True)
    return [session for _, session in found]


def mark_of(session: Session) -> Mark:
    """A value that changes when the log changes, without reading it."""
    if isinstance(session, WalkedSession):
        return session.seen.path, session.seen.size, session.seen.mtime_ns
    return str(session.path), session.file.size, session.file.mtime_ns
