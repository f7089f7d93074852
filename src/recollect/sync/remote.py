"""What can keep logs for several machines, whatever it is: a server, a shared folder, a dictionary in a test.

A remote holds logs and side files of sessions. An append names the position it believes the log to be at; at any
other it is refused with the position the log has (``PositionConflict``), unless these very lines are there already. So every
call may be repeated after any failure, and two who append at once cannot both win.

The three control-flow exceptions here say what a remote found; everything else that can go wrong is an error
of ``recollect.errors``: ``Busy`` for what may work later, ``UsageError`` for what will not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from recollect.sync.wire import Head, Position, RemoteSession, SessionDetail, SideFile


class PositionConflict(Exception):
    """The log does not end, or does not go on, where it was believed to; ``head`` is where it ends."""

    def __init__(self, head: Head) -> None:
        super().__init__(f"the log is at {head.lines} lines")
        self.head = head


class SessionGone(Exception):
    """The session was deleted there."""


class SideFileChanged(Exception):
    """A side file is there already, and is not the one that was named."""


class SessionDescription(NamedTuple):
    """What is said of a session beside its lines."""

    project: str | None = None
    repository: str | None = None
    machine: str | None = None
    encrypted: bool = False


NOTHING_TOLD = SessionDescription()


class RemoteLimits(NamedTuple):
    """How much a remote takes at once."""

    body_bytes: int = 16 << 20
    line_bytes: int = 16 << 20
    lines: int = 50_000


class Remote(Protocol):
    """One place that keeps sessions for several machines."""

    def limits(self) -> RemoteLimits:
        """How much it takes at once."""
        ...

    def sessions(self, since: int | None = None) -> Iterator[RemoteSession]:
        """The sessions that changed at or after a time (milliseconds), newest first."""
        ...

    def session(self, session: str) -> SessionDetail | None:
        """One session with its logs and files; None where there is none."""
        ...

    def head(self, session: str, key: str) -> Position | None:
        """Where a log ends; None where there is no such log."""
        ...

    def is_at(self, session: str, key: str, position: Position) -> bool:
        """Whether a log is at this position, or was on its way."""
        ...

    def append(self, session: str, key: str, at: Position, data: bytes, told: SessionDescription) -> Position:
        """Add whole lines durably; where the log is after them. ``PositionConflict``, ``SessionGone``."""
        ...

    def read(self, session: str, key: str, after: Position) -> Iterator[bytes]:
        """Whole lines after a position, in pieces. ``PositionConflict`` where the log never was there, ``SessionGone`` where it is not."""
        ...

    def put_file(self, session: str, key: str, data: bytes, known: str | None) -> SideFile:
        """Keep a side file; ``known`` is the sha256 it should have there now, None where it should be new.

        The same bytes again are no conflict. ``SideFileChanged``, ``SessionGone``.
        """
        ...

    def file(self, session: str, key: str) -> bytes | None:
        """The bytes of a side file."""
        ...

    def delete(self, session: str) -> bool:
        """Delete a session there; False where there is none."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


def lines_of(data: bytes) -> Iterator[bytes]:
    """The lines of a text that ends with a newline, each with its own."""
    start = 0
    while end := data.find(b"\n", start) + 1:
        yield data[start:end]
        start = end
