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


def pieces(fd: int, end: int, start: int = 0) -> Iterator[bytes]:
    """The bytes of an open file from ``start`` to ``end``, or fewer if it is shorter."""
    while start < end and (piece := fsops.pread(fd, min(_CHUNK, end - start), start)):
        start += len(piece)
        yield piece


def digest(fd: int, size: int) -> str:
    """The SHA-256 of the first ``size`` bytes of an open file."""
    sha = hashlib.sha256()
    for piece in pieces(fd, size):
        sha.update(piece)
    return sha.hexdigest()


def digest_at(path: Path, size: int) -> str:
    """The SHA-256 of the first ``size`` bytes of a file; a link is not followed."""
    with fsops.reading(path) as fd:
        return digest(fd, size)


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
    with fsops.reading(source) as fd:
        size = fsops.size_of(fd)
        sha = write_new(target, pieces(fd, size), mode=mode, owner=owner, mtime_ns=mtime_ns)
    if digest_at(target, size + 1) != sha:
        raise OSError(errno.EIO, "the copy differs from the source", str(target))
    return sha


def tree_digest(path: Path) -> str:
    """A hash of names, sizes and times of a file, or of everything in a directory; file contents are not read."""
    sha = hashlib.sha256()
    for name, _, found in _everything(path):
        known = () if stat.S_ISDIR(found.st_mode) else (found.st_size, found.st_mtime_ns)
        sha.update(b"%s\0%r\0%r\n" % (os.fsencode(name), stat.S_IFMT(found.st_mode), known))
    return sha.hexdigest()


def _everything(path: Path, name: str = "") -> Iterator[tuple[str, Path, os.stat_result]]:
    """A file, or a directory with all that is in it, by name; links are not followed."""
    found = path.lstat()
    yield name, path, found
    if stat.S_ISDIR(found.st_mode):
        for inner in sorted(path.iterdir()):
            yield from _everything(inner, f"{name}/{inner.name}")


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


def copy_tree(source: Path, target: Path) -> None:
    """A complete, synced copy with modes and times; ``FileExistsError`` where ``target`` exists."""
    found = source.lstat()
    if stat.S_ISLNK(found.st_mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISDIR(found.st_mode):
        target.mkdir(fsops.DIRECTORY_MODE)
        for inner in sorted(source.iterdir()):
            copy_tree(inner, target / inner.name)
        fsops.sync_dir(target)
    elif stat.S_ISREG(found.st_mode):
        with fsops.reading(source) as fd:
            write_new(target, pieces(fd, fsops.size_of(fd)))
    else:
        raise OSError(errno.EINVAL, "neither a file nor a directory", str(source))
    _copy_times(found, target)
    fsops.sync_dir(target.parent)


def _copy_times(found: os.stat_result, target: Path) -> None:
    times = (found.st_atime_ns, found.st_mtime_ns)
    if not stat.S_ISLNK(found.st_mode):
        target.chmod(stat.S_IMODE(found.st_mode))
        os.utime(target, ns=times)
    elif os.utime in os.supports_follow_symlinks:
        os.utime(target, ns=times, follow_symlinks=False)


def is_same_tree(one: Path, other: Path) -> bool:
    """Whether both hold the same names and bytes; modes and times, which some file systems round, do not count."""
    return list(map(_contents, _everything(one))) == list(map(_contents, _everything(other)))


def _contents(entry: tuple[str, Path, os.stat_result]) -> tuple[str, str]:
    name, path, found = entry
    if stat.S_ISDIR(found.st_mode):
        return name, "directory"
    is_link = stat.S_ISLNK(found.st_mode)
    return name, f"link {path.readlink()}" if is_link else f"file {digest_at(path, found.st_size)}"


def regular_files(directory: Path) -> list[Path]:
    """The files in a directory, by name, without links and directories; a missing directory is empty."""
    try:
        found = sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for path in found if stat.S_ISREG(path.lstat().st_mode)]


def copy_regular_files(sources: Iterable[Path], target: Path) -> None:
    """Copy files with their times; the directory is created if missing."""
    fsops.make_directories(target)
    for source in sources:
        with fsops.reading(source) as fd:
            found = os.fstat(fd)
            data = fsops.pread(fd, found.st_size, 0)
        copy = target / source.name
        fsops.replace_file(copy, data)
        os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))
