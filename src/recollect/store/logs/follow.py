"""Follow a log as it grows, and report when it is no longer the same log.

A ``Follower`` keeps three things: an open descriptor, the position up to which lines were returned, and the
bytes just before that position. Each poll compares them with the file. A log that became shorter, or whose
bytes before the position differ, was truncated or overwritten; a name that leads to another file was
replaced. Both are reported by a ``Reset``, and the new content follows from its start. Before a replaced log
is left, what was appended to it under its old name is returned.

Only whole lines are yielded (P2), each at most once between two resets; a whole last entry before its newline is
there. ``item.end`` is the offset to follow from in a later process.

It polls, since change notification is missing on some systems and on network file systems. It cannot see
content that came and went between two polls, nor an overwritten log that has the same 256 bytes at the same
place.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct

from recollect.errors import NotFound, StorageError
from recollect.model.lines import codec
from recollect.model.lines.damage import DEFAULT_LIMITS, Damage, Limits, Line
from recollect.model.lines.entry import Entry
from recollect.store.logs.reader import OpenLog

_BATCH_ITEMS = 500
_BATCH_BYTES = 4 * 1024 * 1024

FollowFrom = int | Literal["end"] | None


class Reset(Struct, frozen=True):
    """The log was replaced: discard its entries; what comes next is from its start."""

    reason: Literal["truncated", "replaced", "vanished"]


Followed = Entry | Damage | Reset


class Follower:
    """Polls a log that other processes write. Not thread-safe.

    ``offset`` is where to begin: None for the start, -1 or ``"end"`` for new entries only, else a byte offset
    (inside a line it moves to the next one).
    """

    def __init__(self, path: Path, offset: FollowFrom = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self.path = path
        self._limits = limits
        self._from = offset
        self._log: OpenLog | None = None
        self._position = 0
        self._before = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def position(self) -> int:
        """Where the next line will be read."""
        return self._position

    def close(self) -> None:
        """Close the descriptor. Safe to call twice."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def look(self) -> list[Followed]:
        """New items, a bounded batch at a time; empty when there are none yet."""
        log = self._log or self._open()
        if log is None:
            return self._missing()
        if self._overwritten(log):
            self._position, self._before = 0, b""
            return [Reset("truncated")]
        if news := self._news(log):
            return news
        change = self._renamed(log)
        if change is None:
            return []
        # Polled again after the name led elsewhere: what a writer put into the old file before the rename
        # belongs to the old log.
        if news := self._news(log):
            return news
        self.close()
        return [Reset(change)]

    def _open(self) -> OpenLog | None:
        try:
            log = self._log = OpenLog(self.path, self._limits)
        except NotFound:
            return None
        if self._from in (-1, "end"):
            self._position = log.whole_end()
        else:
            self._position = self._from if isinstance(self._from, int) else 0
        self._from = None
        self._before = log.fingerprint(self._position)
        return log

    def _missing(self) -> list[Followed]:
        """Anything that appears under this name from now on is new."""
        resumed = isinstance(self._from, int) and self._from > 0
        self._from = None
        return [Reset("vanished")] if resumed else []

    def _overwritten(self, log: OpenLog) -> bool:
        if log.stat().st_size < self._position:
            return True
        return log.fingerprint(self._position) != self._before

    def _news(self, log: OpenLog) -> list[Followed]:
        """Whole lines from the position on, which moves past them. Blank ones are skipped."""
        items: list[Followed] = []
        size = 0
        try:
            for line in log.lines(self._position):
                item = codec.decode(line, self._limits) if isinstance(line, Line) else line
                self._pass(log, line)
                if item is not None:
                    items.append(item)
                    size += item.length
                if len(items) >= _BATCH_ITEMS or size >= _BATCH_BYTES:
                    break
        except StorageError:
            # Items read before the error are returned; the next poll will raise it.
            if not items:
                raise
        return items

    def _pass(self, log: OpenLog, line: Line | Damage) -> None:
        before = self._before if line.offset == self._position else log.fingerprint(line.offset)
        self._before = log.fingerprint_after(line, before)
        self._position = line.end

    def _renamed(self, log: OpenLog) -> Literal["replaced", "vanished"] | None:
        try:
            there = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return "vanished"
        except OSError as cause:
            raise StorageError("follow", self.path, cause, hint="check its permissions") from cause
        return None if os.path.samestat(there, log.stat()) else "replaced"


def follow(
    path: Path,
    *,
    offset: FollowFrom = None,
    poll: float = 0.2,
    stop: threading.Event | None = None,
    wait: Callable[[float], object] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Generator[Followed, None, None]:
    """Yield what is in the log and then what is appended to it, until ``stop`` is set.

    Waits for a log that does not exist yet. After a poll without news ``wait`` is called with ``poll``
    seconds; by default it sleeps, and wakes up when ``stop`` is set.
    """
    stop = stop or threading.Event()
    wait = wait or stop.wait
    with Follower(path, offset, limits) as follower:
        while not stop.is_set():
            news = follower.look()
            yield from news
            if not news:
                wait(poll)
