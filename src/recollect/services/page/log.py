"""A session open on a page: line positions of its messages, never their text.

The graphs come from a ``ConversationCache``, so a log that grew is read from where the last look ended, and
memory is bounded by the budget of the cache. Texts are read from their places when a window of messages is
asked for, and forgotten with the answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from recollect.errors import NotFound, StorageError
from recollect.services.session import Session
from recollect.storage.home import AgentFile
from recollect.storage.logs.conversation_cache import ConversationCache
from recollect.storage.logs.log_graph import LogGraph


class PageSession(Session):
    """A session as it was at one moment."""

    def __init__(self, session: Session, log: LogGraph | None = None) -> None:
        super().__init__(session.home, session.file)
        self._costs = session._costs  # noqa: SLF001 - of the same class
        self._name = session.id
        self._agents = session.agents
        self.log = LogGraph(session.path) if log is None else log
        self.lock = threading.RLock()
        self.kept: OrderedDict[object, object] = OrderedDict()
        self.senders: dict[str, str] | None = None

    @property
    def id(self) -> str:
        """Its id, even if the archive stores it under another name."""
        return self._name

    def keep(self) -> None:
        """Let a later process open it as fast as this one would now."""
        self.log.keep()

    def agents(self) -> list[AgentFile]:
        """The logs of its sub-agents; for an archived session, those in the archive."""
        return self._agents()


def signature_of(path: Path) -> tuple[int, int, int]:
    """Size, time and file of a log: changes when the log changes."""
    try:
        seen = path.stat()
    except FileNotFoundError as cause:
        raise NotFound(f"no log at {path}", hint="it may have been moved or deleted") from cause
    except OSError as cause:
        raise StorageError("read", path, cause, hint="check its permissions") from cause
    return seen.st_size, seen.st_mtime_ns, seen.st_ino


class OpenSessions:
    """The sessions that are being read: those whose logs the cache holds, and the last one in any case."""

    def __init__(self, cache: ConversationCache) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._open: dict[Path, PageSession] = {}

    def opened(self, session: Session) -> PageSession:
        """The session as it is now; the same object as long as its log does not change."""
        path = session.path
        log = self._cache.get(path)
        with self._lock:
            known = self._open.get(path)
            if known is None or known.log is not log:
                known = self._open[path] = PageSession(session, log)
            for other in [one for one in self._open if one != path and one not in self._cache]:
                del self._open[other]
            return known
