"""Append lines to one log, and report truthfully what happened to them.

A log is a file of lines and the newline is the commit: a reader stops at the last one, so a crash at any
instruction loses at most the line being written. ``append`` takes the exclusive lock, makes sure that the
descriptor is the file its path names, starts on a fresh line if an earlier writer died inside one, writes
everything at once, syncs, and only then returns.

A return means that the line survives a crash of any process and a loss of power.

Every exception carries an outcome (P8): *not stored*, the file is unchanged; *unknown*, the line may be there
or not. Appending again with the same id is harmless after both (P9): a line with that id among the newest is
found and not written twice, and of older ones readers use the first. The same id with other bytes is refused
with IdConflict.

A failed sync is final for this object (S4). Threads may share one; their appends then share one write and one
sync. After ``fork`` the child opens its own descriptors. Nothing is created before the first append.

This module does not build or check lines, and cannot stop programs that take no lock (S9): it handles what
they append.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from recollect.errors import (
    AppendFailed,
    LogLocked,
    LogUnusable,
    Outcome,
    RecollectError,
    StorageError,
    SyncFailed,
    UsageError,
)
from recollect.store.logs.batch import AppendJob, AppendResult, BatchLayout, BatchLines, RecentIds
from recollect.store.logs.log_file import AppendFile
from recollect.system import fsops
from recollect.system.lock import FileLock

__all__ = ["AppendResult", "Log", "OpenLogs"]


class Log:
    """The writing end of one log. Threads may share it; it is a context manager."""

    def __init__(
        self,
        path: Path,
        *,
        lock_path: Path | None = None,
        lock_timeout: float = 10.0,
    ) -> None:
        self._path = path
        self._closed = False
        self._lock = FileLock(lock_path or path.with_name(path.name + ".lock"), lock_timeout, guards=path)
        self._file = AppendFile(path)
        self._recent = RecentIds(self._file.read)
        # Jobs that wait for the next batch; ``_turn`` is held during a commit.
        self._waiting: list[AppendJob] = []
        self._joining, self._turn = threading.Lock(), threading.Lock()
        _live.add(self)

    def __repr__(self) -> str:
        return f"<Log {self.path}>"

    @property
    def path(self) -> Path:
        """The log file."""
        return self._path

    @property
    def failed(self) -> bool:
        """Whether a sync failed, after which this object takes no more lines."""
        return self._file.sync_failed

    def append(self, line: bytes, entry_id: str | None = None) -> AppendResult:
        """Store one line, given without its newline."""
        return self.append_many([(line, entry_id)])[0]

    def append_many(self, lines: BatchLines) -> list[AppendResult]:
        """Store lines with one write and one sync; all are acknowledged or none."""
        if not lines:
            return []
        job = checked_job(lines)
        self.join([job])
        self.commit([job])
        return self.answer(job)

    def join(self, jobs: Sequence[AppendJob]) -> None:
        """Add jobs to the next batch. Call ``commit`` for them, or ``leave``."""
        with self._joining:
            self._waiting += jobs

    def leave(self, jobs: Sequence[AppendJob]) -> None:
        """Take jobs out of the next batch; those that are being written are not stopped."""
        with self._joining:
            self._waiting = [job for job in self._waiting if job not in jobs]

    def commit(self, jobs: Sequence[AppendJob]) -> None:
        """Commit jobs as one batch, together with those of other threads; then call ``answer`` for each.

        Whoever gets the turn commits for all who wait by then. An interrupt ends only its own thread.
        """
        try:
            with self._turn:
                if any(job.result is None and job.error is None for job in jobs):
                    with self._joining:
                        batch, self._waiting = self._waiting, []
                    if batch:
                        self._commit(batch)
        except BaseException:
            self.leave(jobs)
            raise

    def answer(self, job: AppendJob) -> list[AppendResult]:
        """The result of a job after ``commit``: positions, or the error raised."""
        if job.result is not None:
            return job.result
        error = job.error or self._interrupted(Outcome.NOT_STORED)
        raise error from getattr(error, "cause", None)

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        with self._turn:
            self._closed = True
            self._file.drop()
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _unusable(self) -> str | None:
        if self._file.sync_failed:
            return "an earlier sync failed"
        return "the log is closed" if self._closed else None

    def _commit(self, jobs: list[AppendJob]) -> None:
        """Give every job a result or an error. Only an interrupt leaves here as an exception."""
        if reason := self._unusable():
            _fail_all(jobs, functools.partial(LogUnusable, self._path, reason))
            return
        try:
            self._lock.acquire()
            self._commit_locked(jobs)
        except LogLocked as error:
            _fail_all(jobs, functools.partial(LogLocked, error.log, error.waited, error.holder))
        except SyncFailed as error:
            _fail_all(jobs, functools.partial(SyncFailed, self._path, error.cause or OSError()))
        except StorageError as error:
            self._fail(jobs, error.operation, error.path, error.cause, Outcome.NOT_STORED)
        except OSError as cause:
            self._fail(jobs, "append to", self._path, cause, self._take_back())
        except BaseException:
            outcome = self._take_back()
            self._recent.forget()  # it may know positions of lines that were just removed
            for job in jobs:
                job.error = job.error or self._interrupted(job.outcome(outcome))
            raise
        finally:
            # Not earlier: a write must be removed under the lock (S2). Not in a function of its own: an
            # interrupt could come between the call and its first line.
            released = False
            try:
                self._lock.release()
                released = True
            finally:
                if not released:
                    self._lock.release()

    def _commit_locked(self, jobs: list[AppendJob]) -> None:
        if self._file.follow_path():
            self._recent.forget()
        layout = BatchLayout(self._path, self._recent, self._file.find_end())
        for job in jobs:
            layout.add(job)
        start = self._file.append(layout.payload()) if layout.new else 0
        # Also for a repeat: it may be a line of a writer that died before its sync.
        if self._file.unsynced:
            self._sync()
        layout.settle(start)
        self._file.settle()
        for job in jobs:
            if job.error is None:
                job.succeed()

    def _sync(self) -> None:
        try:
            self._file.sync()
        except OSError as cause:
            # What may never reach the disk must not look stored to the next writer that searches for its id
            # (S4).
            self._file.take_back(durably=False)
            self._file.drop()
            raise SyncFailed(self._path, cause) from cause

    def _take_back(self) -> Outcome:
        outcome = self._file.take_back(durably=True)
        if self._file.sync_failed:
            self._file.drop()
        return outcome

    def _fail(
        self, jobs: list[AppendJob], operation: str, path: Path, cause: OSError | None, outcome: Outcome
    ) -> None:
        hint = fsops.next_step(cause)
        for job in jobs:
            job.error = job.error or AppendFailed(operation, path, cause, job.outcome(outcome), hint=hint)

    def _interrupted(self, outcome: Outcome) -> RecollectError:
        hint = "the thread that wrote for this one was interrupted: append again"
        return AppendFailed("append to", self._path, None, outcome, hint=hint)

    def forget_parent(self) -> None:
        """In a forked child: the descriptor, the queue and pending work belong to the parent."""
        self._file.drop()
        self._file.unsynced = False
        self._recent.forget()
        self._waiting = []
        self._joining, self._turn = threading.Lock(), threading.Lock()


def checked_job(lines: BatchLines) -> AppendJob:
    """A job of these lines, none of which is empty or holds a newline."""
    for line, _ in lines:
        if not line:
            raise UsageError("append: the line is empty", hint="give at least one byte")
        if b"\n" in line:
            raise UsageError("append: the line contains a newline", hint="append each line separately")
    return AppendJob(lines)


def _fail_all(jobs: list[AppendJob], error: Callable[[], RecollectError]) -> None:
    for job in jobs:
        # One exception each: threads that raise the same object would share its traceback.
        job.error = job.error or error()


_live: weakref.WeakSet[Log] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for log in list(_live):
        log.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


# ---- open logs -------------------------------------------------------------------------------------------


class _Closable(Protocol):
    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=_Closable)


class _Place(Generic[Opened]):
    """A log that may be open, how many callers use it, and which file it was at its last use."""

    def __init__(self) -> None:
        self.users = 0
        self.busy = threading.Lock()
        self.log: Opened | None = None
        self.identity: tuple[int, int] | None = None

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        log, self.log = self.log, None
        if log is not None:
            log.close()


class OpenLogs(Generic[Opened]):
    """The most recently written logs, kept open: opening a session's log reads it whole.

    A log is given to one caller at a time; one in use is never closed to make room. The state of an open log is only
    trusted while its path still names the same file.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._places: OrderedDict[Path, _Place[Opened]] = OrderedDict()

    @contextlib.contextmanager
    def using(self, path: Path, opened: Callable[[], Opened]) -> Iterator[Opened]:
        """The log of a path, for one caller at a time. After a failure, or where its file was replaced, it is opened again."""
        place = self._taken(path)
        try:
            with place.busy:
                try:
                    if place.log is not None and fsops.identity_at(str(path)) != place.identity:
                        place.close()
                    if place.log is None:
                        place.log = opened()
                    yield place.log
                    place.identity = fsops.identity_at(str(path))
                except BaseException:
                    place.close()
                    raise
        finally:
            with self._guard:
                place.users -= 1

    def close(self, which: Callable[[Path], bool] = lambda _: True) -> None:
        """Close the logs with these paths, once they are no longer in use."""
        with self._guard:
            chosen = [place for path, place in self._places.items() if which(path)]
        for place in chosen:
            with place.busy:
                place.close()

    def _taken(self, path: Path) -> _Place[Opened]:
        with self._guard:
            place = self._places.pop(path, None) or _Place()
            self._places[path] = place
            place.users += 1
            idle = [path for path, other in self._places.items() if not other.users]
            surplus = [self._places.pop(path) for path in idle[: max(len(self._places) - self._most, 0)]]
        for old in surplus:
            old.close()
        return place
