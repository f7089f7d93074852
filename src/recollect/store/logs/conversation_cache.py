"""A log as a graph, and a cache of the graphs of recently read logs within a byte budget, which never returns a stale one.

A graph takes one pass for ids and links; texts are read by offset on demand and not held: memory grows with the number
of lines, not with their length. A graph built from earlier points reads only what was appended since, if the bytes before
are unchanged; otherwise it starts again.

On each request the log's identity, size and time are compared with those at the last read. If unchanged, the
same graph is returned. If it grew, only what follows the last line is read. Anything else (another file under
the name, a shorter one, other bytes before the last position, the same size but a newer time) means that the
log was replaced, and it is read again from its start. A returned graph never changes: a grown log gets
another one.

Only ids, links and offsets are cached: texts are read from the log when a message is accessed. Bytes are
counted as ``POINT_BYTES`` for each line that is a point of the graph. That is an estimate: measured with
tracemalloc over 20,000 generated lines, points and graph together took 650 bytes per line.

Thread-safe; of two threads that miss the same log at once, one reads and the other waits. Limit: a log
overwritten in place by as many bytes within one tick of the file system's clock is not noticed.
"""

from __future__ import annotations

import functools
import os
import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from copy import copy
from pathlib import Path

from msgspec import Struct, structs

from recollect.errors import NotFound
from recollect.model.conversation.conversation import Conversation, Story, story_of
from recollect.model.conversation.graph import Graph, LeafMark, Node, node_of
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.entry import Entry, System
from recollect.model.text.titles import client_written
from recollect.model.views.damage import damage_of
from recollect.model.views.fact_line import call_ids, has_more_than_results
from recollect.store.logs.reader import LogReader, OpenLog, read_lines

_META = re.compile(rb'"isMeta"[ \t]*:[ \t]*true')


class LogPoints(Struct):
    """What was read of a log so far.

    ``meta`` are the offsets of lines that the client wrote in the user's name, ``commands`` of slash commands,
    ``mixed`` of results with something beside them; ``calls`` are the ids of the calls that a line makes.
    """

    points: list[Node | LeafMark] = []
    meta: set[int] = set()
    commands: set[int] = set()
    mixed: set[int] = set()
    calls: dict[int, tuple[str, ...]] = {}
    end: int = 0
    before_end: bytes = b""


class LogGraph:
    """The message graph of one log, as of its first use. ``_known`` are the points of an earlier read."""

    def __init__(self, path: Path, _known: LogPoints | None = None) -> None:
        self.path = path
        self.points = _known or LogPoints()
        self._reader = LogReader(path)
        self._is_read = False
        self._conversation: tuple[tuple[str, bool], Conversation] | None = None

    def __repr__(self) -> str:
        return f"<LogGraph of {self.path}>"

    @functools.cached_property
    def graph(self) -> Graph:
        """Ids and links of every entry, without damaged lines."""
        if not self._is_read:
            self.read_on()
        return Graph(self.points.points)

    @functools.cached_property
    def story(self) -> Story:
        """All that was said, as one tree."""
        return story_of(self.graph, self.line_before)

    def line_before(self, boundary: Node) -> str | None:
        """The entry that a compaction's boundary names as the last one before the cut."""
        entry = self.load(boundary)
        return entry.body.logical_parent_uuid if entry and isinstance(entry.body, System) else None

    def read_on(self) -> os.stat_result:
        """Read what is new, and return the log's status from before."""
        with OpenLog(self.path) as log:
            status, read = log.stat(), self.points
            if log.size() < read.end or log.fingerprint(read.end) != read.before_end:
                self.points = read = LogPoints()
            for line in log.lines(read.end):
                point = node_of(line) if isinstance(line, Line) else None
                if point is not None:
                    read.points.append(point)
                if isinstance(point, Node) and isinstance(line, Line):
                    _note(read, point, line)
                read.end = line.end
            read.before_end = log.fingerprint(read.end)
        self._is_read = True
        return status

    def conversation(self, leaf: Node, *, whole: bool = False) -> Conversation:
        """The entries from a root to ``leaf``.

        The last result is cached: finding it takes longer than reading a page.
        """
        known = self._conversation
        if known is None or known[0] != (leaf.uuid, whole):
            # Not self.load: a circle of references would keep the graph until the next collection.
            load = functools.partial(_loaded, self._reader)
            found = Conversation(self.graph, leaf, load, whole=whole)
            self._conversation = known = ((leaf.uuid, whole), found)
        return known[1]

    def load(self, node: Node) -> Entry | None:
        """The entry of a node; None where the log has changed since."""
        return _loaded(self._reader, node)

    def damage(self) -> list[Damage]:
        """Every line that cannot be read."""
        lines = (item if isinstance(item, Damage) else damage_of(item) for item in read_lines(self.path))
        return [item for item in lines if item is not None]


def _note(read: LogPoints, point: Node, line: Line) -> None:
    if point.has_call:
        read.calls[line.offset] = call_ids(line.data)
    elif point.result_ids:
        if has_more_than_results(line.data):
            read.mixed.add(line.offset)
    elif point.type == "user":
        written = client_written(line)
        if written == "command":
            read.commands.add(line.offset)
        elif written == "note" or _META.search(line.data):
            read.meta.add(line.offset)


