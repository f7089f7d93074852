"""Copies, compares and deletes a file, a link or a directory with everything in it; no link is followed."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from recollect.system import fsops
from recollect.system.whole_files import digest_at, pieces, tree_digest


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
        _copy_file(source, target)
    else:
        raise OSError(errno.EINVAL, "neither a file nor a directory", str(source))
    _copy_times(found, target)
    fsops.sync_dir(target.parent)


def _copy_file(source: Path, target: Path) -> None:
    reading, writing = fsops.open_nofollow(source), fsops.create_new(target)
    try:
        for piece in pieces(reading, fsops.size_of(reading)):
            fsops.write_all(writing, piece)
        fsops.sync_file(writing)
    finally:
        fsops.close_quietly(reading)
        fsops.close(writing)


def _copy_times(found: os.stat_result, target: Path) -> None:
    times = (found.st_atime_ns, found.st_mtime_ns)
    if not stat.S_ISLNK(found.st_mode):
        target.chmod(stat.S_IMODE(found.st_mode))
        os.utime(target, ns=times)
    elif os.utime in os.supports_follow_symlinks:
        os.utime(target, ns=times, follow_symlinks=False)


def is_same_tree(one: Path, other: Path) -> bool:
    """Whether both hold the same names and bytes; modes and times, which some file systems round, do not count."""
    return list(_contents(one, "")) == list(_contents(other, ""))


def _contents(path: Path, name: str) -> Iterator[tuple[str, str]]:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        yield name, f"link {path.readlink()}"
    elif stat.S_ISDIR(found.st_mode):
        yield name, "directory"
        for inner in sorted(path.iterdir()):
            yield from _contents(inner, f"{name}/{inner.name}")
    else:
        yield name, f"file {found.st_size} {digest_at(path, found.st_size)}"


def seal_of(path: Path) -> str:
    """A text that changes when anything is written below a path: names, sizes and times, not contents."""
    found = path.lstat()
    return tree_digest(path) if stat.S_ISDIR(found.st_mode) else f"{found.st_size} {found.st_mtime_ns}"


def discard_tree(path: Path) -> None:
    """Delete it for good, if it is there: a copy, or an original whose copy was compared."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
