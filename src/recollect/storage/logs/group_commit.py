"""Group commit: callers that arrive while a commit runs share the next one.

A sync costs a few hundred microseconds for any number of lines (S13). So callers join the open batch. The
first to join leads it: it waits for the previous batch to end, closes its own and commits it. The others wait
only for their leader.

A lone caller pays for two uncontended locks. This module does not know what a commit does; the outcome is
stored in the job.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Job = TypeVar("Job")


class _CommitBatch(Generic[Job]):
    __slots__ = ("done", "jobs", "leader")

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.leader: object | None = None
        # Held until the batch ends; created when the first follower waits.
        self.done: threading.Lock | None = None


class GroupCommit(Generic[Job]):
    """Collects jobs of many threads into batches, which are committed one at a time.

    ``between_batches`` is held during a commit: take it for work that must not overlap with one.
    """

    def __init__(self) -> None:
        self._joining = threading.Lock()
        self.between_batches = threading.Lock()
        self._open: _CommitBatch[Job] = _CommitBatch()

    def run(self, jobs: Iterable[Job], commit: Callable[[list[Job]], None]) -> None:
        """Return when a commit with these jobs has ended; the commit must mark each job.

        An interrupt ends only its leader: the followers return, possibly with unmarked jobs.
        """
        me = object()
        batch: _CommitBatch[Job] | None = None
        try:
            with self._joining:
                batch = self._open
                self._join(batch, jobs, me)
            if batch.leader is me:
                with self.between_batches:
                    self._close(batch)
                    commit(batch.jobs)
            else:
                self._wait(batch)
        finally:
            # Repeat if an interrupt ended it half way: followers of a dead leader would wait for ever.
            ended = False
            try:
                self._end(batch, me)
                ended = True
            finally:
                if not ended:
                    self._end(batch, me)

    def _join(self, batch: _CommitBatch[Job], jobs: Iterable[Job], me: object) -> None:
        batch.jobs.extend(jobs)
        if batch.leader is None:
            batch.leader = me
        elif batch.done is None:
            done = threading.Lock()
            done.acquire()
            batch.done = done

    def _close(self, batch: _CommitBatch[Job]) -> None:
        with self._joining:
            if self._open is batch:
                self._open = _CommitBatch()

    def _wait(self, batch: _CommitBatch[Job]) -> None:
        # One statement that takes and releases: an interrupt between two would block the other followers.
        with contextlib.suppress(RuntimeError), batch.done or contextlib.nullcontext():
            pass

    def _end(self, batch: _CommitBatch[Job] | None, me: object) -> None:
        if batch is None or batch.leader is not me:
            return
        if self._open is batch:
            self._close(batch)
        if batch.done is not None:
            # Released more than once, by design: later callers find it free, and nothing else happens.
            with contextlib.suppress(RuntimeError):
                batch.done.release()
