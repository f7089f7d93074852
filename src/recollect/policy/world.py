"""The few facts about the file system a decision needs, asked for through one door.

Policy itself does no I/O; the services hand in a real world, tests a made-up one.
"""

from __future__ import annotations

from typing import Protocol


class World(Protocol):
    """Answers about absolute paths. None may raise; an unreadable path is answered like a missing one."""

    def resolved(self, path: str) -> str:
        """The path with every link followed as far as it exists; the rest is appended as written."""

    def identity(self, path: str) -> tuple[int, int] | None:
        """Device and inode of what the path names (links followed), or None when it is not there."""

    def is_regular_or_missing(self, path: str) -> bool:
        """False for a FIFO, a device or a socket, which no tool may read as a file."""
