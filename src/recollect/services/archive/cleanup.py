"""Free space without losing anything: old sessions are archived, then moved to the trash.

The age of a session is that of its last entry, never of its file alone: a touched file is not young, and one
restored yesterday is not old (S11). Only a log without any entry is as old as its file: nothing else speaks of
its age. Never removed: a session that a client has open, one that another process of ours writes to, one tagged
``hold``, one of unknown age, one that is a link or lies behind one. A removed session is first archived, read back and
compared; the trash also keeps it for a while.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from recollect.errors import Busy, DamagedData, NotFound, RecollectError, StorageError
from recollect.services import trash as trash_service
from recollect.services.archive import archive as archive_service
from recollect.services.home_guard import is_mirror
from recollect.services.session import Session
from recollect.storage.archive.archive import Archive
from recollect.storage.changes.batch import one_batch
from recollect.storage.home_border import HomeBorder
from recollect.storage.live import live_sessions
from recollect.storage.refresh_turn import take_turn
from recollect.storage.trash import TrashBatch
from recollect.system import fsops

HOLD = "hold"
_LARGEST_BLANK = 4_096
_DAY_SECONDS = 86_400.0


class CleanupCandidate(Struct, frozen=True):
    """A session and whether it is removed; ``kept_because`` says why not."""

    session: Session
    last_at: dt.datetime | None
    bytes: int
    kept_because: str | None = None


class CleanupResult(Struct, frozen=True):
    """The result of a clean-up. A session that could not be removed is in ``failed``, with the reason.

    ``undo`` is the id that takes all of it back.
    """

    batches: tuple[TrashBatch, ...]
    failed: tuple[archive_service.ArchiveFailure, ...]
    emptied: tuple[Path, ...]
    undo: str


def candidates(sessions: Iterable[Session], before: dt.datetime) -> list[CleanupCandidate]:
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
            found.append(CleanupCandidate(session, None, session.file.size, problem.message))
            continue
        last_at = seen.last_at or (_file_time(session) if _is_empty(session) else None)
        if last_at is not None and last_at >= before:
            continue
        reason = _reason_to_keep(session, last_at, seen.tag, live[root])
        found.append(CleanupCandidate(session, last_at, session.file.size, reason))
    far_back = dt.datetime.min.replace(tzinfo=dt.UTC)
    return sorted(found, key=lambda one: one.last_at or far_back)


def _is_empty(session: Session) -> bool:
    """Whether a log holds no entry and no damage: nothing but blank lines."""
    try:
        return session.file.size <= _LARGEST_BLANK and not session.path.read_bytes().strip()
    except OSError:  # gone since it was listed
        return False


def _file_time(session: Session) -> dt.datetime:
    return dt.datetime.fromtimestamp(session.file.mtime_ns / 1e9, dt.UTC)


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


def clean_up(
    chosen: Iterable[CleanupCandidate], archive: Archive, data: Path, now: dt.datetime
) -> CleanupResult:
    """Archive and trash the chosen sessions; one that cannot be removed stays."""
    batches, failed = [], []
    projects: dict[Path, None] = {}
    going = [one.session for one in chosen if one.kept_because is None]
    with one_batch("cleanup") as batch:
        for session in going:
            try:
                batches.append(_taken(session, archive, data, now))
                projects[session.path.parent] = None
            except RecollectError as problem:
                failed.append(archive_service.failure_of(session.id, problem))
            except OSError as problem:
                failed.append(archive_service.ArchiveFailure(session.id, str(problem)))
    emptied = tuple(path for path in projects if _removed_if_empty(path))
    return CleanupResult(tuple(batches), tuple(failed), emptied, batch)


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
                f"session {session.id}: {problem}", hint="`recollect archive verify` checks every byte"
            )
    return trash_service.remove(session, data)


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
