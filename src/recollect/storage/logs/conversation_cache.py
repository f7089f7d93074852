"""Keep conversations that were read lately, within a byte budget, and never show a stale one.

Each time a log is asked for, its identity, size and time are compared with
those it was read at. Unchanged, the kept items are handed out. Grown, only
what follows the last kept line is read. Anything else (another file under the
name, a shorter one, other bytes before the place where we stopped, the same
size but a newer time) means that the log is not what it was, and it is read
anew. What is handed out is a tuple, so a growing log never changes under
somebody's loop; damage is kept in its place among the entries.

Bytes are counted as the length of the lines plus 2,000 for each. That is an
estimate: measured with tracemalloc over 470 real logs (28,511 lines, 78.6 MB)
the decoded items took 0.99 bytes a byte and 2,168 a line. A log of mostly
non-Latin text can take two to three times its count, since Python's strings do.

Safe to use from several threads. Two that miss the same log at once both read
it. It cannot see a log overwritten in place by as many bytes within one tick
of the file system's clock.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path

from msgspec import Struct

from recollect.errors import NotFound
from recollect.model import codec
from recollect.model.damage import DEFAULT_LIMITS, Damage, Limits, Line
from recollect.model.entry import Entry
from recollect.storage.logs.reader import OpenLog

DEFAULT_BUDGET = 64 * 1024 * 1024
ITEM_OVERHEAD = 2000

Items = tuple[Entry | Damage, ...]


class CacheStatistics(Struct, frozen=True):
    """What a cache did since it was made, and what it holds now.

    Every request is a hit, a miss or an extension; one that raised is none of them.
    """

    hits: int = 0
    misses: int = 0
    extended: int = 0
    evictions: int = 0
    bytes: int = 0
    items: int = 0


class _CachedLog(Struct, frozen=True):
    """A log as it was read: the items up to ``end``, and how to tell whether it is still that log."""

    items: Items
    end: int
    fingerprint: bytes
    file: tuple[int, int]
    size: int
    modified: int
    cost: int

    def unchanged(self, now: os.stat_result) -> bool:
        return (self.file, self.size, self.modified) == (_file(now), now.st_size, now.st_mtime_ns)

    def grown_to(self, now: os.stat_result, log: OpenLog) -> bool:
        longer = self.file == _file(now) and now.st_size > self.size
        return longer and log.fingerprint(self.end) == self.fingerprint


class ConversationCache:
    """Logs as tuples of entries and damage, least recently used first out."""

    def __init__(self, budget_bytes: int = DEFAULT_BUDGET, limits: Limits = DEFAULT_LIMITS) -> None:
        self.budget_bytes = budget_bytes
        self._limits = limits
        self._lock = threading.Lock()
        self._kept: OrderedDict[Path, _CachedLog] = OrderedDict()
        self._bytes = self._hits = self._misses = self._extended = self._evictions = 0

    def get(self, path: Path) -> Items:
        """The items of a log as it is now. Raises as ``LogReader`` does where it cannot be read."""
        with self._lock:
            kept = self._kept.get(path)
        if kept is not None and kept.unchanged(self._stat(path)):
            with self._lock:
                self._hits += 1
                if path in self._kept:
                    self._kept.move_to_end(path)
            return kept.items
        return self._read(path, kept).items

    def forget(self, path: Path) -> None:
        """Drop one log, if it is kept."""
        with self._lock:
            self._drop(path)

    def clear(self) -> None:
        """Drop all logs; the counts of what was done stay."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    @property
    def statistics(self) -> CacheStatistics:
        """Counts so far."""
        with self._lock:
            counts = (self._hits, self._misses, self._extended, self._evictions)
            return CacheStatistics(*counts, bytes=self._bytes, items=len(self._kept))

    def _stat(self, path: Path) -> os.stat_result:
        try:
            return path.stat()
        except OSError:
            self.forget(path)
            with OpenLog(path) as log:  # says what is wrong in our own words
                return log.stat()

    def _read(self, path: Path, kept: _CachedLog | None) -> _CachedLog:
        try:
            with OpenLog(path, self._limits) as log:
                now = log.stat()
                grown = kept is not None and kept.grown_to(now, log)
                fresh = _load(log, now, kept if grown else None)
        except NotFound:
            self.forget(path)
            raise
        with self._lock:
            self._extended += grown
            self._misses += not grown
            self._keep(path, fresh)
        return fresh

    def _keep(self, path: Path, fresh: _CachedLog) -> None:
        self._drop(path)
        if fresh.cost > self.budget_bytes:
            return
        self._kept[path] = fresh
        self._bytes += fresh.cost
        while self._bytes > self.budget_bytes:
            oldest = next(iter(self._kept))
            self._drop(oldest)
            self._evictions += 1

    def _drop(self, path: Path) -> None:
        kept = self._kept.pop(path, None)
        self._bytes -= kept.cost if kept is not None else 0


def _load(log: OpenLog, now: os.stat_result, kept: _CachedLog | None) -> _CachedLog:
    """Read from the end of what is kept, or all, up to the size the status speaks of.

    What is appended after the status was taken is left for the next request:
    size and time must never be newer than the items they vouch for.
    """
    items = list(kept.items) if kept else []
    end, fingerprint, cost = (kept.end, kept.fingerprint, kept.cost) if kept else (0, b"", 0)
    for line in log.lines(end, now.st_size):
        item = codec.decode(line, log.limits) if isinstance(line, Line) else line
        fingerprint = log.fingerprint_after(line, fingerprint)
        end = line.end
        if item is not None:
            items.append(item)
            cost += _cost(item)
    return _CachedLog(tuple(items), end, fingerprint, _file(now), now.st_size, now.st_mtime_ns, cost)


def _cost(item: Entry | Damage) -> int:
    held = item.length if isinstance(item, Entry) else len(item.data)
    return held + ITEM_OVERHEAD


def _file(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
