"""The interface of a place that stores logs for several machines: a server, or a fake in a test.

A remote holds logs and side files of sessions. An append names the expected position of the log; at any
other position it is refused with the actual one (``PositionConflict``), unless the same lines are
already there. So every call may be repeated after any failure, and of two concurrent appends only one
succeeds.

The three exceptions here are results that callers handle. Other failures are errors of
``recollect.errors``: ``Busy`` for what may work later, ``UsageError`` for what will not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from recollect.sync.wire import Head, Position, RemoteSession, SessionDetail, SideFile


class PositionConflict(Exception):
    """The log is not at the expected position; ``head`` is where it ends."""

    def __init__(self, head: Head) -> None:
        super().__init__(f"the log is at {head.lines} lines")
        self.head = head


class SessionGone(Exception):
    """The session was deleted on the remote."""


class SideFileChanged(Exception):
    """The side file exists and differs from the expected version."""


class SessionDescription(NamedTuple):
    """Information about a session beside its lines."""

    project: str | None = None
    repository: str | None = None
    machine: str | None = None
    encrypted: bool = False


class RemoteLimits(NamedTuple):
    """How much a remote accepts at once."""

    body_bytes: int = 16 << 20
    line_bytes: int = 16 << 20
    lines: int = 50_000


class Remote(Protocol):
    """One place that stores sessions for several machines."""

    def limits(self) -> RemoteLimits: ...

    def sessions(self, since: int | None = None, **filters: str) -> Iterator[RemoteSession]:
        """The sessions that changed at or after a time (milliseconds), newest first."""
        ...

    def session(self, session: str) -> SessionDetail | None:
        """One session with its logs and files; None where there is none."""
        ...

    def head(self, session: str, key: str) -> Position | None:
        """Where a log ends; None where there is no such log."""
        ...

    def is_at(self, session: str, key: str, position: Position) -> bool:
        """Whether a log is at this position, or passed it."""
        ...

    def append(
        self, session: str, key: str, at: Position, data: bytes, description: SessionDescription
    ) -> Position:
        """Append whole lines durably; returns the new position. ``PositionConflict``, ``SessionGone``."""
        ...

    def read(self, session: str, key: str, after: Position) -> Iterator[bytes]:
        """Whole lines after a position, in pieces. ``PositionConflict`` if the log never was there,
        ``SessionGone``."""
        ...

    def put_file(self, session: str, key: str, data: bytes, known: str | None) -> SideFile:
        """Store a side file; ``known`` is its expected current sha256, None where it should be new.

        Storing the same bytes again is no conflict. ``SideFileChanged``, ``SessionGone``.
        """
        ...

    def file(self, session: str, key: str) -> bytes | None: ...

    def delete(self, session: str) -> bool:
        """Delete a session there; False where there is none."""
        ...

    def close(self) -> None: ...


def lines_of(data: bytes) -> Iterator[bytes]:
    """The lines of a text that ends with a newline, each with its own."""
    start = 0
    while end := data.find(b"\n", start) + 1:
        yield data[start:end]
        start = end
