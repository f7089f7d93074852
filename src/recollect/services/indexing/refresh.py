"""Update the index: compare with the homes, read what is new, remove what is gone.

Every query refreshes first. If nothing changed, that costs one pass over the homes. A first build
reads in other processes and writes in this one. It commits as it goes, so the next process completes
an index whose build was killed. Logs are read in the order of their last change, so text rows are
nearly in the order of time: that lets a search for the newest hits stop early.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from recollect.index.database import MAPPED_BYTES, IndexDatabase
from recollect.index.schema import AGENT, SESSION, TOOL_OUTPUT
from recollect.services.foreign.homes import refresh_mirror
from recollect.services.indexing.comparison import look, take_note
from recollect.system.progress import ProgressCallback

# Modules that read lines and write rows are imported only if something changed: most refreshes find nothing.
if TYPE_CHECKING:
    from recollect.index.frame import Frame
    from recollect.index.ingest import Ingest
    from recollect.index.placed import ScannedLog
    from recollect.services.indexing.extraction import NumberedFrame
    from recollect.services.indexing.session_listing import ExtractionJob

# Below this size, starting a process takes longer than reading here.
_WORTH_A_PROCESS = 24 << 20
_BULK_COMMIT = 96 << 20
_BULK_HASH, _BULK_RECALL_HASH = 32 << 20, 8 << 20
_BULK_MEMORY = 64 << 20  # of the hashes, SQLite's cache and waiting frames
# FTS5 merges a level with so many segments at once, however large they are. A bulk load has FTS5's own number; later
# refreshes merge in small steps (`automerge`), before any level has the second number.
_BULK_SEGMENTS, _SEGMENTS = 16, 64


class _IndexedLog(Struct, frozen=True):
    id: int
    path: str
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


class RefreshResult(Struct, frozen=True):
    """What a refresh read and removed."""

    logs: int
    read: int
    bytes: int
    gone: int
    problems: list[tuple[str, str]]


class IndexComparison(Struct, frozen=True):
    """The logs of some homes compared with what an index knows of them."""

    logs: int
    changed: list[ScannedLog]
    missing: list[_IndexedLog]
    known: dict[str, _IndexedLog]  # those that changed
    problems: list[tuple[str, str]]
    note: str | None  # see comparison.py


def compare(index: IndexDatabase, homes: Sequence[Path], archive: Path | None = None) -> IndexComparison:
    """Compare the homes and their archive with the index; reads no log and writes nothing."""
    problems: list[tuple[str, str]] = []
    seen = look(index, homes, archive, problems)
    rows = {log.path: row for log in seen.changed if (row := _known(index, log.path)) is not None}
    missing = [row for path in seen.gone if (row := _known(index, path)) is not None]
    return IndexComparison(seen.logs, seen.changed, missing, rows, problems, seen.note)


def refresh(
    index: IndexDatabase,
    homes: Sequence[Path],
    progress: ProgressCallback | None = None,
    archive: Path | None = None,
) -> RefreshResult:
    """Update the index from the homes it was opened for, and from their archived sessions.

    Mirrors of other agents' homes are brought up to date first.
    """
    for home in homes:
        refresh_mirror(home)
    found = compare(index, homes, archive)
    problems = found.problems
    if not found.changed and not found.missing:
        _note_done(index)
        take_note(index, found.note)
        return RefreshResult(found.logs, 0, 0, 0, problems)
    work = _settle(index, found)
    work.sort(key=lambda one: one.log.mtime)
    _read(index, work, progress, problems)
    _note_done(index)
    take_note(index, found.note)
    index.shorten_log()
    read = sum(one.log.size - one.job.start for one in work)
    return RefreshResult(found.logs, len(work), read, len(found.missing), problems)


def _note_done(index: IndexDatabase) -> None:
    if index.meta("complete") is None:
        with index.transaction():
            index.set_meta("complete", 1)
        index.settle()


def _known(index: IndexDatabase, path: str) -> _IndexedLog | None:
    rows = index.rows(
        "SELECT id, path, device, inode, size, mtime, consumed, head, tail, role, gone FROM files"
        " WHERE path = ?",
        path,
    )
    return _IndexedLog(*rows[0]) if rows else None  # type: ignore[arg-type]


def _settle(index: IndexDatabase, found: IndexComparison) -> list[_IndexingWork]:
    """Match changed logs with known ones; returns what is to be read."""
    from recollect.index.ingest import Ingest

    ingest = Ingest(index)
    by_inode = {(row.device, row.inode): row for row in found.missing if row.inode}
    work = []
    with ingest.transaction():
        moved: set[int] = set()
        for log in found.changed:
            row = found.known.get(log.path)
            if row is None or row.gone:
                before = by_inode.get((log.device, log.inode))
                if before is not None and before.id not in moved and _is_same(before, log):
                    if row is not None:
                        ingest.drop(row.id)
                    moved.add(before.id)
                    ingest.moved(before.id, log)
                    row = before
            if row is None:
                work.append(_IndexingWork(ingest.add_file(log), log, _job(index, None, log, 0)))
                continue
            # In the flat layout only the lines say whose agent a log is, so a log that moved there is read again.
            is_told_by_lines = row.id in moved and log.role == AGENT and log.session is None
            start = row.consumed if _is_grown(row, log) and not is_told_by_lines else 0
            if not start:
                ingest.forget(row.id)
            ingest.seen(row.id, log)
            work.append(_IndexingWork(row.id, log, _job(index, row.id, log, start)))
        for row in found.missing:
            if row.id in moved:
                continue
            if row.role == TOOL_OUTPUT:
                ingest.drop(row.id)
            else:
                ingest.forget(row.id, keep_usage=True)
    return work


def _job(index: IndexDatabase, file: int | None, log: ScannedLog, start: int) -> ExtractionJob:
    from recollect.index import catalogue_updates
    from recollect.services.indexing.session_listing import ExtractionJob

    job = ExtractionJob(log.path, start, log.role == TOOL_OUTPUT, log.role == SESSION)
    known = catalogue_updates.known(index, file) if start and file is not None else None
    if known is None:
        return job
    return job._replace(
        has_prompt=known.has_prompt, begins_aside=known.begins_aside, message_count=known.message_count
    )


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
    from recollect.services.indexing.extraction import is_continued

    return is_continued(log.path, row.consumed, row.head or b"", row.tail or b"")


def _read(
    index: IndexDatabase,
    work: list[_IndexingWork],
    progress: ProgressCallback | None,
    problems: list[tuple[str, str]],
) -> None:
    from recollect.index.ingest import Ingest
    from recollect.system.large_pages import large_pages

    sizes = [max(one.log.size - one.job.start, 0) for one in work]
    total = sum(sizes)
    is_bulk = total > _WORTH_A_PROCESS
    ingest = Ingest(index)
    jobs = [one.job for one in work]
    news = _frames_elsewhere(jobs, sizes) if is_bulk else _frames_here(jobs)
    intake = _FrameIntake(ingest, work, problems, progress, total)
    if is_bulk:
        ingest.expect_many()
        _tune(index, bulk=True)
    elif index.value("SELECT v FROM texts_config WHERE k = 'automerge'") == 0:
        _tune(index, bulk=False)  # a killed bulk load leaves this setting
    with large_pages(_BULK_MEMORY) if is_bulk else contextlib.nullcontext():
        at_end = False
        commits = 0
        while not at_end:
            # Two short ones first: see `_lift`.
            at_once = _BULK_COMMIT >> 6 if is_bulk and commits < 2 else _BULK_COMMIT
            with ingest.transaction():
                since = 0
                while since < at_once:
                    item = next(news, None)
                    if item is None:
                        at_end = True
                        break
                    since += intake.take(*item)
            commits += 1
            if is_bulk:
                _lift(index, at_end=at_end)
    if is_bulk:
        _tune(index, bulk=False)


def _frames_here(jobs: Sequence[ExtractionJob]) -> Iterator[NumberedFrame]:
    from recollect.services.indexing.extraction import numbered_frames

    for number, job in enumerate(jobs):
        yield from numbered_frames(number, job)


def _frames_elsewhere(jobs: Sequence[ExtractionJob], sizes: Sequence[int]) -> Iterator[NumberedFrame]:
    from recollect.services.indexing.workers import frames_of

    return frames_of(jobs, sizes)


class _FrameIntake:
    """Stores frames as they come. A log that could not be read is not marked as read, so it is tried again."""

    def __init__(
        self,
        ingest: Ingest,
        work: list[_IndexingWork],
        problems: list[tuple[str, str]],
        progress: ProgressCallback | None,
        total: int,
    ) -> None:
        self._ingest, self._work, self._problems = ingest, work, problems
        self._progress, self._total, self._done = progress, total, 0
        self._unread: set[int] = set()

    def take(self, number: int, frame: Frame | None) -> int:
        """A frame of a job, or None at its end; returns the bytes of log it covers."""
        file, log = self._work[number].file, self._work[number].log
        if frame is None:
            if number not in self._unread:
                self._ingest.finished(file, log)
            return 0
        if frame.problem is not None:
            self._unread.add(number)
            if frame.problem:
                self._problems.append((log.path, frame.problem))
            return 0
        self._ingest.apply(file, frame)
        self._done += frame.end - frame.start
        if self._progress is not None:
            self._progress(self._done, self._total)
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
        # hardly faster. `recollect index vacuum` does it.
        index.settle()
