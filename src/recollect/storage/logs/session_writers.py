"""A pool of open logs for writing.

Opening a session's log reads it whole, so opening it for each entry would cost more with every entry. A log
is given to one caller at a time; one in use is never closed to make room. The state of an open log is only
trusted while its path still names the same file.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

from recollect.model.lifecycle import SessionState
from recollect.storage.store import LogContext, SessionLog, Store
from recollect.system import fsops

_OPEN_LOGS = 32


class _LogWriter:
    """A log that may be open, how many callers use it, and which file it was at its last use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.users = 0
        self.busy = threading.Lock()
        self._log: SessionLog | None = None
        self._identity: tuple[int, int] | None = None

    def log(self, store: Store, place: LogContext) -> SessionLog:
        """The open log. If its file was replaced or removed, it is opened again."""
        if self._log is not None and fsops.identity_at(str(self.path)) != self._identity:
            self.close()
        if self._log is None:
            state = SessionState.RESUMED if self.path.exists() else SessionState.CREATED
            self._log = SessionLog(store, place, state)
        return self._log

    def note_file(self) -> None:
        self._identity = fsops.identity_at(str(self.path))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._log is not None:
            self._log.close()
            self._log = None


class SessionWriters:
    """The most recently written logs, kept open."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._guard = threading.Lock()
        self._open: OrderedDict[Path, _LogWriter] = OrderedDict()

    @contextlib.contextmanager
    def writing(self, place: LogContext) -> Iterator[SessionLog]:
        """The log of a place, for one caller at a time. After a failure it is opened again."""
        writer = self._taken(place.path)
        try:
            with writer.busy:
                try:
                    yield writer.log(self._store, place)
                    writer.note_file()
                except BaseException:
                    writer.close()
                    raise
        finally:
            with self._guard:
                writer.users -= 1

    def close(self, which: Callable[[Path], bool] = lambda _: True) -> None:
        """Close the logs with these paths, once they are no longer in use."""
        with self._guard:
            chosen = [writer for path, writer in self._open.items() if which(path)]
        for writer in chosen:
            with writer.busy:
                writer.close()

    def _taken(self, path: Path) -> _LogWriter:
        with self._guard:
            writer = self._open.pop(path, None) or _LogWriter(path)
            self._open[path] = writer
            writer.users += 1
            idle = [path for path, other in self._open.items() if not other.users]
            surplus = [self._open.pop(path) for path in idle[: max(len(self._open) - _OPEN_LOGS, 0)]]
        for old in surplus:
            old.close()
        return writer
