"""The manifest of one archived session: every file, where it belongs, and the object with its bytes.

A manifest is two lines: JSON, and the SHA-256 of that line. It is published by a rename after every object it
names is durable, so it exists completely or not at all; a manifest with a wrong hash is damage, never a
shorter list of files.
"""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

import msgspec
from msgspec import Struct

from recollect.errors import DamagedData, InvalidId, UsageError
from recollect.model.ids import ProjectKey, SessionId
from recollect.storage.archive.objects import NAME, StoredObject
from recollect.system.openat import components

FORMAT = 1
# The directories of a home that may hold a session's files.
_PLACES = frozenset(["projects", "file-history", "tasks", "todos", "plans", "session-env"])


class ArchivedFile(Struct, frozen=True):
    """One file. ``path`` is relative to the home; device, inode and time show later whether it changed."""

    path: str
    stored: StoredObject
    mode: int
    mtime_ns: int
    inode: int = 0
    device: int = 0


class EarlierVersion(Struct, frozen=True):
    """A state of a file that the present one does not begin with: it was rewritten, and both are kept."""

    path: str
    stored: StoredObject
    archived_at: str


class Manifest(Struct, frozen=True):
    """All of one session. The first file is its log."""

    session: str
    project_key: str
    home: str
    cwd: str
    title: str
    first_at: str | None
    last_at: str | None
    archived_at: str
    files: tuple[ArchivedFile, ...]
    earlier: tuple[EarlierVersion, ...] = ()
    version: int = FORMAT

    @property
    def log(self) -> ArchivedFile:
        return self.files[0]

    @property
    def raw_bytes(self) -> int:
        return sum(file.stored.size for file in self.files)

    @property
    def stored_bytes(self) -> int:
        """Its size in the archive; an object that several sessions share counts in each."""
        return sum(file.stored.stored_bytes for file in self.files)

    def objects(self) -> dict[str, StoredObject]:
        every: tuple[ArchivedFile | EarlierVersion, ...] = (*self.files, *self.earlier)
        return {one.stored.sha256: one.stored for one in every}


def encoded(manifest: Manifest) -> bytes:
    line = msgspec.json.encode(manifest)
    return line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"


def decoded(data: bytes, name: str) -> Manifest:
    """A valid manifest that names only objects and places inside a home; ``DamagedData`` otherwise."""
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
    if not manifest.files:
        raise _damaged(name, "it names no file")
    every: tuple[ArchivedFile | EarlierVersion, ...] = (*manifest.files, *manifest.earlier)
    for one in every:
        _check_place(name, one.path)
        if not NAME.fullmatch(one.stored.sha256):
            raise _damaged(name, "it names an impossible object")
    if len({file.path.casefold() for file in manifest.files}) != len(manifest.files):
        raise _damaged(name, "it names a file twice")
    return manifest


def _check_place(name: str, path: str) -> None:
    try:
        parts = components(path)
    except UsageError as problem:
        raise _damaged(name, f"{path!a} leads out of the home") from problem
    if PurePosixPath(*parts).as_posix() != path or parts[0] not in _PLACES or len(parts) < 2:
        raise _damaged(name, f"{path!a} is not a place for a session's file")


def _damaged(name: str, problem: str) -> DamagedData:
    return DamagedData(
        f"archive manifest {name}: {problem}",
        hint="restore it from a copy of the archive; nothing was changed",
    )
