"""Free space without losing anything: a session goes to the trash, old ones after they were archived; and the hourly run that archives.

The age of a session is that of its last entry, never of its file alone: a touched file is not young, and one
restored yesterday is not old (S11). Only a log without any entry is as old as its file: nothing else speaks of
its age. Never removed: a session that a client has open, one that another process of ours writes to, one tagged
``hold``, one of unknown age, one that is a link or lies behind one. A removed session is first archived, read back and
compared; the trash also keeps it for a while.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct, structs

from recollect.ask import archive as archive_service
from recollect.ask.archive import ArchiveFailure, add_all, archive_at
from recollect.ask.homes import Homes
from recollect.ask.protection import ProtectRun, record
from recollect.ask.sessions.home_guard import RemovalPlan, is_mirror, planned_removal, refuse_open
from recollect.ask.sessions.session import Session
from recollect.change.undo import ChangeDocument, RequestDocument
from recollect.errors import Busy, DamagedData, NotFound, RecollectError, StorageError
from recollect.store.archive.archive import Archive
from recollect.store.changes.batch import one_batch
from recollect.store.live import live_sessions
from recollect.store.session_files import HomeBorder, hold_logs
from recollect.store.trash import TrashBatch, trash_at
from recollect.store.turns import take_turn
from recollect.system import fsops
from recollect.system.pool import ProgressCallback
from recollect.system.scheduler import ScheduledJob, job_words

HOLD = "hold"
_LARGEST_BLANK = 4_096
_DAY_SECONDS = 86_400.0


class OldSession(Struct, frozen=True, kw_only=True):
    """An old session, and the reason if it stays."""

    session: str
    title: str = ""
    last_at: dt.datetime | None = None
    bytes: int
    kept_because: str | None = None


class CleanupDocument(ChangeDocument, frozen=True, kw_only=True):
    """Old sessions that are archived and moved to the trash; ``emptied`` are directories that were removed too.

    A session that could not be removed is in ``failed``, with the reason. ``undo`` is the id that takes all of it back.
    """

    sessions: Sequence[OldSession]
    total: int
    bytes: int
    failed: Sequence[ArchiveFailure] = ()
    batches: Sequence[str] = ()
    emptied: Sequence[Path] = ()


# Old sessions, each with what happens to it.
Candidates = Sequence[tuple[Session, OldSession]]


def candidates(sessions: Iterable[Session], before: dt.datetime) -> Candidates:
    """The sessions whose last entry is older than ``before``, oldest first, each with what happens to it."""
    found = []
    live: dict[Path, set[str]] = {}
    for session in sessions:
        root = session.home.root
        if is_mirror(session.home):
            continue  # its own client keeps it, and forks made later need what the mirror has of it
        if root not in live:
            live[root] = {str(one.session_id) for one in live_sessions(session.home)}
        try:
            seen = session.glance
        except (NotFound, StorageError) as problem:
            old = OldSession(session=session.id, bytes=session.file.size, kept_because=problem.message)
            found.append((session, old))
            continue
        last_at = seen.last_at or (
            dt.datetime.fromtimestamp(session.file.mtime_ns / 1000000000.0, dt.UTC)
            if _is_empty(session)
            else None
        )
        if last_at is not None and last_at >= before:
            continue
        reason = _reason_to_keep(session, last_at, seen.tag, live[root])
        title = session.title if last_at else ""
        old = OldSession(
            session=session.id, title=title, last_at=last_at, bytes=session.file.size, kept_because=reason
        )
        found.append((session, old))
    far_back = dt.datetime.min.replace(tzinfo=dt.UTC)
    return sorted(found, key=lambda pair: pair[1].last_at or far_back)


def cleanup_plan(found: Candidates) -> CleanupDocument:
    """What a clean-up would do."""
    going = [old for _, old in found if old.kept_because is None]
    return CleanupDocument(
        sessions=[old for _, old in found],
        total=len(going),
        bytes=sum(old.bytes for old in going),
        applied=False,
        undo=None,
    )


def _is_empty(session: Session) -> bool:
    """Whether a log holds no entry and no damage: nothing but blank lines."""
    try:
        return session.file.size <= _LARGEST_BLANK and not session.path.read_bytes().strip()
    except OSError:  # gone since it was listed
        return False


def is_due(data: Path) -> bool:
    """Whether a clean-up that runs by itself may run now: once a day, whichever program asks first."""
    return take_turn(str(data / "cleanup.turn"), _DAY_SECONDS)


def _reason_to_keep(
    session: Session, last_at: dt.datetime | None, tag: str | None, live: set[str]
) -> str | None:
    if session.session_id is None:
        return "its name is not one that a client gives"
    if last_at is None:
        return "its age is unknown: no entry has a time"
    if session.id in live:
        return "a client has it open"
    if tag == HOLD:
        return f"it is tagged {HOLD}"
    if session.path.is_symlink():
        return "its log is a link"
    return HomeBorder(session.home.root).reason_not_to_change(session.path)


def clean_up(found: Candidates, archive: Archive, data: Path, now: dt.datetime) -> CleanupDocument:
    """Archive and trash the chosen sessions; one that cannot be removed stays."""
    batches, failed = [], []
    projects: dict[Path, None] = {}
    going = [session for session, old in found if old.kept_because is None]
    with one_batch("cleanup") as batch:
        for session in going:
            try:
                batches.append(_taken(session, archive, data, now).batch)
                projects[session.path.parent] = None
            except RecollectError as problem:
                failed.append(archive_service.failure_of(session.id, problem))
            except OSError as problem:
                failed.append(ArchiveFailure(session.id, str(problem)))
    return structs.replace(
        cleanup_plan(found),
        failed=failed,
        batches=batches,
        emptied=[path for path in projects if _removed_if_empty(path)],
        applied=True,
        undo=batch if batches else None,
    )


def _taken(session: Session, archive: Archive, data: Path, now: dt.datetime) -> TrashBatch:
    with archive.adding():
        added = archive_service.add(archive, session, now)
    there = session.path.stat()
    log = added.manifest.log
    if (log.stored.size, log.mtime_ns) != (there.st_size, there.st_mtime_ns):
        raise Busy(
            f"session {session.id} changed while it was archived", hint="try again when it is not in use"
        )
    for stored in added.manifest.objects().values():
        for problem in archive.objects.verify(stored):
            raise DamagedData(
                f"session {session.id}: {problem}", hint="`recollect protect verify` checks every byte"
            )
    return remove(session, data)


def remove(session: Session, data: Path) -> TrashBatch:
    """Move all of a session to the trash. ``Busy`` where a client has it open: it would go on writing, and leave a new log
    with only its later lines; or where another of us writes to it.
    """
    with hold_logs([session.path], data):
        refuse_open(session.home, session.id)
        plan = planned_removal(session)
        now = dt.datetime.now(dt.UTC)
        return trash_at(data).put(session.home.root, plan.items, session=session.id, title=plan.title, at=now)


def _removed_if_empty(project: Path) -> bool:
    """Remove a project directory that is empty, or holds only the empty ``memory`` the client creates."""
    memory = project / "memory"
    try:
        inside = list(project.iterdir())
        if (
            inside == [memory]
            and memory.is_dir()
            and not memory.is_symlink()
            and fsops.remove_directory(memory)
        ):
            inside = []
        return not inside and fsops.remove_directory(project)
    except OSError:
        return False


def job(homes: Sequence[Path], data: Path) -> ScheduledJob:
    """The hourly job for these homes and this directory of ours."""
    words = job_words(homes, data, "protect", "--run")
    return ScheduledJob(job_name(data), words, "Archive coding-agent sessions with recollect")


def job_name(data: Path) -> str:
    """One job for each directory of ours, so that two of them do not replace each other."""
    return f"recollect-protect-{hashlib.sha256(bytes(data.resolve())).hexdigest()[:8]}"


# ---- a run -----------------------------------------------------------------------------------------------


def run(homes: Sequence[Path], data: Path, progress: ProgressCallback | None = None) -> ProtectRun:
    """Archive every session of these homes, and record how it went, also where it fails."""
    now = dt.datetime.now(dt.UTC)
    try:
        done = _archived(homes, data, now, progress)
    except (RecollectError, OSError) as problem:
        reason = problem.message if isinstance(problem, RecollectError) else str(problem)
        record(data, ProtectRun(now, reason=reason, is_complete=False))
        raise
    record(data, done)
    return done


def _archived(
    homes: Sequence[Path], data: Path, now: dt.datetime, progress: ProgressCallback | None
) -> ProtectRun:
    missing = [home for home in homes if not home.is_dir()]
    if missing or not homes:
        where = str(missing[0]) if missing else "this machine"
        raise NotFound(f"protect: no Claude home at {where}", hint="set it up again with --home DIR")
    every = list(Homes(*homes, data=data).sessions())
    added, failed = add_all(
        archive_at(data), [one for one in every if one.session_id is not None], now, progress
    )
    reason = ""
    if failed:
        reason = f"{len(failed):,} not archived; the first, {failed[0].session}: {failed[0].reason}"
    elif not every:
        reason = f"no session was found in {', '.join(map(str, homes))}"
    new = sum(one.new_bytes for one in added)
    return ProtectRun(now, len(every), len(added), new, reason, is_complete=not reason)


def rehearsal(words: Sequence[str]) -> str:
    """Run the job as a scheduler would, in an empty environment; why it failed, or nothing."""
    done = subprocess.run(
        words, env={}, cwd="/", capture_output=True, text=True, errors="replace", check=False
    )
    return (done.stderr.strip() or f"exit status {done.returncode}") if done.returncode else ""


class RemovalDocument(RemovalPlan, frozen=True, kw_only=True):
    """A session that moves to the trash, for the page."""

    applied: bool
    undo: str | None
    undo_request: RequestDocument | None


class ArchivalDocument(ChangeDocument, frozen=True, kw_only=True):
    """Sessions added to the archive."""

    sessions: list[str]
    total: int
    raw_bytes: int
    stored_bytes: int
    new_bytes: int
    failed: list[ArchiveFailure]
