"""Keep sessions for good: into the archive, out of it, and which ones the client is about to delete.

All of a session goes in: its log, sub-agents in both layouts, tool output, file backups, tasks,
todos, the plans its entries name. Adding a session that did not change costs a look at each
file; one that grew costs what is new. A session that a client has open is archived as it is
at that moment; the next addition takes the rest.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.errors import NotFound, RecollectError, StorageError
from recollect.model.ids import EntryId
from recollect.services.session import Session
from recollect.services.trash import planned_removal
from recollect.storage.archive.archive import Archive, ArchiveDescription, ArchiveResult
from recollect.storage.archive.manifest import Manifest
from recollect.storage.changes.journal import AppliedChange
from recollect.storage.home import ClaudeHome
from recollect.storage.home_locks import lock_path
from recollect.storage.trash import TrashBatch
from recollect.system.lock import FileLock
from recollect.system.peek import open_regular

Progress = Callable[[int, int], None]
DEFAULT_DAYS = 30
_SLUG = re.compile(rb'"slug"[ \t]*:[ \t]*"([a-z0-9-]{1,120})"')
_LONGEST_SLUG = 256
_LARGEST_SETTINGS = 4 << 20


class ExpiringSession(Struct, frozen=True):
    """A session that the client will delete."""

    session: str
    path: Path
    expires_at: dt.datetime
    is_archived: bool


class ArchiveFailure(Struct, frozen=True):
    """A session that could not be archived, and why."""

    session: str
    reason: str


class _CleanupSettings(Struct, rename="camel"):
    cleanup_period_days: float | int | None = None


def archive_at(data: Path) -> Archive:
    """The archive in our own directory."""
    return Archive(data / "archive")


def add(archive: Archive, session: Session, now: dt.datetime) -> ArchiveResult:
    """Archive one session as it is; expects ``archive.adding()``."""
    seen = session.glance
    described = ArchiveDescription(
        session.id,
        session.path.parent.name,
        session.home.root,
        session.cwd,
        session.title,
        seen.first_at.isoformat() if seen.first_at else None,
        seen.last_at.isoformat() if seen.last_at else None,
    )
    return archive.add(described, list(session_files(session)), now.isoformat())


def add_all(
    archive: Archive, sessions: Sequence[Session], now: dt.datetime, progress: Progress | None = None
) -> tuple[list[ArchiveResult], list[ArchiveFailure]]:
    """Archive many; one that cannot be read does not keep the others out."""
    added, failed = [], []
    total, done = sum(session.file.size for session in sessions), 0
    with archive.adding():
        for session in sessions:
            try:
                added.append(add(archive, session, now))
            except RecollectError as problem:
                failed.append(ArchiveFailure(session.id, problem.message))
            done += session.file.size
            if progress is not None:
                progress(done, total)
    return added, failed


def session_files(session: Session) -> Iterator[Path]:
    """Every regular file that belongs to a session, its log first."""
    for item in planned_removal(session).items:
        yield from _regular_files(item)
    yield from _plans(session)


def _regular_files(item: Path) -> Iterator[Path]:
    if item.is_symlink():
        return
    if item.is_dir():
        for inner in sorted(item.iterdir()):
            yield from _regular_files(inner)
    elif item.is_file():
        yield item


def _plans(session: Session) -> Iterator[Path]:
    slugs: dict[bytes, None] = {}
    with open_regular(session.path) as log:
        end = b""
        while block := log.read(1 << 20):
            # A name may stand across two blocks. Most logs hold none, and this asks fastest.
            text = end + block
            if b'"slug"' in text:
                slugs.update(dict.fromkeys(_SLUG.findall(text)))
            end = text[-_LONGEST_SLUG:]
    for slug in slugs:
        plan = session.home.plan_file(EntryId(slug.decode()))
        if plan.is_file() and not plan.is_symlink():
            yield plan


def is_archived(manifest: Manifest | None, session: Session) -> bool:
    """Whether the archive has this session's log as it is now."""
    if manifest is None:
        return False
    log = manifest.log
    return log.stored.size == session.file.size and log.mtime_ns == session.file.mtime_ns


def holds(archive: Archive, batch: TrashBatch) -> bool:
    """Whether the archive has every file of a trashed session, byte for byte by their hashes."""
    kept = {
        stored.sha256
        for one in archive.manifests()
        if one.session == batch.session
        for stored in one.objects().values()
    }
    return bool(kept) and all(file.sha256 in kept for file in batch.files if file.kind == "file")


def retention_days(home: ClaudeHome) -> float:
    """After how many days without a change the client deletes a session."""
    try:
        with open_regular(home.settings_file) as file:
            found = msgspec.json.decode(
                file.read(_LARGEST_SETTINGS), type=_CleanupSettings
            ).cleanup_period_days
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        # The client ignores a file it cannot read, and goes by its default then.
        return DEFAULT_DAYS
    return found if found is not None and found > 0 else DEFAULT_DAYS


class ExpirySummary(Struct, frozen=True):
    """How many sessions the client deletes within so many days, and how many of them only it has."""

    within_days: int
    sessions: int = 0
    not_archived: int = 0
    first_at: dt.datetime | None = None

    def __str__(self) -> str:
        verb = "session expires" if self.sessions == 1 else "sessions expire"
        return f"{self.sessions:,} {verb} within {self.within_days} days, {self.not_archived:,} of them not archived"


def expiring(
    sessions: Iterable[Session], archive: Archive, now: dt.datetime, days: float = 7
) -> list[ExpiringSession]:
    """Sessions the client deletes within so many days, soonest first. It goes by the time of the file."""
    found, limits = [], {}
    for session in sessions:
        root = session.home.root
        if root not in limits:
            limits[root] = retention_days(session.home)
        modified = dt.datetime.fromtimestamp(session.file.mtime_ns / 1e9, dt.UTC)
        expires = modified + dt.timedelta(days=limits[root])
        if expires <= now + dt.timedelta(days=days):
            known = archive.known(session.path.parent.name, session.id) if session.session_id else None
            found.append(ExpiringSession(session.id, session.path, expires, is_archived(known, session)))
    return sorted(found, key=lambda one: one.expires_at)


def restore(archive: Archive, manifest: Manifest, target: Path | None) -> AppliedChange:
    """Put a session back into its home, or below another directory laid out as one. It can be undone."""
    home = target or Path(manifest.home)
    if target is None and not home.is_dir():
        raise NotFound(
            f"restore {manifest.session}: its home {home} is not there",
            hint="name a directory with --to DIR",
        )
    log = home / manifest.log.path
    try:
        with FileLock(lock_path(log, archive.root.parent), guards=log):
            return archive.restore(manifest, home)
    except OSError as cause:
        raise StorageError("restore", home, cause, hint="nothing was restored") from cause
