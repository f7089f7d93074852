"""Worker processes for jobs that read many files.

A job is a top-level function. It takes a setup and returns a function that turns one task into pieces; it may yield
None while it has no piece yet, so that a deadline is looked at. Setup, tasks and pieces cross a pipe as pickles.

``events`` yields pieces as they arrive and one end for each task, with a problem where the process died or the job raised. ``answers`` is for jobs with one piece a task: the caller repeats a failed task, so that every
answer comes exactly once. Without worker processes (none requested, or none can be started) the caller does all tasks.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple, cast

from recollect.errors import Busy

Run = Callable[[Any], Iterable[Any]]
Job = Callable[[Any], Run]
# Called with what is done and with all there is: in bytes, or in sessions.
ProgressCallback = Callable[[int, int], None]
NEVER = float("inf")
# -P: the current directory may hold a package of our name, which must not be run.
_PROGRAM = ("-P", "-c", "from recollect.system.pool import work; work()")
# A worker that holds its interpreter (a pattern that never ends) does not notice that the caller is gone: the system
# kills it, this long after the deadline.
_GRACE_SECONDS = 3.0
_LONGEST_WAIT = 1e6  # the timeouts of locks have a maximum


class TaskEvent(NamedTuple):
    """One piece of a task's result, or its end. With a ``problem`` it did not complete, and pieces of it may have come before."""

    task: int
    value: Any = None
    is_end: bool = False
    problem: str | None = None


class DeadlinePassed(Exception):
    """The deadline passed before every task was done. The processes are ended."""


class WorkerPool:
    """How a job is run.

    ``waiting`` pieces wait for the caller; further ones block the workers, which bounds memory. ``deadline`` is a time of
    ``time.monotonic``. With ``is_isolated`` the caller never does a task itself, because it could not be stopped.
    """

    def __init__(
        self,
        job: Job,
        setup: Any = None,
        *,
        processes: int,
        waiting: int = 8,
        deadline: float = NEVER,
        is_isolated: bool = False,
    ) -> None:
        self.job, self.setup, self.processes = job, setup, processes
        self.waiting, self.deadline, self.is_isolated = waiting, deadline, is_isolated
        self._run: Run | None = None

    def events(self, tasks: Sequence[Any]) -> Iterator[TaskEvent]:
        """The events of all tasks, by task number. No worker is left when this ends, for any reason."""
        open_tasks = deque(range(len(tasks)))
        workers: list[subprocess.Popen[bytes]] = []
        with contextlib.suppress(OSError):  # those that could be started share the tasks
            while len(workers) < min(self.processes, len(tasks)):
                workers.append(_started())
        if workers:
            yield from self._events(workers, tasks, open_tasks)
        elif tasks and self.is_isolated:
            raise Busy("no process could be started", hint="try again when the machine is less busy")
        else:
            for number in open_tasks:
                yield from self._done_here(number, tasks[number])

    def answers(self, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """The one piece of each task, with the task's number. Failed tasks are repeated here, and may raise."""
        pieces: dict[int, Any] = {}
        for event in self.events(tasks):
            if not event.is_end:
                pieces[event.task] = event.value
            elif event.problem is None:
                if event.task in pieces:
                    yield event.task, pieces.pop(event.task)
            else:
                pieces.pop(event.task, None)
                again = self._done_here(event.task, tasks[event.task])
                yield from ((event.task, one.value) for one in again if not one.is_end)

    def _done_here(self, number: int, task: Any) -> Iterator[TaskEvent]:
        """A task done by the caller; an error of the job is raised unchanged."""
        if self._run is None:
            self._run = self.job(self.setup)
        for piece in self._run(task):
            if piece is not None:
                yield TaskEvent(number, piece)
            if time.monotonic() > self.deadline:
                raise DeadlinePassed
        yield TaskEvent(number, is_end=True)

    def _events(
        self, workers: list[subprocess.Popen[bytes]], tasks: Sequence[Any], open_tasks: deque[int]
    ) -> Iterator[TaskEvent]:
        news: queue.Queue[TaskEvent | None] = queue.Queue(self.waiting)  # None: a worker is done
        threads = [
            threading.Thread(target=self._serve, args=(worker, tasks, open_tasks, news), daemon=True)
            for worker in workers
        ]
        for thread in threads:
            thread.start()
        try:
            at_work = len(threads)
            while at_work:
                event = self._awaited(news)
                if event is None:
                    at_work -= 1
                else:
                    yield event
            for number in open_tasks:
                yield TaskEvent(number, is_end=True, problem="no process was left to run it")
        finally:
            open_tasks.clear()
            for worker in workers:
                worker.kill()
            while any(thread.is_alive() for thread in threads):
                with contextlib.suppress(queue.Empty):  # a thread may wait for room
                    news.get(timeout=0.01)
            for worker in workers:
                for stream in (worker.stdin, worker.stdout):
                    with contextlib.suppress(OSError):  # unsent data is useless now
                        cast("IO[bytes]", stream).close()
                worker.wait()

    def _awaited(self, news: queue.Queue[TaskEvent | None]) -> TaskEvent | None:
        try:
            return news.get(timeout=self._seconds_left())
        except queue.Empty:
            raise DeadlinePassed from None

    def _seconds_left(self) -> float:
        return min(max(self.deadline - time.monotonic(), 0.0), _LONGEST_WAIT)

    def _serve(
        self,
        worker: subprocess.Popen[bytes],
        tasks: Sequence[Any],
        open_tasks: deque[int],
        news: queue.Queue[TaskEvent | None],
    ) -> None:
        """Give one worker tasks, until there are none or it has ended."""
        to, back = cast("IO[bytes]", worker.stdin), cast("IO[bytes]", worker.stdout)
        number = None
        try:
            _send(to, (self.job, self.setup, None if self.deadline == NEVER else self._seconds_left()))
            while open_tasks:  # where another thread takes the last one first, this one ends
                number = open_tasks.popleft()
                _send(to, tasks[number])
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


def cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def largest_first(sizes: Sequence[int]) -> list[int]:
    """Indexes by falling size, so that the last tasks to end are small."""
    return sorted(range(len(sizes)), key=lambda number: -sizes[number])


def bundles(numbers: Iterable[int], sizes: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Groups of neighbours up to a size: one message per small file would cost more than the file."""
    bundle: list[int] = []
    size = 0
    for number in numbers:
        bundle.append(number)
        size += sizes[number]
        if size >= limit:
            yield bundle
            bundle, size = [], 0
    if bundle:
        yield bundle
