"""The processes of a pool (``pool.py``), and what runs in them.

Not ``concurrent.futures``: its workers run the main script of a program again, or copy a process with all its threads,
and a task's result comes whole, however large. A worker here is a fresh interpreter in a process group of its own
(Ctrl-C reaches only the caller) and ends with its stdin, so it cannot outlive the caller.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import IO, Any, cast

from recollect.system.pool import NEVER, DeadlinePassed, TaskEvent, WorkerPool

# -P: the current directory may hold a package of our name, which must not be run.
_PROGRAM = ("-P", "-c", "from recollect.system.workers import work; work()")
# A worker that holds its interpreter (a pattern that never ends) does not notice that the caller is gone: the system
# kills it, this long after the deadline.
_GRACE_SECONDS = 3.0
_LONGEST_WAIT = 1e6  # the timeouts of locks have a maximum


class Workers:
    """The processes that share some tasks: those that could be started."""

    def __init__(self, pool: WorkerPool, tasks: Sequence[Any]) -> None:
        self._pool, self._tasks = pool, tasks
        self._open = deque(range(len(tasks)))
        self._news: queue.Queue[TaskEvent | None] = queue.Queue(pool.waiting)  # None: a process is done
        self.processes: list[subprocess.Popen[bytes]] = []
        with contextlib.suppress(OSError):
            while len(self.processes) < min(pool.processes, len(tasks)):
                self.processes.append(_started())

    def events(self) -> Iterator[TaskEvent]:
        """The events of all tasks, by task number. No process is left when this ends, for any reason."""
        news = self._news
        threads = [
            threading.Thread(target=self._serve, args=(worker,), daemon=True) for worker in self.processes
        ]
        for thread in threads:
            thread.start()
        try:
            at_work = len(threads)
            while at_work:
                event = self._awaited()
                if event is None:
                    at_work -= 1
                else:
                    yield event
            for number in self._open:
                yield TaskEvent(number, is_end=True, problem="no process was left to run it")
        finally:
            self._open.clear()
            for worker in self.processes:
                worker.kill()
            while any(thread.is_alive() for thread in threads):
                with contextlib.suppress(queue.Empty):  # a thread may wait for room
                    news.get(timeout=0.01)
            for worker in self.processes:
                for stream in (worker.stdin, worker.stdout):
                    with contextlib.suppress(OSError):  # unsent data is useless now
                        cast("IO[bytes]", stream).close()
                worker.wait()

    def _awaited(self) -> TaskEvent | None:
        try:
            return self._news.get(timeout=self._seconds_left())
        except queue.Empty:
            raise DeadlinePassed from None

    def _seconds_left(self) -> float:
        return min(max(self._pool.deadline - time.monotonic(), 0.0), _LONGEST_WAIT)

    def _serve(self, worker: subprocess.Popen[bytes]) -> None:
        """Give one worker tasks, until there are none or it has ended."""
        pool, news = self._pool, self._news
        to, back = cast("IO[bytes]", worker.stdin), cast("IO[bytes]", worker.stdout)
        number = None
        try:
            _send(to, (pool.job, pool.setup, None if pool.deadline == NEVER else self._seconds_left()))
            while self._open:  # where another thread takes the last one first, this one ends
                number = self._open.popleft()
                _send(to, self._tasks[number])
                while len(answer := pickle.load(back)) == 1:  # noqa: S301 - written by our own process
                    news.put(TaskEvent(number, *answer))
                news.put(TaskEvent(number, is_end=True, problem=answer[1]))
                number = None
        except Exception:  # noqa: BLE001 - whatever it is: this worker is of no use
            if number is not None:
                news.put(TaskEvent(number, is_end=True, problem="its process ended early"))
        finally:
            worker.kill()
            news.put(None)


def _started() -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise FileNotFoundError("no interpreter to start")
    return subprocess.Popen(
        [sys.executable, *_PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )


def _send(stream: IO[bytes], value: Any) -> None:
    stream.write(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    stream.flush()


def work() -> None:
    """Run in a worker: do the tasks that come on stdin, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a job prints is no answer
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(messages,), daemon=True).start()
    job, setup, seconds = messages.get()
    if seconds is not None and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)
    run = job(setup)
    while True:
        task = messages.get()
        why = None
        try:
            for piece in run(task):
                if piece is not None:
                    _send(answers, (piece,))
        except BrokenPipeError:
            os._exit(0)
        except Exception as problem:  # noqa: BLE001 - reported, and then it is the caller's
            why = f"{type(problem).__name__}: {problem}"
        _send(answers, ("", why))


def _listen(messages: queue.SimpleQueue[Any]) -> None:
    """In a thread of its own, which notices in the middle of a task that the caller is gone."""
    with contextlib.suppress(EOFError):
        while True:
            messages.put(pickle.load(sys.stdin.buffer))  # noqa: S301 - written by the caller
    os._exit(0)
