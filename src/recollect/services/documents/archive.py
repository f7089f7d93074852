"""What ``archive --json`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from recollect.services.archive.archive import ArchiveFailure
from recollect.storage.archive.archive import ArchiveProblem
from recollect.storage.archive.manifest import Manifest


class ArchivedSessionDocument(Struct, frozen=True, kw_only=True):
    """A session in the archive. ``changed`` comes with ``add``; ``to`` and what follows with ``restore``."""

    id: str
    title: str
    cwd: str
    home: str
    last_at: str | None
    archived_at: str
    files: int
    raw_bytes: int
    stored_bytes: int
    earlier: int
    changed: bool | UnsetType = UNSET
    to: str | UnsetType = UNSET
    paths: list[str] | UnsetType = UNSET
    left_out: list[str] | UnsetType = UNSET
    there: Sequence[Path] | UnsetType = UNSET
    obstacles: Sequence[Path] | UnsetType = UNSET


class ArchiveAdditionDocument(Struct, frozen=True):
    """Sessions that were added; ``new_bytes`` is the growth of the archive."""

    sessions: list[ArchivedSessionDocument]
    raw_bytes: int
    stored_bytes: int
    new_bytes: int
    failed: Sequence[ArchiveFailure]


class ArchiveListDocument(Struct, frozen=True):
    """What is in the archive, and what of it cannot be read."""

    sessions: list[ArchivedSessionDocument]
    raw_bytes: int
    stored_bytes: int
    problems: Sequence[ArchiveFailure]


class ArchiveVerificationDocument(Struct, frozen=True):
    """Every byte was read again; ``sessions`` is their number."""

    sessions: int
    raw_bytes: int
    stored_bytes: int
    verified: bool
    problems: Sequence[ArchiveProblem]


class ArchiveChangeDocument(Struct, frozen=True):
    """Sessions that are restored, or taken out of the archive; ``undo`` holds commands."""

    sessions: list[ArchivedSessionDocument]
    applied: bool
    undo: list[str]


class BundleDocument(Struct, frozen=True):
    """A bundle that was written, or taken in; ``bytes`` is the size of a written one."""

    sessions: list[ArchivedSessionDocument]
    bytes: int | UnsetType = UNSET


def archived_session(one: Manifest) -> ArchivedSessionDocument:
    return ArchivedSessionDocument(
        id=one.session,
        title=one.title,
        cwd=one.cwd,
        home=one.home,
        last_at=one.last_at,
        archived_at=one.archived_at,
        files=len(one.files),
        raw_bytes=one.raw_bytes,
        stored_bytes=one.stored_bytes,
        earlier=len(one.earlier),
    )


def archive_list_document(
    manifests: Sequence[Manifest], problems: Sequence[ArchiveFailure]
) -> ArchiveListDocument:
    return ArchiveListDocument(
        [archived_session(one) for one in manifests],
        sum(one.raw_bytes for one in manifests),
        sum(one.stored_bytes for one in manifests),
        problems,
    )
