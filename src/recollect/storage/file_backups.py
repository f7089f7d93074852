"""Backups of files: read them, add to them, and restore a version.

Reading combines a session's own log with those of its sub-agents, which changed files too, and passes the
backup contents to ``model.file_history``.

Restoring writes into a person's project, so everything is explicit: the directory, the name below it, and
``overwrite`` for an existing file. Promises: nothing outside that directory is touched, no link below it is
followed, a crash leaves the old file or the new one, and a replaced file is kept beside it under a name that
is returned. A version that says "there was no such file" is not restored; deleting is left to the user.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import heapq
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgspec

from recollect.errors import NotFound, RecollectError, StorageError, UsageError
from recollect.model.damage import Damage
from recollect.model.entry import Entry
from recollect.model.files.events import FileBackup, backup_name
from recollect.model.files.history import BodyOf, FileVersion, VersionSource, file_versions
from recollect.model.ids import SessionId
from recollect.storage.home import ClaudeHome, SessionFile
from recollect.storage.logs.reader import LogReader
from recollect.system import fsops, openat

_DIRECTORY = "file-history"
# Names come from transcripts: only names that a client would give are looked up.
_NAME = re.compile(r"[0-9A-Za-z_-]{1,128}@v[0-9]{1,9}", re.ASCII)
_EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)


class RestoredFile(msgspec.Struct, frozen=True):
    """Where a version was restored.

    ``kept`` is the new path of the file that was there, None if there was none.
    """

    path: Path
    kept: Path | None


# ---- reading ---------------------------------------------------------------------------------------------


def touched_files(
    home: ClaudeHome, session: SessionFile, *, bodies: bool = True
) -> dict[str, list[FileVersion]]:
    """Every version of every file the session and its sub-agents touched.

    Without ``bodies`` no backup is opened: their versions have a name and no content, and edits that depend
    on one are unknown.
    """
    entries = session_entries(home, session)
    return file_versions(entries, session.first_cwd(), body_of=body_reader(home, session) if bodies else None)


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
    """Store the bytes of the file at ``path`` as the client would; ``model.file_history.snapshot`` makes the
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


def restore(
    version: FileVersion, directory: Path, name: str | None = None, *, overwrite: bool = False
) -> RestoredFile:
    """Write a version to ``name`` below ``directory``; without a name, under the file's own.

    Text is written as UTF-8. New files and directories get the mode the umask
    leaves, a replaced file keeps its own.
    """
    data = restorable(version)
    parts = openat.components(own_name(version.path) if name is None else name)
    path = directory.joinpath(*parts)
    openat.require_walk(path)
    try:
        with openat.opened(directory, parts[:-1], create=True) as above:
            kept = _put(above, parts[-1], path, data, overwrite=overwrite)
    except FileNotFoundError as cause:
        raise NotFound(f"no directory at {directory}", hint="create it first; nothing was written") from cause
    except FileExistsError as cause:
        hint = "choose another place, or allow overwriting"
        raise UsageError(f"{path}: a file is already there; it was not changed", hint=hint) from cause
    except OSError as cause:
        raise StorageError("restore", path, cause, hint=_next_step(cause)) from cause
    return RestoredFile(path, None if kept is None else path.with_name(kept))


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


def _put(above: int, name: str, path: Path, data: bytes, *, overwrite: bool) -> str | None:
    """Write ``name`` in the open directory; an existing file is renamed to the name that is returned."""
    found = openat.status(above, name)
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise openat.refused_link(path)
    if found is not None and not overwrite:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    temporary, kept = f".recollect-{secrets.token_hex(8)}.tmp", None
    try:
        openat.create_file(above, temporary, data, None if found is None else _mode(found))
        kept = None if found is None else _keep(above, name, found)
        _publish(above, temporary, name, replace=found is not None)
    except BaseException:
        for left_over in filter(None, (temporary, kept)):
            with contextlib.suppress(OSError):
                openat.remove(above, left_over)
        raise
    openat.sync(above)  # not before the rename: a crash could bring the old name back (S5)
    return kept


def _keep(above: int, name: str, found: os.stat_result) -> str:
    """A second name for the file that is about to be replaced; a copy where hard links are not possible."""
    kept, number = f"{name}.before-restore", 1
    while openat.status(above, kept) is not None:
        number += 1
        kept = f"{name}.before-restore-{number}"
    if not openat.give_second_name(above, name, kept):
        openat.create_file(above, kept, openat.read_at(above, name), _mode(found))
    return kept


def _publish(above: int, temporary: str, name: str, *, replace: bool) -> None:
    # A rename would replace a file that appeared since the check; a hard link does not.
    if not replace and openat.give_second_name(above, temporary, name):
        openat.remove(above, temporary)
    else:
        openat.replace(above, temporary, name)


def _mode(found: os.stat_result) -> int:
    return stat.S_IMODE(found.st_mode) & 0o777


def _next_step(cause: OSError) -> str:
    if cause.errno == errno.ELOOP:
        return "choose a directory without links; nothing was written"
    return f"nothing was written; {fsops.next_step(cause)}"
