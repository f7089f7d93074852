"""The files that a session touched, as JSON: versions, texts, differences."""

from __future__ import annotations

import datetime as dt

from msgspec import Struct

from recollect.model.files.history import FileVersion, VersionSource


class FileVersionDocument(Struct, frozen=True, kw_only=True):
    """One version of a file, without its content. ``diff``: changes since the previous version, on request.

    ``added`` and ``removed``: lines of the session's own write or edit; null where it only saw the file.
    """

    number: int
    at: dt.datetime | None
    source: VersionSource
    entry_uuid: str | None
    existed: bool
    known: bool
    bytes: int | None
    backup: str | None
    added: int | None
    removed: int | None


class TouchedFileDocument(Struct, frozen=True):
    """A file that a session touched: written or edited by it, or only seen. Lines are those of all its changes."""

    path: str
    is_edited: bool
    added: int
    removed: int
    versions: list[FileVersionDocument]


class FilesDocument(Struct, frozen=True):
    """The files that a session touched."""

    session: str
    files: list[TouchedFileDocument]
    total: int


class FileTextDocument(Struct, frozen=True, kw_only=True):
    """The text of one version; null if it is not text or unknown."""

    path: str
    number: int
    text: str | None
    is_binary: bool
    cut: bool
    bytes: int | None


class FileDiffDocument(Struct, frozen=True, kw_only=True):
    """Changes from one version to another, or why they are unknown."""

    path: str
    number: int
    against: int
    diff: str
    cut: bool
    problem: str | None


def version_document(number: int, version: FileVersion) -> FileVersionDocument:
    return FileVersionDocument(
        number=number,
        at=version.at,
        source=version.source,
        entry_uuid=version.entry_uuid,
        existed=version.existed,
        known=version.is_known,
        bytes=version_length(version),
        backup=version.backup_name,
        added=None if version.tally is None else version.tally.added,
        removed=None if version.tally is None else version.tally.removed,
    )


def touched_file(path: str, versions: list[FileVersionDocument]) -> TouchedFileDocument:
    return TouchedFileDocument(
        path,
        any(one.added is not None for one in versions),
        sum(one.added or 0 for one in versions),
        sum(one.removed or 0 for one in versions),
        versions,
    )


def version_length(version: FileVersion) -> int | None:
    """Bytes of a version, if known."""
    content = version.content
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    return None if data is None else len(data)
