"""A session that a page has open: the places of its messages, kept while the log grows, never their text.

The first look reads the log once for ids and links, or what an earlier process kept of that. Every later
one reads only what was appended since, where the bytes before are still the same; else it begins anew.
Texts are read from their places when a window of messages is asked for, and forgotten with the answer. So
memory is bounded by the number of lines of the few sessions that are kept open, whatever is scrolled through.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from recollect.errors import NotFound, StorageError
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import LeafMark, Node, node_of
from recollect.model.damage import Line
from recollect.services.session import Session
from recollect.storage.home import AgentFile
from recollect.storage.logs.kept_points import LogPoints, PointsCache
from recollect.storage.logs.log_graph import LogGraph
from recollect.storage.logs.reader import OpenLog

_META = re.compile(rb'"isMeta"[ \t]*:[ \t]*true')
_OPEN_LOGS = 8
_OPEN_POINTS = 600_000
# So many bytes are read sooner than a file is written about them.
WORTH_KEEPING = 4 << 20
_PAUSE_LINES = 100


class GrowingLog(LogGraph):
    """The graph of a log; one made from an earlier one, or from what is kept of it, reads only what is new."""

    def __init__(self, path: Path, known: LogPoints | None = None, kept: PointsCache | None = None) -> None:
        super().__init__(path)
        self.read = known or LogPoints([], set())
        self._kept = kept
        self._unkept: tuple[int, os.stat_result] | None = None

    @functools.cached_property
    def graph(self) -> Graph:
        """As of the moment it is first asked for."""
        self.read_on()
        return Graph(self.read.points)

    def read_on(self, pause: Callable[[], None] | None = None) -> None:
        """Read what is new; ``pause`` is called again and again, for whoever is in no hurry."""
        with OpenLog(self.path) as log:
            status, read = log.stat(), self._begun(log)
            start = read.end
            for number, line in enumerate(log.lines(start)):
                point = node_of(line) if isinstance(line, Line) else None
                if point is not None:
                    read.points.append(point)
                if _may_be_meta(point) and isinstance(line, Line) and _META.search(line.data):
                    read.meta.add(line.offset)
                read.end = line.end
                if pause is not None and number % _PAUSE_LINES == 0:
                    pause()
            read.before_end = log.fingerprint(read.end)
            if read.end - start >= WORTH_KEEPING:
                self._unkept = (read.end, status)

    def _begun(self, log: OpenLog) -> LogPoints:
        """What need not be read again."""
        known = self.read
        if self._kept is not None and not known.end and log.size() >= WORTH_KEEPING:
            known = self._kept.read(log) or known
        if log.size() < known.end or log.fingerprint(known.end) != known.before_end:
            known = LogPoints([], set())
        self.read = known
        return known

    def keep(self) -> None:
        """Let the next process begin where this one stands, where that is worth a file."""
        unkept, self._unkept = self._unkept, None
        if self._kept is None or unkept is None or unkept[0] != self.read.end:
            return
        with OpenLog(self.path) as log:
            self._kept.write(log, unkept[1], self.read)


def _may_be_meta(point: Node | LeafMark | None) -> bool:
    return isinstance(point, Node) and point.type == "user" and not point.result_ids


class PageSession(Session):
    """A session as it was at one moment, with the log that the next moment goes on from."""

    def __init__(
        self, session: Session, known: LogPoints | None = None, kept: PointsCache | None = None
    ) -> None:
        super().__init__(session.home, session.file, costs=session.costs)
        self._name = session.id
        self._agents = session.agents
        self._log: GrowingLog = GrowingLog(session.path, known, kept)
        self.lock = threading.RLock()
        self.kept: OrderedDict[object, object] = OrderedDict()
        self.senders: dict[str, str] | None = None

    @property
    def id(self) -> str:
        """Its id, also where it lies in the archive under another name."""
        return self._name

    @property
    def log(self) -> LogGraph:
        """Its log."""
        return self._log

    @property
    def read(self) -> LogPoints:
        """What was read of its log."""
        return self._log.read

    def keep(self) -> None:
        """Let a later process open it as fast as this one would now."""
        self._log.keep()

    def agents(self) -> list[AgentFile]:
        """The logs of its sub-agents; of an archived session those in the archive."""
        return self._agents()


def signature_of(path: Path) -> tuple[int, int, int]:
    """What changes when a log does: size, time, file."""
    try:
        seen = path.stat()
    except FileNotFoundError as cause:
        raise NotFound(f"no log at {path}", hint="it may have been moved or cleaned up") from cause
    except OSError as cause:
        raise StorageError("look at", path, cause, hint="check who may read it") from cause
    return seen.st_size, seen.st_mtime_ns, seen.st_ino


class OpenSessions:
    """The sessions that are being read; the one not looked at for the longest is let go first."""

    def __init__(
        self, most: int = _OPEN_LOGS, most_points: int = _OPEN_POINTS, kept: PointsCache | None = None
    ) -> None:
        self._most, self._most_points, self._kept = most, most_points, kept
        self._lock = threading.Lock()
        self._open: OrderedDict[Path, tuple[tuple[int, int, int], PageSession]] = OrderedDict()

    def opened(self, session: Session) -> PageSession:
        """The session as it is now; the same object as long as its log does not change."""
        signature = signature_of(session.path)
        with self._lock:
            known = self._open.get(session.path)
            if known is not None and known[0] == signature:
                self._open.move_to_end(session.path)
                return known[1]
            before = known[1] if known is not None else None
            fresh = PageSession(session, _grown(before), self._kept)
            self._open[session.path] = (signature, fresh)
            self._open.move_to_end(session.path)
            self._let_go()
            return fresh

    def points(self) -> int:
        """How many lines are remembered, over all open sessions."""
        return sum(len(one.read.points) for _, one in self._open.values())

    def _let_go(self) -> None:
        while len(self._open) > 1 and (len(self._open) > self._most or self.points() > self._most_points):
            self._open.popitem(last=False)


def _grown(before: PageSession | None) -> LogPoints | None:
    """What an earlier look has read, as a copy: the earlier one may still be in use."""
    if before is None:
        return None
    with before.lock:
        read = before.read
        return LogPoints(list(read.points), set(read.meta), read.end, read.before_end)
