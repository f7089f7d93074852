"""Update the index: compare with the homes, read what is new, remove what is gone.

Every query refreshes first. If nothing changed, that costs one pass over the homes. A first build
reads in other processes and writes in this one. It commits as it goes, so the next process completes
an index whose build was killed. Large ones go from the newest logs to the oldest in a few batches, so that
a question about recent work is answered before old logs are read. The rows of each batch are numbered below those
of the one before: text rows are nearly in the order of time, which lets a search for the newest hits stop early.
"""

from __future__ import annotations

import datetime as dt
import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct

from recollect.agents.homes import refresh_mirror
from recollect.index import catalogue
from recollect.index.comparison import HomeChanges, compare, take_note
from recollect.index.database import MAPPED_BYTES, IndexDatabase
from recollect.index.extraction import ExtractionJob, NumberedFrame, is_continued, numbered_frames
from recollect.index.frame import Frame, ScannedLog
from recollect.index.ingest import Ingest
from recollect.index.schema import AGENT, SESSION, TOOL_OUTPUT
from recollect.system.pool import ProgressCallback, Run, WorkerPool, bundles, cores

# Below this size, starting a process takes longer than reading here.
_WORTH_A_PROCESS = 24 << 20
_BULK_COMMIT = 96 << 20
_BULK_HASH, _BULK_RECALL_HASH = 32 << 20, 8 << 20
# FTS5 merges a level with so many segments at once, however large they are. A bulk load has FTS5's own number; later
# refreshes merge in small steps (`automerge`), before any level has the second number.
_BULK_SEGMENTS, _SEGMENTS = 16, 64
# Bytes of logs in a bundle, and in what is sent at once.
_BUNDLE, _PIECE = 4 << 20, 1 << 20
# What waits for the writer while it commits, about a megabyte of text each.
_WAITING = 12
# Bytes of logs in the first batches of a first build, and in all others.
_FIRST_BATCHES, _BATCH = (8 << 20, 48 << 20), 256 << 20
# Room in the numbers of a batch: lines are ten times as long on the average.
_LEAST_LINE, _SPARE_LINES = 256, 64


class _IndexedLog(Struct, frozen=True):
    id: int
    device: int
    inode: int
    size: int
    mtime: int
    consumed: int
    head: bytes | None
    tail: bytes | None
    role: int
    gone: int


class _IndexingWork(Struct, frozen=True):
    file: int
    log: ScannedLog
    job: ExtractionJob


class FirstNeed(Struct, frozen=True):
    """How much of a first build an answer waits for: the logs that changed since a time, and what fits into some seconds."""

    since: dt.datetime | None = None
    seconds: float = 2.0

    def is_met(self, oldest_ns: int, begun: float, share: float) -> bool:
        """Whether to stop: what is left is older, and would take longer. ``share``: how much more than so far comes next."""
        if self.since is not None and oldest_ns >= self.since.timestamp() * 1e9:
            return False
        return (time.monotonic() - begun) * (1 + share) > self.seconds


class RefreshResult(Struct, frozen=True):
    """What a refresh read and removed."""

    logs: int
    read: int
    bytes: int
    gone: int
    problems: list[tuple[str, str]]


def refresh(
    index: IndexDatabase,
    homes: Sequence[Path],
    progress: ProgressCallback | None = None,
    archive: Path | None = None,
    need: FirstNeed | None = None,
) -> RefreshResult:
    """Update the index from the homes it was opened for, and from their archived sessions.

    Mirrors of other agents' homes are brought up to date first. With ``need`` a first build may stop before its end.
    """
    begun = time.monotonic()
    for home in homes:
        refresh_mirror(home)
    changes = compare(index, homes, archive)
    work: list[_IndexingWork] = []
    is_whole = True
    if changes.changed or changes.gone:
        work = sorted(_settle(index, changes), key=lambda item: item.log.mtime)
        is_whole = _Reading(index, work, progress, changes.problems).read(need, begun)
    if index.meta("complete") is None and is_whole:
        with index.transaction():
            index.set_meta("complete", 1)
        index.settle()
    if is_whole:
        take_note(index, changes.note)
    if work:
        index.shorten_log()
    size = sum(item.log.size - item.job.start for item in work)
    return RefreshResult(changes.logs, len(work), size, len(changes.gone), changes.problems)


def _known(index: IndexDatabase, path: str) -> _IndexedLog | None:
    rows = index.rows(
        "SELECT id, device, inode, size, mtime, consumed, head, tail, role, gone FROM files WHERE path = ?",
        path,
    )
    return _IndexedLog(*rows[0]) if rows else None  # type: ignore[arg-type]


