"""A worker of a pool that is a copy of this process: it starts in a millisecond, with all that was imported.

A copy has only the thread that made it, and locks that other threads held are never released in it. So it is made
only where the system says that there are no other threads, those of libraries included; where it does not say, a
new process is started. A copy works with its two pipes alone: whatever else was open is closed in it, so that it
ends with its caller, and it never returns.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import IO, NoReturn

_THREADS, _OPEN_FILES = "/proc/self/task", "/proc/self/fd"


class ForkedWorker:
    """A copy at work, with what ``subprocess.Popen`` has and a pool needs."""

    def __init__(self, pid: int, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._pid: int | None = pid
        self.stdin, self.stdout = stdin, stdout

    def kill(self) -> None:
        """End it. Until it was waited for, its number is no other process's."""
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until it has ended."""
        if self._pid is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._pid = None


def forked() -> ForkedWorker | None:
    """A copy of this process that does the tasks of a pool; None where none can be made safely."""
    if not _has_one_thread():
        return None
    # Ctrl-C waits: a copy that is not yet at work would go the caller's way out as well.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return _forked()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forked() -> ForkedWorker | None:
    tasks, to_worker = os.pipe()
    from_worker, answers = os.pipe()
    try:
        pid = os.fork()
    except OSError:
        for pipe in (tasks, to_worker, from_worker, answers):
            os.close(pipe)
        return None
    if pid == 0:
        _work(tasks, answers)
    os.close(tasks)
    os.close(answers)
    return ForkedWorker(pid, os.fdopen(to_worker, "wb"), os.fdopen(from_worker, "rb"))


def _has_one_thread() -> bool:
    try:
        return len(os.listdir(_THREADS)) == 1  # noqa: PTH208 - no path is needed
    except OSError:
        return False


def _work(tasks: int, answers: int) -> NoReturn:
    from recollect.system.pool_worker import main

    try:
        os.setpgid(0, 0)
        os.dup2(tasks, 0)
        os.dup2(answers, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for name in os.listdir(_OPEN_FILES):  # noqa: PTH208
            if int(name) > 2:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        main(os.fdopen(0, "rb"))
    finally:
        # Not the way out of the caller: what it has still to write and to undo is its own.
        os._exit(1)
