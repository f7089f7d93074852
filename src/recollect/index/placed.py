"""A log found by a walk over the homes."""

from __future__ import annotations

from typing import NamedTuple


class ScannedLog(NamedTuple):
    """A log found in a home."""

    path: str
    home: str
    role: int
    session: str | None
    agent: str | None
    device: int
    inode: int
    size: int
    mtime: int
