"""The processes of a pool, each served by a thread of ours.

A worker gets its tasks on stdin and answers on stdout (``system.pool_worker``). It has its own process
group, so Ctrl-C reaches only the caller, which ends the workers. It exits when its stdin ends, so it
cannot outlive the caller.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, cast

from recollect.system.pool import NEVER, DeadlinePassed, TaskEnd, TaskEvent, TaskFailure, TaskPiece
from recollect.system.pool_fork import forked
from recollect.system.pool_worker import Unsendable, receive, send

if TYPE_CHECKING:
    from recollect.system.pool import WorkerPool
    from recollect.system.pool_fork import ForkedWorker

    _Worker = subprocess.Popen[bytes] | ForkedWorker

# -c rather than -m: runpy takes a few milliseconds. -P: the current directory may hold a package of our name,
# which must not be run.
_PROGRAM = ("-P", "-c", "from recollect.system.pool_worker import main; main()")
# A large piece in one or two reads: after every read a thread waits for the interpreter.
_PIPE_BYTES = 1 << 20
# The longest single wait: lock timeouts have a maximum.
_LONGEST_WAIT = 1e6
# Something may have printed to our pipe before the worker could prevent it: then its output is unreadable.
_UNREADABLE = (OSError, ValueError, EOFError, TypeError, OverflowError, MemoryError)


class PoolProcesses:
    """The workers of one pool."""

    def __init__(self, pool: WorkerPool, tasks: Sequence[Any], open_tasks: deque[int], count: int) -> None:
        self._pool, self._tasks, self._open_tasks = pool, tasks, open_tasks
        self._news: queue.SimpleQueue[TaskEvent | None] = queue.SimpleQueue()  # None: a worker is done
        self._room = threading.Semaphore(pool.waiting)
        self._is_over = False
        self._mistake: Unsendable | None = None
        self._workers: list[_Worker] = []
        # The workers that did start share the tasks.
        with contextlib.suppress(OSError):
            while len(self._workers) < count:
                self._workers.append((pool.may_fork and forked()) or _started())
        self._threads = [
            threading.Thread(target=self._serve, args=(worker,), daemon=True) for worker in self._workers
        ]

    @property
    def are_started(self) -> bool:
        """Whether any worker was started."""
        return bool(self._workers)

    def events(self) -> Iterator[TaskEvent]:
        """The events of all tasks. No worker is left when this ends, for any reason."""
        try:
            for thread in self._threads:
                thread.start()
            at_work = len(self._threads)
            while at_work:
                if self._pool.takes_part and self._news.empty() and (number := self._next()) is not None:
                    yield from self._pool.done_here(number, self._tasks[number])
                    continue
                event = self._awaited()
                if event is None:
                    at_work -= 1
                    # The caller could do such a task itself: slowly, and no one would know why.
                    if self._mistake is not None:
                        raise self._mistake
                else:
                    self._room.release()
                    yield event
            # Tasks that a dying worker returned after every other one had ended.
            while not self._pool.takes_part and (number := self._next()) is not None:
                yield TaskFailure(number, "no process was left to run it")
        finally:
            self._end()

    def _awaited(self) -> TaskEvent | None:
        if self._pool.deadline == NEVER:
            return self._news.get()
        try:
            return self._news.get(timeout=self._seconds_left())
        except queue.Empty:
            raise DeadlinePassed from None

    def _seconds_left(self) -> float:
        return min(max(self._pool.deadline - time.monotonic(), 0.0), _LONGEST_WAIT)

    def _next(self) -> int | None:
        try:
            return self._open_tasks.popleft()
        except IndexError:
            return None

    def _serve(self, worker: _Worker) -> None:
        """Send tasks and receive pieces, until there are no tasks or the worker has ended."""
        mine: deque[int] = deque()
        try:
            with contextlib.suppress(*_UNREADABLE):
                self._converse(worker, mine)
        except Unsendable as mistake:
            self._mistake = mistake
            mine.clear()
        finally:
            if mine:
                number = mine.popleft()
                # It had not started the others.
                self._open_tasks.extendleft(reversed(mine))
                self._tell(TaskFailure(number, "its process ended early"))
            self._news.put(None)

    def _converse(self, worker: _Worker, mine: deque[int]) -> None:
        to, back = cast("IO[bytes]", worker.stdin), cast("IO[bytes]", worker.stdout)
        job, seconds = self._pool.job, None if self._pool.deadline == NEVER else self._seconds_left()
        send(to, (job.__module__, job.__name__, self._pool.setup, seconds))
        while not self._is_over:
            while len(mine) < self._pool.ahead and (number := self._next()) is not None:
                mine.append(number)
                send(to, self._tasks[number])
            if not mine:
                return
            kind, *rest = receive(back)
            if kind == "unsendable":
                raise Unsendable(*rest)
            if kind == "piece":
                self._tell(TaskPiece(mine[0], *rest))
            else:
                number = mine.popleft()
                self._tell(TaskFailure(number, *rest) if rest else TaskEnd(number))

    def _tell(self, event: TaskEvent) -> None:
        self._room.acquire()
        self._news.put(event)

    def _end(self) -> None:
        self._is_over = True
        for worker in self._workers:
            worker.kill()
            worker.wait()
        # Each thread may need room twice: for its last piece and for its failure.
        self._room.release(2 * len(self._threads))
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        for worker in self._workers:
            for stream in (worker.stdin, worker.stdout):
                # Unsent data is useless once the process has ended.
                with contextlib.suppress(OSError):
                    cast("IO[bytes]", stream).close()


def _started() -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise FileNotFoundError("no interpreter to start")
    worker = subprocess.Popen(
        [sys.executable, *_PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    _widen(cast("IO[bytes]", worker.stdout))
    return worker


def _widen(pipe: IO[bytes]) -> None:
    # The system limits the pages used by pipes; a smaller pipe works too.
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
