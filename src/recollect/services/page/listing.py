"""All sessions of some homes for a list that is made again and again: one walk, and nothing made that nobody asks for.

The same sessions that ``Home.sessions`` gives, each once: of names that lead to the same file the first counts,
as for the index. A path, an id and a reader for each of ten thousand logs take four times as long as the walk, and
a list shows a hundred.
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

Mark = tuple[str, int, int]  # where a log lies, its size, its time


class WalkedSession(Session):
    """A session as a walk saw it."""

    def __init__(self, home: ClaudeHome, seen: FoundLog) -> None:
        self.home, self.seen = home, seen

    @functools.cached_property
    def file(self) -> SessionFile:  # type: ignore[override]  # made when it is asked for
        """Its log."""
        seen = self.seen
        try:
            name: SessionId | None = SessionId(seen.session or "")
        except InvalidId:
            name = None
        return SessionFile(Path(seen.path), seen.size, seen.mtime_ns, seen.inode, seen.device, id=name)

    @property
    def id(self) -> str:
        """Its id; for a log with a name no client gives, that name."""
        return self.seen.session or ""


def listed(homes: Iterable[ClaudeHome], known: Mapping[str, WalkedSession]) -> list[Session]:
    """Every session, newest file first; the same objects as in ``known`` where nothing changed."""
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
    """What changes when the log of a session does, without looking at it."""
    if isinstance(session, WalkedSession):
        return session.seen.path, session.seen.size, session.seen.mtime_ns
    return str(session.path), session.file.size, session.file.mtime_ns
