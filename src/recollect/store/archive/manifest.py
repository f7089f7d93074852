"""The manifest of one archived session: every file, where it belongs, and the object with its bytes.

A manifest is two lines: JSON, and the SHA-256 of that line. It is published by a rename after every object it
names is durable, so it exists completely or not at all; a manifest with a wrong hash is damage, never a
shorter list of files.

A manifest may come from elsewhere, in a bundle. So it can name only files of its own session
(``store/session_files.py``), and ``is_own`` is true only for what this machine archived itself: an import never
sets it. Everything that depends on trust (the home it came from, modes, plans, shell environments) asks for it.
"""

from __future__ import annotations

import datetime as dt
import hashlib

import msgspec
from msgspec import Struct, structs

from recollect.errors import DamagedData, InvalidId, UsageError
from recollect.model.lines.ids import ProjectKey, SessionId
from recollect.store.archive.objects import NAME, StoredObject
from recollect.store.session_files import is_own_path, is_session_path, log_parts
from recollect.system import fsops
from recollect.system.openat import components

FORMAT = 1
_MOST = 1 << 63
_DAY = dt.timedelta(days=1)
# Files that belong to several sessions: one that is there stays.
SHARED_PLACES = ("plans/", "paste-cache/")


class ArchivedFile(Struct, frozen=True, omit_defaults=True):
    """One file. ``path`` is relative to the home; device, inode and time show later whether it changed.

    Of an earlier state, which the present one does not begin with because the file was rewritten, only ``archived_at`` is known.
    """

    path: str
    stored: StoredObject
    mode: int = 0
    mtime_ns: int = 0
    inode: int = 0
    device: int = 0
    archived_at: str = ""


class Manifest(Struct, frozen=True):
    """All of one session. The first file is its log. ``is_own``: it was archived on this machine, from ``home``.

    ``prompts`` are its lines of ``history.jsonl``; an import has none.
    """

    session: str
    project_key: str
    home: str
    cwd: str
    title: str
    first_at: str | None
    last_at: str | None
    archived_at: str
    files: tuple[ArchivedFile, ...]
    earlier: tuple[ArchivedFile, ...] = ()
    version: int = FORMAT
    is_own: bool = False
    prompts: StoredObject | None = None

    @property
    def log(self) -> ArchivedFile:
        """The session's own log."""
        return self.files[0]

    @property
    def raw_bytes(self) -> int:
        """Its size in the home."""
        return sum(file.stored.size for file in self.files)

    @property
    def stored_bytes(self) -> int:
        """Its size in the archive; an object that several sessions share counts in each."""
        return sum(file.stored.stored_bytes for file in self.files)

    def objects(self) -> dict[str, StoredObject]:
        """All that it names, by their hash."""
        stored = [one.stored for one in (*self.files, *self.earlier)] + (
            [] if self.prompts is None else [self.prompts]
        )
        return {one.sha256: one for one in stored}

    def restorable(self) -> tuple[ArchivedFile, ...]:
        """The files that a restore puts back, with their modes: of an import only those of a session, 0600."""
        if self.is_own:
            return tuple(
                structs.replace(file, mode=file.mode & 0o700 | fsops.FILE_MODE) for file in self.files
            )
        chosen = (file for file in self.files if self.may_come_from_elsewhere(file.path))
        return tuple(structs.replace(file, mode=fsops.FILE_MODE) for file in chosen)

    def may_come_from_elsewhere(self, path: str) -> bool:
        """Whether a path is one of those that a server or a bundle may name for this session."""
        return is_session_path(components(path), self.project_key, self.session)


def encoded(manifest: Manifest) -> bytes:
    line = msgspec.json.encode(manifest)
    return line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"


def decoded(data: bytes, name: str) -> Manifest:
    """A valid manifest that names only objects and files of its session; ``DamagedData`` otherwise."""
    line, _, rest = data.partition(b"\n")
    if rest != hashlib.sha256(line).hexdigest().encode() + b"\n":
        raise _damaged(name, "its hash is wrong")
    try:
        manifest = msgspec.json.decode(line, type=Manifest)
        SessionId(manifest.session)
        ProjectKey(manifest.project_key)
    except (msgspec.DecodeError, UnicodeDecodeError, InvalidId) as problem:
        raise _damaged(name, str(problem)) from problem
    if manifest.version != FORMAT:
        raise _damaged(name, f"format {manifest.version} is not known here")
    if not manifest.files or manifest.log.path != "/".join(log_parts(manifest.project_key, manifest.session)):
        raise _damaged(name, "its first file is not the log of its session")
    times = [manifest.first_at, manifest.last_at, manifest.archived_at]
    for time in (*times, *(one.archived_at for one in manifest.earlier)):
        if time is not None and not _is_time(time):
            raise _damaged(name, f"{time[:40]!a} is not a time")
    for one in (*manifest.files, *manifest.earlier):
        _check_file(manifest, one)
    if manifest.prompts is not None and not NAME.fullmatch(manifest.prompts.sha256):
        raise _damaged(name, "it names an impossible object")
    if len({file.path.casefold() for file in manifest.files}) != len(manifest.files):
        raise _damaged(name, "it names a file twice")
    return manifest


def _check_file(manifest: Manifest, file: ArchivedFile) -> None:
    name, stored = manifest.session, file.stored
    try:
        parts = components(file.path)
    except UsageError as problem:
        raise _damaged(name, f"{file.path[:200]!a} leads out of the home") from problem
    if not is_own_path(parts, manifest.project_key, manifest.session):
        raise _damaged(name, f"{file.path[:200]!a} is not a file of its session")
    if not NAME.fullmatch(stored.sha256):
        raise _damaged(name, "it names an impossible object")
    numbers = [stored.size, stored.stored_bytes, file.mode, file.mtime_ns, file.inode, file.device]
    if any(not 0 <= number < _MOST for number in numbers):
        raise _damaged(name, f"{file.path[:200]!a} has an impossible size, time or mode")


def time_text(moment: dt.datetime | None) -> str | None:
    """A time as a manifest records it; None for one that a manifest may not hold."""
    text = None if moment is None else moment.isoformat()
    return text if text is not None and _is_time(text) else None


def _is_time(text: str) -> bool:
    """Whether it is a moment with a time zone, which every reader can compare and show in its own."""
    try:
        moment = dt.datetime.fromisoformat(text)
        return moment.tzinfo is not None and moment - _DAY < moment + _DAY
    except (ValueError, OverflowError):
        return False


def _damaged(name: str, problem: str) -> DamagedData:
    return DamagedData(
        f"archive manifest {name}: {problem}",
        hint="restore it from a copy of the archive; nothing was changed",
    )