def _settle(index: IndexDatabase, changes: HomeChanges) -> list[_IndexingWork]:
    """Match changed logs with known ones; returns what is to be read."""
    ingest = Ingest(index)
    missing = [row for path in changes.gone if (row := _known(index, path)) is not None]
    known = {log.path: _known(index, log.path) for log in changes.changed}
    by_inode = {(row.device, row.inode): row for row in missing if row.inode}
    work = []
    with ingest.transaction():
        moved: set[int] = set()
        for log in changes.changed:
            row = known[log.path]
            if row is None or row.gone:
                before = by_inode.get((log.device, log.inode))
                if before is not None and before.id not in moved and _is_same(before, log):
                    if row is not None:
                        ingest.drop(row.id)
                    moved.add(before.id)
                    ingest.moved(before.id, log)
                    row = before
            if row is None:
                file = ingest.add_file(log)
                work.append(_IndexingWork(file, log, _job(index, file, log, 0)))
                continue
            # In the flat layout only the lines say whose agent a log is, so a log that moved there is read again.
            is_told_by_lines = row.id in moved and log.role == AGENT and log.session is None
            start = row.consumed if _is_grown(row, log) and not is_told_by_lines else 0
            if not start:
                ingest.forget(row.id)
            ingest.seen(row.id, log)
            work.append(_IndexingWork(row.id, log, _job(index, row.id, log, start)))
        for row in missing:
            if row.id in moved:
                continue
            if row.role == TOOL_OUTPUT:
                ingest.drop(row.id)
            else:
                ingest.forget(row.id, keep_usage=True)
    return work


def _job(index: IndexDatabase, file: int, log: ScannedLog, start: int) -> ExtractionJob:
    job = ExtractionJob(log.path, start, log.role == TOOL_OUTPUT, log.role == SESSION)
    known = catalogue.known(index, file) if start else None
    if known is None:
        return job
    prompts, begins_aside, count = known
    return job._replace(prompts=prompts, begins_aside=begins_aside, message_count=count)


def _is_same(before: _IndexedLog, log: ScannedLog) -> bool:
    return (
        before.role == log.role
        and bool(before.head)
        and log.size >= before.consumed
        and _is_continued(before, log)
    )


def _is_grown(row: _IndexedLog, log: ScannedLog) -> bool:
    """Whether the log only grew. A log of the same size with another time may hold other bytes."""
    if row.role == TOOL_OUTPUT or row.gone or not row.consumed or row.inode != log.inode:
        return False
    seen_at = row.mtime if row.mtime >= 0 else ~row.mtime
    if log.size <= row.size and log.mtime != seen_at:
        return False
    return _is_continued(row, log)


def _is_continued(row: _IndexedLog, log: ScannedLog) -> bool:
    return is_continued(log.path, row.consumed, row.head or b"", row.tail or b"")


def unread_logs(index: IndexDatabase, role: int | None = None) -> list[str]:
    """The logs that a first build has not read yet."""
    rows = index.rows(
        "SELECT path FROM files WHERE mtime < 0 AND NOT gone AND role = coalesce(?, role)", role
    )
    return [cast("str", path) for (path,) in rows]