def _loaded(reader: LogReader, node: Node) -> Entry | None:
    return entry_of(reader.entry_at(node.offset, node.length), node)


def entry_of(item: Entry | Damage | None, node: Node) -> Entry | None:
    """What was read at the place of a node, if it is still that entry."""
    entry = item.readable if isinstance(item, Damage) else item
    is_same = entry is not None and (entry.uuid == node.uuid or node.has_odd_key)
    return entry if is_same else None


DEFAULT_BUDGET = 64 * 1024 * 1024
POINT_BYTES = 700


class CacheStatistics(Struct, frozen=True):
    """Counters since creation, and the current contents (``logs``, ``bytes``).

    Every request is a hit, a miss or an extension; one that raised is none of them.
    """

    hits: int = 0
    misses: int = 0
    extended: int = 0
    evictions: int = 0
    bytes: int = 0
    logs: int = 0


class _CachedLog(Struct, frozen=True):
    """A graph, and the state of its log before it was read."""

    log: LogGraph
    status: os.stat_result
    cost: int


class ConversationCache:
    """Graphs of logs; the least recently used is dropped first. ``statistics`` has its counters.

    ``on_evict`` is called for each log that is dropped to make room, with its path and the room it gave back, in the
    thread that needed it, after the new graph is in place. What it raises reaches the caller of ``get``.
    """

    def __init__(
        self,
        budget_bytes: int = DEFAULT_BUDGET,
        *,
        on_evict: Callable[[Path, int], None] | None = None,
    ) -> None:
        self.budget_bytes, self._on_evict = budget_bytes, on_evict
        self._lock = threading.Lock()
        self._kept: OrderedDict[Path, _CachedLog] = OrderedDict()
        self._reading: weakref.WeakValueDictionary[Path, threading.Lock] = weakref.WeakValueDictionary()
        self._bytes = self._hits = self._misses = self._extended = self._evictions = 0

    def __repr__(self) -> str:
        seen = self.statistics
        return f"<ConversationCache {seen.logs} logs, {seen.bytes} of {self.budget_bytes} bytes>"

    def __contains__(self, path: object) -> bool:
        with self._lock:
            return path in self._kept

    def get(self, path: Path) -> LogGraph:
        """The current graph of a log. Raises as ``LogReader`` does where the log cannot be read."""
        with self._lock:
            turn = self._reading.setdefault(path, threading.Lock())
        with turn:
            with self._lock:
                kept = self._kept.get(path)
            now = self._stat(path)
            if kept is None or _state(kept.status) != _state(now):
                if kept is not None and not _is_grown(kept.status, now):
                    kept = None
                return self._read(path, kept)
            with self._lock:
                self._hits += 1
                if path in self._kept:
                    self._kept.move_to_end(path)
            return kept.log

    def forget(self, path: Path) -> None:
        """Drop one log, if it is cached."""
        with self._lock:
            self._drop(path)

    @property
    def statistics(self) -> CacheStatistics:
        """Hits, misses, extensions and evictions so far, and what is held now."""
        with self._lock:
            counts = (self._hits, self._misses, self._extended, self._evictions)
            return CacheStatistics(*counts, bytes=self._bytes, logs=len(self._kept))

    def _stat(self, path: Path) -> os.stat_result:
        try:
            return path.stat()
        except OSError:
            self.forget(path)
            with OpenLog(path) as log:  # raises our own error
                return log.stat()

    def _read(self, path: Path, grown: _CachedLog | None) -> LogGraph:
        # A copy, because the graph made of the earlier points may still be in use.
        known = None if grown is None else LogPoints(*map(copy, structs.astuple(grown.log.points)))
        log = LogGraph(path, known)
        try:
            status = log.read_on()
        except NotFound:
            self.forget(path)
            raise
        # The bytes before the last position differed, so the log was read from its start.
        is_extended = known is not None and log.points is known
        fresh = _CachedLog(log, status, POINT_BYTES * (1 + len(log.points.points)))
        with self._lock:
            self._extended += is_extended
            self._misses += not is_extended
            evicted = self._keep(path, fresh)
        if self._on_evict is not None:
            for dropped, room in evicted:
                self._on_evict(dropped, room)
        return log

    def _keep(self, path: Path, fresh: _CachedLog) -> list[tuple[Path, int]]:
        self._drop(path)
        evicted: list[tuple[Path, int]] = []
        if fresh.cost > self.budget_bytes:
            return evicted
        self._kept[path] = fresh
        self._bytes += fresh.cost
        while self._bytes > self.budget_bytes:
            oldest = next(iter(self._kept))
            evicted.append((oldest, self._drop(oldest)))
        self._evictions += len(evicted)
        return evicted

    def _drop(self, path: Path) -> int:
        kept = self._kept.pop(path, None)
        cost = kept.cost if kept is not None else 0
        self._bytes -= cost
        return cost


def _is_grown(before: os.stat_result, now: os.stat_result) -> bool:
    return os.path.samestat(before, now) and now.st_size > before.st_size


def _state(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
