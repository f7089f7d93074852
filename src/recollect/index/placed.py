"""A log as a walk over the homes saw it."""

from __future__ import annotations

from typing import NamedTuple


class ScannedLog(NamedTuple):
    """A log as it was seen in a home."""

    path: str
    home: str
    role: int
    session: str | None
    agent: str | None
    device: int
    inode: int
    size: int
    mtime: int