class _Reading:
    """Stores the frames of logs as they come.

    A log that could not be read is not marked as read, so it is tried again.
    """

    def __init__(
        self,
        index: IndexDatabase,
        work: list[_IndexingWork],
        progress: ProgressCallback | None,
        problems: list[tuple[str, str]],
    ) -> None:
        self._index, self._work = index, work
        self._progress, self._problems = progress, problems
        self._ingest = Ingest(index)
        self._done, self._total = 0, _size(work)
        self._is_bulk = self._total > _WORTH_A_PROCESS

    def read(self, need: FirstNeed | None, begun: float) -> bool:
        """Whether everything was read; not where a first build stopped because the ``need`` is met."""
        index = self._index
        if self._is_bulk:
            _tune(index, bulk=True)
        elif index.value("SELECT v FROM texts_config WHERE k = 'automerge'") == 0:
            _tune(index, bulk=False)  # a killed bulk load leaves this setting
        is_first = self._is_bulk and index.meta("complete") is None
        batches = [*_batches(self._work)] if is_first else [self._work]
        rooms = [_size(batch) // _LEAST_LINE + _SPARE_LINES * len(batch) for batch in batches]
        is_whole = True
        for number, batch in enumerate(batches):
            if number and need is not None:
                is_whole = not need.is_met(batch[-1].log.mtime, begun, _size(batch) / max(self._done, 1))
            if not is_whole:
                break
            if is_first:
                self._ingest.place_before(rooms[number], sum(rooms[number + 1 :]))
            self._read_batch(batch, is_last=number == len(batches) - 1)
        if self._is_bulk:
            _tune(index, bulk=False)
        return is_whole

    def _read_batch(self, work: list[_IndexingWork], *, is_last: bool) -> None:
        jobs, sizes = [item.job for item in work], [_size([item]) for item in work]
        frames = frames_of(jobs, sizes, processes=None if sum(sizes) > _WORTH_A_PROCESS else 0)
        commits = 0
        unread: set[int] = set()
        at_end = False
        while not at_end:
            # Two short ones first: see `_lift`.
            limit = self._done + (_BULK_COMMIT >> 6 if self._is_bulk and commits < 2 else _BULK_COMMIT)
            with self._ingest.transaction():
                at_end = True
                for number, frame in frames:
                    size = _store(self._ingest, work[number], frame, unread, self._problems)
                    self._done += size
                    if size and self._progress is not None:
                        self._progress(self._done, self._total)
                    if self._done >= limit:
                        at_end = False
                        break
            commits += 1
            if self._is_bulk:
                _lift(self._index, at_end=at_end and is_last)


def _batches(work: list[_IndexingWork]) -> Iterator[list[_IndexingWork]]:
    """The newest logs first; in a batch the oldest."""
    sizes = itertools.chain(_FIRST_BATCHES, itertools.repeat(_BATCH))
    batch: list[_IndexingWork] = []
    held, most = 0, next(sizes)
    for item in reversed(work):
        batch.append(item)
        held += _size([item])
        if held >= most:
            yield batch[::-1]
            batch, held, most = [], 0, next(sizes)
    if batch:
        yield batch[::-1]


def _size(work: Sequence[_IndexingWork]) -> int:
    return sum(max(item.log.size - item.job.start, 0) for item in work)


def _store(
    ingest: Ingest,
    item: _IndexingWork,
    frame: Frame | None,
    unread: set[int],
    problems: list[tuple[str, str]],
) -> int:
    """Store a frame, or note that there are no more; returns the bytes of log it covers."""
    if frame is None:
        if item.file not in unread:
            ingest.finished(item.file, item.log)
        return 0
    if frame.problem is not None:
        unread.add(item.file)
        if frame.problem:
            problems.append((item.log.path, frame.problem))
        return 0
    ingest.apply(item.file, frame)
    return frame.end - frame.start


def _lift(index: IndexDatabase, *, at_end: bool) -> None:
    """Move the large segments of a bulk load out of the level where the small ones of later refreshes arrive.

    Else one of the next refreshes would fill that level, and rewrite all words for one new line. FTS5 moves segments (a
    negative number) only if they are on more than one level, so a merge is begun after each commit, and goes on by a page.
    """
    for table in ("texts", "recall"):
        merged_pages = -1 if at_end else 1
        index.connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('merge', ?)", (merged_pages,))


def _tune(index: IndexDatabase, *, bulk: bool) -> None:
    """A bulk load collects words in memory; they are hardly merged."""
    run = index.connection.execute
    # A writer that visits the whole file would count all of it as its own memory.
    run(f"PRAGMA mmap_size = {0 if bulk else MAPPED_BYTES}")
    for table, hash_bytes in (("texts", _BULK_HASH), ("recall", _BULK_RECALL_HASH)):
        size = hash_bytes if bulk else 1 << 20
        run(f"INSERT INTO {table}({table}, rank) VALUES('hashsize', ?)", (size,))
        run(f"INSERT INTO {table}({table}, rank) VALUES('automerge', ?)", (0 if bulk else 4,))
        segments = _BULK_SEGMENTS if bulk else _SEGMENTS
        run(f"INSERT INTO {table}({table}, rank) VALUES('crisismerge', ?)", (segments,))
        run(f"INSERT INTO {table}({table}, rank) VALUES('usermerge', 2)")
    if not bulk:
        # Do not merge the few large segments: it costs a tenth of the build and makes search
        # hardly faster. `recollect data index vacuum` does it.
        index.settle()


# --- reading in other processes ------------------------------------------------------------------------


def extraction_job(_: None) -> Run:
    """A job of ``system.pool``: the frames of some logs, those of small logs together."""
    return _frames_together


def _frames_together(jobs: Sequence[tuple[int, ExtractionJob]]) -> Iterator[list[NumberedFrame]]:
    held: list[NumberedFrame] = []
    size = 0
    for number, job in jobs:
        for item in numbered_frames(number, job):
            held.append(item)
            size += 0 if item[1] is None else item[1].end - item[1].start
            if size >= _PIECE:
                yield held
                held, size = [], 0
    yield held


def frames_of(
    jobs: Sequence[ExtractionJob], sizes: Sequence[int], *, processes: int | None = None
) -> Iterator[NumberedFrame]:
    """The frames of all jobs in the order they arrive, given the bytes of log that each has to read."""
    # One core is left for the writer, which is the slower half.
    count = cores() - 1 if processes is None else processes
    tasks = [
        [(number, jobs[number]) for number in bundle] for bundle in bundles(range(len(jobs)), sizes, _BUNDLE)
    ]
    pool = WorkerPool(extraction_job, processes=count, waiting=_WAITING)
    for event in pool.events(tasks):
        if not event.is_end:
            yield from event.value
        elif event.problem is not None:
            # From the start: frames that were already applied are refused.
            for number, job in tasks[event.task]:
                yield from numbered_frames(number, job)
