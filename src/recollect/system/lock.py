"""One writer at a time: a kernel lock, which a dead process cannot keep.

The lock is ``flock`` on a separate file that is never removed. Removing it would let two processes hold
the lock: one on the deleted file, one on its successor (S8). If another program removes it, the holder
notices: after locking, descriptor and path must be the same file, or the attempt starts over.

``flock`` belongs to the open file, so threads of one process would share it (S7): a thread lock comes
first. A forked child would share it too, and keep it after its parent's death: the child closes its
copy and opens its own when needed.

The file holds one line about the holder. It is a hint for messages and decides nothing: a process id
proves nothing after a restart (S14).

The lock binds only programs that take it. Claude Code does not (S9).
"""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path
from threading import TIMEOUT_MAX, RLock, get_ident
from types import TracebackType
from typing import Self
from weakref import WeakSet

from recollect.errors import LogLocked, StorageError
from recollect.system import fsops

_FIRST_SLEEP = 0.0001
_LONGEST_SLEEP = 0.01
# Fixed length: one write replaces the previous line completely.
_HOLDER_BYTES = 160

if sys.platform == "win32":
    import msvcrt

    # Locked bytes cannot be read by others there, so lock one far beyond the holder's line.
    _LOCKED_BYTE = 1 << 20

    def try_lock(fd: int) -> bool:
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError as cause:
            if cause.errno not in {errno.EACCES, errno.EDEADLK}:
                raise
            return False
        return True

    def _unlock(fd: int) -> None:
        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


class FileLock:
    """Exclusive among processes and among the threads that share this object. Not reentrant.

    ``guards`` is the file the lock protects, for the message on failure. The descriptor stays open
    between two acquisitions; ``close`` or the garbage collector closes it.
    """

    def __init__(self, path: Path, timeout: float = 10.0, *, guards: Path | None = None) -> None:
        self.path = path
        self.timeout = timeout
        self._guards = guards or path
        self._name = str(path)
        self._fd = -1
        self._identity: tuple[int, int] | None = None
        self._holder_line = b""
        # Reentrant only because the system then checks that a release comes from the holder.
        self._threads = RLock()
        self._owner: int | None = None
        _live.add(self)

    def acquire(self) -> None:
        """Take the lock, or raise LogLocked after ``timeout`` seconds; StorageError if the file system refuses."""
        me = get_ident()
        if self._owner == me:
            raise LogLocked(self._guards, 0, "this same thread")
        deadline = time.monotonic() + self.timeout
        try:
            if not self._threads.acquire(blocking=False):
                self._wait_for_threads()
            self._owner = me
            self._acquire_file(deadline)
            self._say_who()
        except OSError as cause:
            self.release()
            raise StorageError("lock", self.path, cause, hint=fsops.next_step(cause)) from cause
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock; does nothing in a thread that does not hold it.

        An interrupt can stop this half way. A second call finishes it, so callers that must be sure use
        a ``finally`` and call it again if it did not complete.
        """
        if self._owner == get_ident():
            if self._fd >= 0:
                try:
                    _unlock(self._fd)
                except OSError:
                    # Closing releases the lock too, and what was written under it is safe.
                    self._close_file()
            self._owner = None
        try:
            self._threads.release()
        except RuntimeError:
            return  # not ours, or released already

    def close(self) -> None:
        """Close the descriptor, which releases a lock still held. The file stays (S8)."""
        self._close_file()
        self.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        done = False
        try:
            self.release()
            done = True
        finally:
            if not done:
                self.release()

    def __del__(self) -> None:
        self._close_file()

    def _wait_for_threads(self) -> None:
        if not self._threads.acquire(timeout=min(max(self.timeout, 0), TIMEOUT_MAX)):
            raise LogLocked(self._guards, self.timeout, "another thread of this process")

    def _acquire_file(self, deadline: float) -> None:
        pause = _FIRST_SLEEP
        while True:
            if self._fd < 0:
                self._open()
            if try_lock(self._fd):
                if self._identity is not None and fsops.identity_at(self._name) == self._identity:
                    return
                self._close_file()  # the name now belongs to another file, which is the lock
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                raise LogLocked(self._guards, self.timeout, self._holder())
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, _LONGEST_SLEEP)

    def _open(self) -> None:
        self._identity = None
        try:
            self._fd = fsops.open_lock_file(self.path)
        except FileNotFoundError:
            fsops.make_directories(self.path.parent)
            self._fd = fsops.open_lock_file(self.path)
        self._identity = fsops.identity_of(self._fd)

    def _close_file(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            fsops.close_quietly(fd)

    def _say_who(self) -> None:
        """Write our name, unless it is there already; a full disk must not stop us (S12)."""
        try:
            if self._holder_line and fsops.pread(self._fd, _HOLDER_BYTES, 0) == self._holder_line:
                return
            self._holder_line = _holder_line()
            fsops.overwrite_start(self._fd, self._holder_line)
        except OSError:
            return

    def _holder(self) -> str:
        """Who seems to hold the lock. The content is untrusted: keep a short printable part."""
        if self._fd < 0:
            return "another process"
        try:
            raw = fsops.pread(self._fd, _HOLDER_BYTES, 0)
        except OSError:
            return "another process"
        text = "".join(c if c.isascii() and c.isprintable() else " " for c in raw.decode("ascii", "replace"))
        return " ".join(text.split()) or "another process"

    def forget_parent(self) -> None:
        """In a forked child: close the parent's descriptor without unlocking it."""
        self._close_file()  # never _unlock: that would release the parent's lock as well (S7)
        self._threads = RLock()
        self._owner = None
        self._holder_line = b""


def _holder_line() -> bytes:
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "this machine")
    text = f"process {os.getpid()} ({program[:40]}) on {host[:60]} since {since}"
    return text.encode("ascii", "replace")[: _HOLDER_BYTES - 1].ljust(_HOLDER_BYTES - 1) + b"\n"


_live: WeakSet[FileLock] = WeakSet()


def _after_fork_in_child() -> None:
    for lock in list(_live):
        lock.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
