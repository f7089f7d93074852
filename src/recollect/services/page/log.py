"""A session open on a page: line positions of its messages, never their text.

The graphs come from a ``ConversationCache``: only the new part of a log that grew is read, and memory is
limited by the cache. Texts are read for a window of messages and not kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from recollect.errors import NotFound, StorageError
from recollect.services.session import Session
from recollect.storage.home import AgentFile
from recollect.storage.logs.conversation_cache import ConversationCache
from recollect.storage.logs.log_graph import LogGraph


class PageSession(Session):
    """A session at one moment. ``agents`` says which sub-agents it has; by default they are looked for each time."""

    def __init__(
        self,
        session: Session,
        log: LogGraph | None = None,
        agents: Callable[[], list[AgentFile]] | None = None,
    ) -> None:
        super().__init__(session.home, session.file)
        self._costs = session._costs  # noqa: SLF001 - of the same class
        self._name = session.id
        self._agents = agents or session.agents
        self.log = LogGraph(session.path) if log is None else log
        self.lock = threading.RLock()
        self.kept: OrderedDict[object, object] = OrderedDict()
        self.senders: dict[str, str] | None = None

    @property
    def id(self) -> str:
        """Its id, even if the archive stores it under another name."""
        return self._name

    def keep(self) -> None:
        """Save the positions, so that a later process opens it faster."""
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
    """The open sessions: those whose logs are in the cache, and always the last one."""

    def __init__(self, cache: ConversationCache) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._open: dict[Path, PageSession] = {}

    def opened(self, session: Session) -> PageSession:
        """The current session; the same object as long as its log does not change."""
        path = session.path
        log = self._cache.get(path)
        with self._lock:
            known = self._open.get(path)
            if known is None or known.log is not log:
                known = self._open[path] = PageSession(session, log)
            for other in [one for one in self._open if one != path and one not in self._cache]:
                del self._open[other]
            return known
