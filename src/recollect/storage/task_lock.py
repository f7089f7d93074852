"""The client's own lock on a task list, taken in the client's way.

Measured on 2.1.325: around a change the client creates a directory named after what it locks plus ``.lock``
(``.lock.lock`` for the list, ``3.json.lock`` for one task) and removes it afterwards. Creating a directory
succeeds for one process only; one older than ten seconds was left by a dead process and may be taken over. We
do the same, so that a running client waits for us and we for it. It waits for about two seconds and then
fails its call: hold the lock for a few file writes, never while waiting for anything else.

Taking over is the weak point of such a lock: two processes that see the same old directory may both remove
it. Among our own processes ``flock`` on the empty ``.lock`` file, which the client creates and never removes,
prevents that (S8).
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
    from recollect.system.lock import try_lock as _try_flock


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
            for name in sorted(set(names)):  # one order for all, to avoid deadlocks
                marker = directory / f"{name}.lock"
                while not _try_marker(marker):
                    patience.sleep()
                held.callback(_remove, marker)
            yield
    finally:
        fsops.close_quietly(fd)


class _RetryTimer:
    """Waits in small steps until its time is up."""

    def __init__(self, directory: Path, timeout: float) -> None:
        self._directory = directory
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout

    def sleep(self) -> None:
        if time.monotonic() >= self._deadline:
            raise LogLocked(self._directory, self._timeout, "a client or another program")
        time.sleep(_PAUSE)


def _try_marker(marker: Path) -> bool:
    """Create the directory that is the lock; first remove one whose owner has stopped refreshing it."""
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
