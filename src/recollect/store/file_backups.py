"""Backups of files: read them and add to them.

Reading combines a session's own log with those of its sub-agents, which changed files too, and passes the
backup contents to ``model.files.history``. Restoring a version is a change with an undo: ``change.rewind``.
"""

from __future__ import annotations

import datetime as dt
import heapq
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from recollect.errors import NotFound, RecollectError, StorageError, UsageError
from recollect.model.files.history import (
    BodyOf,
    FileBackup,
    FileVersion,
    VersionSource,
    backup_name,
    file_versions,
)
from recollect.model.lines.damage import Damage
from recollect.model.lines.entry import Entry
from recollect.model.lines.ids import SessionId
from recollect.store.home import ClaudeHome, SessionFile
from recollect.store.logs.reader import LogReader
from recollect.system import fsops, openat

_DIRECTORY = "file-history"
# Names come from transcripts: only names that a client would give are looked up.
_NAME = re.compile(r"[0-9A-Za-z_-]{1,128}@v[0-9]{1,9}", re.ASCII)
_EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)


# ---- reading ---------------------------------------------------------------------------------------------


def touched_files(home: ClaudeHome, session: SessionFile) -> dict[str, list[FileVersion]]:
    """Every version of every file the session and its sub-agents touched."""
    entries = session_entries(home, session)
    return file_versions(entries, session.first_cwd(), body_of=body_reader(home, session))


def body_reader(home: ClaudeHome, session: SessionFile) -> BodyOf:
    """Reads the session's backups by name; what cannot be read is None, and in ``home.problems``."""
    owner = session.id

    def body_of(name: str) -> bytes | None:
        try:
            return None if owner is None else backup_body(home, owner, name)
        except NotFound:
            return None
        except RecollectError as problem:
            home.note_problem(home.root / _DIRECTORY, problem.message)
            return None

    return body_of


def session_entries(home: ClaudeHome, session: SessionFile) -> Iterator[Entry]:
    """The entries of a session and of its sub-agents. Each log keeps its order; between logs time decides."""
    logs = [session.path, *(agent.path for agent in home.agents(session))]
    merged = heapq.merge(
        *(_timed(path, number) for number, path in enumerate(logs)), key=lambda item: item[:2]
    )
    return (entry for *_, entry in merged)


def _timed(path: Path, number: int) -> Iterator[tuple[dt.datetime, int, Entry]]:
    latest = _EARLIEST
    for item in LogReader(path):
        entry = item.readable if isinstance(item, Damage) else item
        if entry is not None:
            latest = max(latest, entry.at or latest)
            yield latest, number, entry


def backup_body(home: ClaudeHome, session: SessionId, name: str) -> bytes:
    """The bytes of a backup. Links are refused, and so is any name a client would not give."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"backup {ascii(name)[:80]}: not a name that a client gives", hint="list the versions again"
        )
    return openat.read_file(home.root, (_DIRECTORY, SessionId(session), name))


# ---- writing ---------------------------------------------------------------------------------------------


def store_backup(
    home: ClaudeHome, session: SessionId, path: str, data: bytes, *, version: int, at: dt.datetime
) -> FileBackup:
    """Store the bytes of the file at ``path`` as the client would; ``model.files.history`` makes the
    line that names them.
    """
    name = backup_name(path, version)
    target = openat.require_no_link(home.root, (_DIRECTORY, SessionId(session), name))
    try:
        fsops.make_directories(target.parent)
        fsops.replace_file(target, data)
    except OSError as cause:
        raise StorageError("write", target, cause, hint=fsops.next_step(cause)) from cause
    return FileBackup(name, version, at)


def restorable(version: FileVersion) -> bytes:
    """The bytes of a version; ``UsageError`` where there was no file or its content is not known."""
    if not version.existed:
        raise UsageError(
            f"{version.path}: did not exist at that time", hint="choose a version in which the file exists"
        )
    if version.content is None:
        missing = (
            "its backup was not read"
            if version.source is VersionSource.BACKUP
            else "its content is not recorded"
        )
        raise UsageError(f"{version.path}: {missing}", hint="choose another version; nothing was written")
    return version.content.encode("utf-8", "replace") if isinstance(version.content, str) else version.content


def own_name(path: str) -> str:
    """The last part of a path, which may be one of Windows."""
    return PurePosixPath(path).name if path.startswith("/") else PureWindowsPath(path).name
