"""Copies small files into a new directory, each complete and synced under its name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from recollect.system import fsops


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
        fd = fsops.open_nofollow(source)
        try:
            found = os.fstat(fd)
            data = fsops.pread(fd, found.st_size, 0)
        finally:
            fsops.close_quietly(fd)
        copy = target / source.name
        fsops.replace_file(copy, data)
        os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))
