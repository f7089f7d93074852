"""Jobs that read many files: done here, or in processes (``workers.py``).

A job is a top-level function. It takes a setup and returns a function that turns one task into pieces; it may yield
None while it has no piece yet, so that a deadline is looked at. Setup, tasks and pieces cross a pipe as pickles.

``events`` yields pieces as they arrive and one end for each task, with a problem where the process died or the job raised. ``answers`` is for jobs with one piece a task: the caller repeats a failed task, so that every
answer comes exactly once. Without worker processes (none requested, or none can be started) the caller does all tasks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from recollect.errors import Busy

Run = Callable[[Any], Iterable[Any]]
Job = Callable[[Any], Run]
# Called with what is done and with all there is: in bytes, or in sessions.
ProgressCallback = Callable[[int, int], None]
NEVER = float("inf")


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
        if self.processes > 0 and tasks:
            # Few commands read so much that processes are worth it.
            from recollect.system.workers import Workers

            workers = Workers(self, tasks)
            if workers.processes:
                yield from workers.events()
                return
        if tasks and self.is_isolated:
            raise Busy("no process could be started", hint="try again when the machine is less busy")
        for number, task in enumerate(tasks):
            yield from self.done_here(number, task)

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
                again = self.done_here(event.task, tasks[event.task])
                yield from ((event.task, one.value) for one in again if not one.is_end)

    def done_here(self, number: int, task: Any) -> Iterator[TaskEvent]:
        """A task done by the caller; an error of the job is raised unchanged."""
        if self._run is None:
            self._run = self.job(self.setup)
        for piece in self._run(task):
            if piece is not None:
                yield TaskEvent(number, piece)
            if time.monotonic() > self.deadline:
                raise DeadlinePassed
        yield TaskEvent(number, is_end=True)


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
