"""A session that a page has open: the places of its messages, kept while the log grows, never their text.

The first look reads the log once for ids and links. Every later one reads only what was appended
since, where the bytes before are still the same; else it begins anew. Texts are read from their
places when a window of messages is asked for, and forgotten with the answer. So memory is bounded
by the number of lines of the few sessions that are kept open, whatever is scrolled through.
"""

from __future__ import annotations

import functools
import re
import threading
from collections import OrderedDict
from pathlib import Path

from msgspec import Struct

from recollect.errors import NotFound, StorageError
from recollect.model.damage import Line
from recollect.model.graph import Graph
from recollect.model.node import LeafMark, Node, node_of
from recollect.services.session import Session
from recollect.storage.home import AgentFile
from recollect.storage.log_graph import LogGraph
from recollect.storage.reader import OpenLog

_META = re.compile(rb'"isMeta"[ \t]*:[ \t]*true')
_OPEN_LOGS = 8
_OPEN_POINTS = 600_000


class Points(Struct):
    """What was read of a log so far. ``meta`` are the places of lines that the client wrote in the user's name."""

    points: list[Node | LeafMark]
    meta: set[int]
    end: int = 0
    before_end: bytes = b""


class GrowingLog(LogGraph):
    """The graph of a log; one made from an earlier one reads only what is new."""

    def __init__(self, path: Path, known: Points | None = None) -> None:
        super().__init__(path)
        self.read = known or Points([], set())

    @functools.cached_property
    def graph(self) -> Graph:
        """As of the moment it is first asked for."""
        with OpenLog(self.path) as log:
            read = self.read
            if log.size() < read.end or log.fingerprint(read.end) != read.before_end:
                read = self.read = Points([], set())
            for line in log.lines(read.end):
                point = node_of(line) if isinstance(line, Line) else None
                if point is not None:
                    read.points.append(point)
                if _may_be_meta(point) and isinstance(line, Line) and _META.search(line.data):
                    read.meta.add(line.offset)
                read.end = line.end
            read.before_end = log.fingerprint(read.end)
            return Graph(read.points)


def _may_be_meta(point: Node | LeafMark | None) -> bool:
    return isinstance(point, Node) and point.type == "user" and not point.result_ids


class PageSession(Session):
    """A session as it was at one moment, with the log that the next moment goes on from."""

    def __init__(self, session: Session, known: Points | None = None) -> None:
        super().__init__(session.home, session.file)
        self._name = session.id
        self._agents = session.agents
        self._log: GrowingLog = GrowingLog(session.path, known)
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
    def read(self) -> Points:
        """What was read of its log."""
        return self._log.read

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

    def __init__(self, most: int = _OPEN_LOGS, most_points: int = _OPEN_POINTS) -> None:
        self._most, self._most_points = most, most_points
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
            fresh = PageSession(session, _grown(before))
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


def _grown(before: PageSession | None) -> Points | None:
    """What an earlier look has read, as a copy: the earlier one may still be in use."""
    if before is None:
        return None
    with before.lock:
        read = before.read
        return Points(list(read.points), set(read.meta), read.end, read.before_end)
