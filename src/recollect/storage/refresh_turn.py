"""Whose turn it is to start a refresh: one process, once in a while, however many ask.

A status line runs several times a second in every session, and each run may find the index
old. The time of a marker file says when a refresh was last started. Who makes the marker has
the turn; who finds it old takes a lock on it, looks again and moves its time on. Everybody
else goes on at once: nobody waits.

A marker that somebody removes costs one refresh too many. Where it cannot be written nobody
gets the turn.
"""

from __future__ import annotations

import os
import time

try:
    import fcntl
except ImportError:  # Windows: two may get the turn at the same moment; the index has a lock of its own
    fcntl = None  # type: ignore[assignment]

_MODE = 0o600
_SAFE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


def is_recent(path: str, seconds: float) -> bool:
    """Whether a file was changed in the last ``seconds``."""
    try:
        # Absolute: a time in the future is left from a clock that was set back, and must not stop us for long.
        return abs(time.time() - os.stat(path).st_mtime) < seconds  # noqa: PTH116 - pathlib is slow to import
    except OSError:
        return False


def take_turn(marker: str, seconds: float) -> bool:
    """Whether the caller, and nobody else for so many seconds, is to start a refresh."""
    if is_recent(marker, seconds):
        return False
    try:
        os.close(_made(marker))
        return True
    except FileExistsError:
        return _take_over(marker, seconds)
    except OSError:
        return False


def _made(marker: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE
    try:
        return os.open(marker, flags, _MODE)
    except FileNotFoundError:
        from pathlib import Path

        from recollect.system import fsops

        fsops.make_directories(Path(marker).parent)
        return os.open(marker, flags, _MODE)


def _take_over(marker: str, seconds: float) -> bool:
    try:
        fd = os.open(marker, os.O_RDWR | _SAFE)
    except OSError:
        return False
    try:
        if not _locked(fd) or is_recent(marker, seconds):
            return False
        os.utime(marker)
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: the time alone has to do
        return True
    return True
