"""Which process may start a refresh: one, at most once per interval, for any number of callers.

A status line runs several times a second in every session, and each run may find an outdated index. The time
of a marker file records when a refresh was last started. The process that creates the marker may refresh; one
that finds it old locks it, checks again and updates its time. All others continue at once without waiting.

If the marker is deleted, one extra refresh runs. If it cannot be written, no process refreshes.
"""

from __future__ import annotations

import os
import time

try:
    import fcntl
except ImportError:  # Windows: two processes may refresh at the same moment; the index has a lock of its own
    fcntl = None  # type: ignore[assignment]

_MODE = 0o600
_SAFE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


def is_recent(path: str, seconds: float) -> bool:
    """Whether a file was changed in the last ``seconds``."""
    try:
        # Absolute: a future time comes from a clock that was set back, and must not block refreshes for long.
        return abs(time.time() - os.stat(path).st_mtime) < seconds  # noqa: PTH116 - pathlib is slow to import
    except OSError:
        return False


def take_turn(marker: str, seconds: float) -> bool:
    """Whether the caller should start a refresh; no other caller gets True for this many seconds."""
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
    except OSError:  # a file system without locks: the time alone decides
        return True
    return True
