"""A pool of logs that are open for writing.

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
from typing import Generic, Protocol, TypeVar

from recollect.system import fsops


class _Closable(Protocol):
    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=_Closable)


class _Place(Generic[Opened]):
    """A log that may be open, how many callers use it, and which file it was at its last use."""

    def __init__(self) -> None:
        self.users = 0
        self.busy = threading.Lock()
        self.log: Opened | None = None
        self.identity: tuple[int, int] | None = None

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        log, self.log = self.log, None
        if log is not None:
            log.close()


class OpenLogs(Generic[Opened]):
    """The most recently written logs, kept open."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._places: OrderedDict[Path, _Place[Opened]] = OrderedDict()

    @contextlib.contextmanager
    def using(self, path: Path, opened: Callable[[], Opened]) -> Iterator[Opened]:
        """The log of a path, for one caller at a time. After a failure, or where its file was replaced, it is opened again."""
        place = self._taken(path)
        try:
            with place.busy:
                try:
                    if place.log is not None and fsops.identity_at(str(path)) != place.identity:
                        place.close()
                    if place.log is None:
                        place.log = opened()
                    yield place.log
                    place.identity = fsops.identity_at(str(path))
                except BaseException:
                    place.close()
                    raise
        finally:
            with self._guard:
                place.users -= 1

    def close(self, which: Callable[[Path], bool] = lambda _: True) -> None:
        """Close the logs with these paths, once they are no longer in use."""
        with self._guard:
            chosen = [place for path, place in self._places.items() if which(path)]
        for place in chosen:
            with place.busy:
                place.close()

    def _taken(self, path: Path) -> _Place[Opened]:
        with self._guard:
            place = self._places.pop(path, None) or _Place()
            self._places[path] = place
            place.users += 1
            idle = [path for path, other in self._places.items() if not other.users]
            surplus = [self._places.pop(path) for path in idle[: max(len(self._places) - self._most, 0)]]
        for old in surplus:
            old.close()
        return place
