"""Keep the index in step with the logs: compare, read what is new, take out what is gone.

Every question refreshes first. Where nothing changed that costs one walk over the homes.
A first build reads in other processes and writes in this one; it commits as it goes, so a
process that is killed leaves an index that the next one completes. Logs are read in the
order of their last change: text rows then stand nearly in the order of time, which is what
lets a search for the newest hits stop early.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from recollect.index.database import MAPPED_BYTES, Database
from recollect.index.placed import Placed
from recollect.index.schema import AGENT, SESSION, TOOL_OUTPUT
from recollect.storage.log_scan import scan_logs

# What reads lines and writes rows is imported where something changed: most refreshes find nothing new.
if TYPE_CHECKING:
    from recollect.index.frame import Frame
    from recollect.index.ingest import Ingest
    from recollect.services.extraction import Job

Progress = Callable[[int, int], None]
_ROLES = {"session": SESSION, "agent": AGENT, "tool-output": TOOL_OUTPUT}
# Below this, starting a process takes longer than reading here.
_WORTH_A_PROCESS = 24 << 20
_BULK_COMMIT = 96 << 20
_BULK_HASH = 32 << 20


class _Known(NamedTuple):
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
    prompt: int | None


class _Work(NamedTuple):
    file: int
    log: Placed
    job: Job


class Refreshed(NamedTuple):
    """What a refresh did."""

    logs: int
    read: int
    bytes: int
    gone: int
    problems: list[tuple[str, str]]


class Compared(NamedTuple):
    """The logs of some homes against what an index knows of them."""

    found: list[Placed]
    changed: list[Placed]
    missing: list[_Known]
    known: dict[str, _Known]
    problems: list[tuple[str, str]]


def compare(index: Database, homes: Sequence[Path], archive: Path | None = None) -> Compared:
    """One walk over the homes, and over what only the archive has of them; nothing is read or written."""
    problems: list[tuple[str, str]] = []
    found = _found(homes, problems)
    if archive is not None and archive.is_dir():
        from recollect.services.archived_logs import archived_logs

        found += archived_logs(archive, homes, [log.path for log in found])
    known = {row.path: row for row in _known(index)}
    changed = [log for log in found if not _is_unchanged(known.get(log.path), log)]
    there = {log.path for log in found}
    missing = [row for row in known.values() if row.path not in there and not row.gone]
    return Compared(found, changed, missing, known, problems)


def refresh(
    index: Database, homes: Sequence[Path], progress: Progress | None = None, archive: Path | None = None
) -> Refreshed:
    """Bring the index up to date with the homes it was opened for, and with their archived sessions."""
    found, changed, missing, known, problems = compare(index, homes, archive)
    if not changed and not missing:
        _note_done(index)
        return Refreshed(len(found), 0, 0, 0, problems)
    work = _settle(index, changed, missing, known)
    work.sort(key=lambda one: one.log.mtime)
    _read(index, work, progress, problems)
    _note_done(index)
    return Refreshed(
        len(found), len(work), sum(one.log.size - one.job.start for one in work), len(missing), problems
    )


def _note_done(index: Database) -> None:
    if index.meta("complete") is None:
        with index.transaction():
            index.set_meta("complete", 1)


def _found(homes: Sequence[Path], problems: list[tuple[str, str]]) -> list[Placed]:
    found = []
    seen: set[tuple[int, int]] = set()
    for home in homes:
        name = os.fspath(home)
        for log in scan_logs(home, problems):
            path = log.path
            if not path.isascii() and not _is_text(path):
                problems.append((path, "its name is not UTF-8, so it is not in the index"))
            elif len(homes) == 1 or (log.device, log.inode) not in seen:  # two homes may share a directory
                found.append(Placed(path, name, _ROLES[log.role], *log[2:]))
                if log.inode and len(homes) > 1:
                    seen.add((log.device, log.inode))
    return found


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _known(index: Database) -> list[_Known]:
    return [
        _Known(*row)  # type: ignore[arg-type]
        for row in index.rows(
            "SELECT id, path, device, inode, size, mtime, consumed, head, tail, role, gone, prompt FROM files"
        )
    ]


def _is_unchanged(known: _Known | None, log: Placed) -> bool:
    return (
        known is not None
        and not known.gone
        and known.size == log.size
        and known.mtime == log.mtime
        and known.inode == log.inode
        and known.device == log.device
    )


def _settle(
    index: Database, changed: list[Placed], missing: list[_Known], known: dict[str, _Known]
) -> list[_Work]:
    """Match what changed with what was known; returns what is to be read."""
    from recollect.index.ingest import Ingest

    ingest = Ingest(index)
    by_inode = {(row.device, row.inode): row for row in missing if row.inode}
    work = []
    with index.transaction():
        ingest.begin()
        moved: set[int] = set()
        for log in changed:
            row = known.get(log.path)
            if row is None or row.gone:
                before = by_inode.get((log.device, log.inode))
                if before is not None and before.id not in moved and _is_same(before, log):
                    if row is not None:
                        ingest.drop(row.id)
                    moved.add(before.id)
                    ingest.moved(before.id, log)
                    row = before
            if row is None:
                work.append(_Work(ingest.add_file(log), log, _job(log, 0, seek_prompt=True)))
                continue
            # Only its lines say whose agent a log in the flat layout is, so one that moved there is read anew.
            is_told_by_lines = row.id in moved and log.role == AGENT and log.session is None
            start = row.consumed if _is_grown(row, log) and not is_told_by_lines else 0
            if not start:
                ingest.forget(row.id)
            ingest.seen(row.id, log)
            work.append(_Work(row.id, log, _job(log, start, seek_prompt=not start or row.prompt is None)))
        for row in missing:
            if row.id in moved:
                continue
            if row.role == TOOL_OUTPUT:
                ingest.drop(row.id)
            else:
                ingest.forget(row.id, keep_usage=True)
    return work


def _job(log: Placed, start: int, *, seek_prompt: bool) -> Job:
    from recollect.services.extraction import Job

    return Job(log.path, start, log.role == TOOL_OUTPUT, seek_prompt and log.role == SESSION)


def _is_same(before: _Known, log: Placed) -> bool:
    return (
        before.role == log.role
        and bool(before.head)
        and log.size >= before.consumed
        and _is_continued(before, log)
    )


def _is_grown(row: _Known, log: Placed) -> bool:
    """Whether only bytes were added. A log of the same size with another time may hold other bytes."""
    if row.role == TOOL_OUTPUT or row.gone or not row.consumed or row.inode != log.inode:
        return False
    seen_at = row.mtime if row.mtime >= 0 else ~row.mtime
    if log.size <= row.size and log.mtime != seen_at:
        return False
    return _is_continued(row, log)


def _is_continued(row: _Known, log: Placed) -> bool:
    from recollect.services.extraction import is_continued

    return is_continued(log.path, row.consumed, row.head or b"", row.tail or b"")


def _read(
    index: Database, work: list[_Work], progress: Progress | None, problems: list[tuple[str, str]]
) -> None:
    from recollect.index.ingest import Ingest

    total = sum(max(one.log.size - one.job.start, 0) for one in work)
    is_bulk = total > _WORTH_A_PROCESS
    ingest = Ingest(index)
    jobs = [one.job for one in work]
    news = _frames_elsewhere(jobs) if is_bulk else _frames_here(jobs)
    intake = _Intake(ingest, work, problems, progress, total)
    if is_bulk:
        ingest.expect_many()
        _tune(index, bulk=True)
    elif index.value("SELECT v FROM texts_config WHERE k = 'automerge'") == 0:
        _tune(index, bulk=False)  # a bulk load that was killed left it so
    at_end = False
    while not at_end:
        with index.transaction():
            ingest.begin()
            since = 0
            while since < _BULK_COMMIT:
                item = next(news, None)
                if item is None:
                    at_end = True
                    break
                since += intake.take(*item)
    if is_bulk:
        _tune(index, bulk=False)


def _frames_here(jobs: Sequence[Job]) -> Iterator[tuple[int, Frame | None]]:
    from recollect.services.extraction import frames

    for number, job in enumerate(jobs):
        for frame in frames(job):
            yield number, frame
        yield number, None


def _frames_elsewhere(jobs: Sequence[Job]) -> Iterator[tuple[int, Frame | None]]:
    from recollect.services.workers import frames_of

    return frames_of(jobs)


class _Intake:
    """Takes frames in as they come. A log that could not be read is not marked as read: it is tried again."""

    def __init__(
        self,
        ingest: Ingest,
        work: list[_Work],
        problems: list[tuple[str, str]],
        progress: Progress | None,
        total: int,
    ) -> None:
        self._ingest, self._work, self._problems = ingest, work, problems
        self._progress, self._total, self._done = progress, total, 0
        self._unread: set[int] = set()

    def take(self, number: int, frame: Frame | None) -> int:
        """A frame of a job, or None at the job's end; how many bytes of log it covers."""
        file, log, _ = self._work[number]
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


def _tune(index: Database, *, bulk: bool) -> None:
    """For a bulk load words are gathered in memory and merged once at the end instead of all along."""
    run = index.connection.execute
    # A writer that walks through the whole file would hold all of it as memory of its own.
    run(f"PRAGMA mmap_size = {0 if bulk else MAPPED_BYTES}")
    run("INSERT INTO texts(texts, rank) VALUES('hashsize', ?)", (_BULK_HASH if bulk else 1 << 20,))
    run("INSERT INTO texts(texts, rank) VALUES('automerge', ?)", (0 if bulk else 4,))
    if not bulk:
        # The few large pieces that were written are left as they are: merging them makes a search
        # hardly faster and costs a tenth of the build. `recollect index vacuum` does it.
        run("PRAGMA wal_checkpoint(TRUNCATE)")
