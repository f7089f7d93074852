"""Which process may start a refresh: one, at most once per interval, for any number of callers.

A status line runs several times a second in every session, and each run may find an outdated index. The time
of a marker file records when a refresh was last started. The process that creates the marker may refresh; one
that finds it old locks it, checks again and updates its time. All others continue at once without waiting.

If the marker is deleted, one extra refresh runs. If it cannot be written, no process refreshes.

Warnings that were given and the rate limits that clients reported are small files beside it. A mark is a file that is made with
O_EXCL, so of any number of processes one gets to give a warning; it holds the warning. The
record of rate limits has a line for each change, written under a lock. Few imports: the status line loads this module.
"""
# pathlib takes longer to import than the status line may.
# ruff: noqa: PTH118, PTH123, PTH208

from __future__ import annotations

import os
import time

try:
    import fcntl
except ImportError:  # Windows: two processes may refresh at the same moment; the index has a lock of its own
    fcntl = None  # type: ignore[assignment]

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable

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


_KEPT_SECONDS = 60 * 86_400
_LONGEST_RECORD = 1 << 20
_TAIL = 4096
_RECORD = "rate-limits.jsonl"


def directory_of(data: str) -> str:
    """Where marks and the record are, below recollect's directory."""
    return os.path.join(data, "budget")


def is_marked(data: str, key: str) -> bool:
    """Whether a warning was given."""
    return os.path.exists(os.path.join(directory_of(data), f"{key}.json"))  # noqa: PTH110


def mark(data: str, key: str, content: bytes) -> bool:
    """Take the turn to give a warning; False where another process, or an earlier one, did."""
    # Imported for the few calls that write: most find the mark.
    from pathlib import Path

    from recollect.system import fsops

    path = Path(mark_path(data, key))
    fsops.make_directories(path.parent, synced=False)
    try:
        fd = fsops.create_new(path)
    except FileExistsError:
        return False
    try:
        fsops.write_all(fd, content)
    finally:
        fsops.close(fd)
    return True


def marks(data: str) -> list[str]:
    """The keys of all warnings that were given, oldest first."""
    try:
        names = [name for name in os.listdir(directory_of(data)) if name.endswith(".json")]
    except FileNotFoundError:
        return []
    return sorted(name.removesuffix(".json") for name in names)


def mark_path(data: str, key: str) -> str:
    """The file of a mark."""
    return os.path.join(directory_of(data), f"{key}.json")


def forget_old(data: str, now: float) -> None:
    """Remove marks of days that are long over."""
    from pathlib import Path

    from recollect.system import fsops

    for key in marks(data):
        path = Path(mark_path(data, key))
        try:
            if now - path.stat().st_mtime > _KEPT_SECONDS:
                fsops.unlink(path)
        except OSError:
            continue


def record_limits(data: str, limits: Iterable[tuple[str, float, float | None]], now: float) -> int:
    """Add the limits that changed (window, per cent, reset) to the record; returns how many did."""
    lines = [_line(one, now) for one in limits]
    name = os.path.join(directory_of(data), _RECORD)
    try:
        with open(name, "rb") as file:
            if not _news(file.fileno(), lines):
                return 0
    except FileNotFoundError:
        pass
    from pathlib import Path

    from recollect.system import fsops

    fsops.make_directories(Path(name).parent, synced=False)
    fd = fsops.open_append(Path(name))
    try:
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_size > _LONGEST_RECORD:
            fsops.truncate(fd, 0)  # years of changes: the newest window is what people ask about
        lines = _news(fd, lines)
        if lines:
            fsops.write_all(fd, b"".join(lines))
        return len(lines)
    finally:
        fsops.close(fd)


def _news(fd: int, lines: list[bytes]) -> list[bytes]:
    """The lines that the end of the record does not hold."""
    known = os.pread(fd, _TAIL, max(0, os.fstat(fd).st_size - _TAIL))
    return [line for line in lines if _said(line) not in known]


def recorded_limits(data: str) -> list[bytes]:
    """The lines of the record, oldest first."""
    try:
        with open(os.path.join(directory_of(data), _RECORD), "rb") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def _line(limit: tuple[str, float, float | None], now: float) -> bytes:
    window, percent, resets = limit
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    reset = "null" if resets is None else str(int(resets))
    return b'{"window":"%b","used_percentage":%d,"resets_at":%b,"at":"%b"}\n' % (
        window.encode(), int(percent), reset.encode(), at.encode(),
    )  # fmt: skip


def _said(line: bytes) -> bytes:
    """A line without its time."""
    return line.partition(b',"at"')[0]
