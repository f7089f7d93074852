"""Sessions that are archived, cleaned up, imported, or protected."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

from msgspec import Struct

from recollect.services.archive.archive import ArchiveFailure
from recollect.services.archive.cleanup import CleanupCandidate
from recollect.services.archive.import_sessions import ImportCandidate, SkippedSource
from recollect.services.archive.protection import Protection
from recollect.services.documents.changes.change import ChangeDocument


class ArchivalDocument(ChangeDocument, frozen=True, kw_only=True):
    """Sessions added to the archive."""

    sessions: list[str]
    total: int
    raw_bytes: int
    stored_bytes: int
    new_bytes: int
    failed: list[ArchiveFailure]


class CleanupSessionDocument(Struct, frozen=True, kw_only=True):
    """An old session, and the reason if it stays."""

    session: str
    title: str
    last_at: dt.datetime | None
    bytes: int
    kept_because: str | None


class CleanupScheduleDocument(ChangeDocument, frozen=True, kw_only=True):
    """A clean-up that runs by itself: the hook in the client's settings, or a line for cron."""

    file: Path
    hook: dict[str, Any]
    cron: str


class ProtectDocument(ChangeDocument, frozen=True, kw_only=True):
    """The hourly run: what is set up, how the last run went, and the entry of the scheduler by its place."""

    protection: Protection
    scheduler: str | None
    entry: dict[str, str]
    command: str
    settings: list[str]


class ImportDocument(ChangeDocument, frozen=True, kw_only=True):
    """Sessions that come from elsewhere; ``to`` is the home, None for the archive. ``losses`` are by session."""

    kind: str
    to: Path | None
    sessions: list[ImportCandidate]
    skipped: list[SkippedSource]
    losses: dict[str, list[str]]


class CleanupDocument(Struct, frozen=True):
    """What ``cleanup --json`` prints; ``undo`` holds commands. ``emptied`` are directories that were removed too."""

    sessions: list[CleanupSessionDocument]
    applied: bool
    failed: tuple[ArchiveFailure, ...]
    emptied: tuple[Path, ...]
    undo: list[str]


class PageCleanupDocument(ChangeDocument, frozen=True, kw_only=True):
    """Old sessions that are archived and moved to the trash."""

    sessions: list[CleanupSessionDocument]
    total: int
    bytes: int
    failed: list[ArchiveFailure]
    batches: list[str]


def cleanup_session(one: CleanupCandidate) -> CleanupSessionDocument:
    return CleanupSessionDocument(
        session=one.session.id,
        title=one.session.title if one.last_at else "",
        last_at=one.last_at,
        bytes=one.bytes,
        kept_because=one.kept_because,
    )
