"""The facts about the file system that a decision needs.

Policy does no I/O; services pass in the real file system, tests a fake one.
"""

from __future__ import annotations

from typing import Protocol


class World(Protocol):
    """Answers about absolute paths. They never raise; an unreadable path counts as missing."""

    def resolved(self, path: str) -> str:
        """The path with links followed as far as it exists; the rest is appended as written."""

    def identity(self, path: str) -> tuple[int, int] | None:
        """Device and inode of the target (links followed), or None when it is missing."""

    def is_regular_or_missing(self, path: str) -> bool:
        """False for a FIFO, a device or a socket, which no tool may read as a file."""

    def is_directory(self, path: str) -> bool:
        """Whether the target (links followed) is a directory."""

    def names_in(self, path: str) -> frozenset[str] | None:
        """Every relative path below the directory, links not followed; None when it cannot be listed."""
