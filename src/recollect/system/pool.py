"""One pool of worker processes, for every job that reads many files.

A job is a top-level function. It takes a setup and returns a function that turns one task into pieces.
Setup, tasks and pieces are plain values that ``marshal`` can write; others raise ``Unsendable``. A job may yield None while it has
no piece yet, so that the pool can check the deadline.

``events`` yields pieces as they arrive and one result per task: a ``TaskEnd``, or a ``TaskFailure``
where its process died or its job raised. ``answers`` is for jobs with one piece per task: the caller
repeats a failed task, so that every answer comes exactly once.

Without worker processes (none requested, or none can be started) the caller does all tasks itself:
slower, with the same pieces. This module is light: the code that starts processes is imported when
needed.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from recollect.errors import Busy

Run = Callable[[Any], Iterable[Any]]
Job = Callable[[Any], Run]
NEVER = float("inf")


class TaskPiece(NamedTuple):
    """One piece of a task's result."""

    task: int
    value: Any


class TaskEnd(NamedTuple):
    """A task is done: all of its pieces came before."""

    task: int


class TaskFailure(NamedTuple):
    """A task did not complete. Some of its pieces may have come before."""

    task: int
    why: str


TaskEvent = TaskPiece | TaskEnd | TaskFailure


class DeadlinePassed(Exception):
    """The deadline passed before every task was done. The processes are ended."""


class WorkerPool:
    """How a job is run.

    ``processes``: how many workers, at most one per task. ``takes_part``: the caller does tasks too
    while no piece waits for it. ``ahead``: tasks queued for a worker, so that it is not idle while the
    caller is busy. ``waiting``: pieces that may wait for the caller; further ones block the worker,
    which bounds memory. ``deadline``: a time of ``time.monotonic``. ``is_isolated``: the caller never
    does a task itself, because it could not be stopped. ``may_fork``: a worker may be a copy of the caller,
    which takes no time to start and to import; only for jobs that touch nothing the caller has open.
    """

    def __init__(
        self,
        job: Job,
        setup: Any = None,
        *,
        processes: int,
        takes_part: bool = False,
        ahead: int = 1,
        waiting: int = 8,
        deadline: float = NEVER,
        is_isolated: bool = False,
        may_fork: bool = False,
    ) -> None:
        self.job, self.setup = job, setup
        self.processes, self.takes_part = processes, takes_part
        self.ahead, self.waiting = ahead, waiting
        self.deadline, self.is_isolated, self.may_fork = deadline, is_isolated, may_fork
        self._run: Run | None = None

    def events(self, tasks: Sequence[Any], sizes: Sequence[int] | None = None) -> Iterator[TaskEvent]:
        """The events of all tasks, by task number. With sizes the largest tasks start first."""
        open_tasks = deque(range(len(tasks)) if sizes is None else largest_first(sizes))
        count = min(self.processes, len(tasks) - self.takes_part)
        if count > 0:
            from recollect.system.pool_processes import PoolProcesses

            processes = PoolProcesses(self, tasks, open_tasks, count)
            if processes.are_started:
                yield from processes.events()
            elif self.is_isolated:
                raise Busy("no process could be started", hint="try again when the machine is less busy")
        while open_tasks:
            yield from self.done_here(number := open_tasks.popleft(), tasks[number])

    def answers(self, tasks: Sequence[Any], sizes: Sequence[int] | None = None) -> Iterator[tuple[int, Any]]:
        """The one piece of each task, with the task's number. Failed tasks are repeated here, and may
        raise."""
        held: dict[int, Any] = {}
        for event in self.events(tasks, sizes):
            if isinstance(event, TaskPiece):
                held[event.task] = event.value
            elif isinstance(event, TaskEnd):
                if event.task in held:
                    yield event.task, held.pop(event.task)
            else:
                held.pop(event.task, None)
                for again in self.done_here(event.task, tasks[event.task]):
                    if isinstance(again, TaskPiece):
                        yield event.task, again.value

    def done_here(self, number: int, task: Any) -> Iterator[TaskEvent]:
        """A task done by the caller; an error of the job is raised unchanged."""
        if self._run is None:
            self._run = self.job(self.setup)
        for piece in self._run(task):
            if piece is not None:
                yield TaskPiece(number, piece)
            if time.monotonic() > self.deadline:
                raise DeadlinePassed
        yield TaskEnd(number)


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
