"""Hashes, writes and copies whole files piece by piece, in constant memory.

A written file is complete, synced and has its mode and time when the call returns; its name is durable
once the caller has synced the directory (S5). A copy is read back and compared. A call that fails may
leave part of a file: the caller chose its name and removes it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from recollect.system import fsops

_CHUNK = 1 << 20


def pieces(fd: int, size: int) -> Iterator[bytes]:
    """The first ``size`` bytes of an open file, or fewer if it is shorter."""
    offset = 0
    while offset < size and (piece := fsops.pread(fd, min(_CHUNK, size - offset), offset)):
        offset += len(piece)
        yield piece


def digest(fd: int, size: int) -> str:
    """The SHA-256 of the first ``size`` bytes of an open file."""
    sha = hashlib.sha256()
    for piece in pieces(fd, size):
        sha.update(piece)
    return sha.hexdigest()


def digest_at(path: Path, size: int) -> str:
    """The SHA-256 of the first ``size`` bytes of a file; a link is not followed."""
    fd = fsops.open_nofollow(path)
    try:
        return digest(fd, size)
    finally:
        fsops.close_quietly(fd)


def write_new(
    path: Path,
    data: bytes | Iterable[bytes],
    *,
    mode: int = fsops.FILE_MODE,
    owner: tuple[int, int] | None = None,
    mtime_ns: int | None = None,
) -> str:
    """Create a file with these bytes and return their hash; ``FileExistsError`` where the name exists."""
    fd = fsops.create_new(path)
    try:
        sha = hashlib.sha256()
        for piece in _large([data] if isinstance(data, bytes) else data):
            sha.update(piece)
            fsops.write_all(fd, piece)
        if owner is not None:
            fsops.give_owner(fd, *owner)
        if stat.S_IMODE(mode) != fsops.FILE_MODE:
            fsops.give_mode(fd, stat.S_IMODE(mode))
        if mtime_ns is not None:
            fsops.give_time(path, mtime_ns)
        fsops.sync_file(fd)
    finally:
        fsops.close(fd)
    return sha.hexdigest()


def copy_verified(
    source: Path,
    target: Path,
    *,
    mode: int = fsops.FILE_MODE,
    owner: tuple[int, int] | None = None,
    mtime_ns: int | None = None,
) -> str:
    """Copy a file at its current length, read the copy back, and return the hash of both."""
    fd = fsops.open_nofollow(source)
    try:
        size = fsops.size_of(fd)
        sha = write_new(target, pieces(fd, size), mode=mode, owner=owner, mtime_ns=mtime_ns)
    finally:
        fsops.close_quietly(fd)
    if digest_at(target, size + 1) != sha:
        raise OSError(errno.EIO, "the copy differs from the source", str(target))
    return sha


def tree_digest(directory: Path) -> str:
    """A hash of names, sizes and times of everything in a directory; file contents are not read."""
    sha = hashlib.sha256()
    for line in _described(directory, ""):
        sha.update(line)
    return sha.hexdigest()


def _described(directory: Path, prefix: str) -> Iterator[bytes]:
    with os.scandir(directory) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        name, status = prefix + entry.name, entry.stat(follow_symlinks=False)
        is_directory = stat.S_ISDIR(status.st_mode)
        known = () if is_directory else (status.st_size, status.st_mtime_ns)
        yield b"%s\0%r\0%r\n" % (os.fsencode(name), stat.S_IFMT(status.st_mode), known)
        if is_directory:
            yield from _described(Path(entry.path), f"{name}/")


def _large(data: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in larger pieces: a stream of lines would be one system call each."""
    waiting: list[bytes] = []
    length = 0
    for piece in data:
        waiting.append(piece)
        length += len(piece)
        if length >= _CHUNK:
            yield b"".join(waiting)
            waiting.clear()
            length = 0
    if waiting:
        yield b"".join(waiting)
