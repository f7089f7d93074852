"""The client's own lock on a task list, taken the client's own way.

Measured on 2.1.325: around a change the client makes a directory named after
what it locks plus ``.lock`` (``.lock.lock`` for the list, ``3.json.lock`` for one
task) and removes it afterwards. Making a directory succeeds for one process
only; one that is older than ten seconds was left by a dead process and may be
taken over. We do the same, so that a running client waits for us and we for it.
It waits for about two seconds and then fails its call: hold the lock for
a few file writes, never while waiting for anything else.

Taking over what looks dead is where such a lock can fail: two that see the same
old directory may both remove it. Among processes of ours ``flock`` on the empty
``.lock`` file, which the client makes and never removes, stands in front (S8).
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from recollect.errors import LogLocked, StorageError
from recollect.system import fsops

STALE_SECONDS = 10.0
_PAUSE = 0.02

if sys.platform == "win32":

    def _try_flock(fd: int) -> bool:
        """Windows has no flock; there the directory alone is the lock."""
        return True

else:
    import fcntl

    def _try_flock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@contextlib.contextmanager
def locked_tasks(directory: Path, *names: str, timeout: float = 30.0) -> Iterator[None]:
    """Hold the locks of ``names`` in a session's task directory: ``.lock`` for the list, ``3.json`` for a task.

    ``LogLocked`` after ``timeout`` seconds. A lock of a dead client is taken over
    after ten, so the timeout should be longer than that.
    """
    patience = _RetryTimer(directory, timeout)
    try:
        fd = fsops.open_lock_file(directory / ".lock")
    except OSError as cause:
        raise StorageError("lock", directory / ".lock", cause, hint=fsops.next_step(cause)) from cause
    try:
        while not _try_flock(fd):
            patience.sleep()
        with contextlib.ExitStack() as held:
            for name in sorted(set(names)):  # one order for all, or two could wait for each other
                marker = directory / f"{name}.lock"
                while not _try_marker(marker):
                    patience.sleep()
                held.callback(_remove, marker)
            yield
    finally:
        fsops.close_quietly(fd)


class _RetryTimer:
    """Waits in small steps until it is at an end."""

    def __init__(self, directory: Path, timeout: float) -> None:
        self._directory = directory
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout

    def sleep(self) -> None:
        if time.monotonic() >= self._deadline:
            raise LogLocked(self._directory, self._timeout, "a client or another program")
        time.sleep(_PAUSE)


def _try_marker(marker: Path) -> bool:
    """Make the directory that is the lock; first remove one whose owner has stopped refreshing it."""
    with contextlib.suppress(FileExistsError):
        marker.mkdir()
        return True
    with contextlib.suppress(FileNotFoundError):
        if time.time() - marker.stat().st_mtime > STALE_SECONDS:
            _remove(marker)
    return False


def _remove(marker: Path) -> None:
    with contextlib.suppress(OSError):
        marker.rmdir()
