"""Reads directories and files of other programs without changing, blocking or raising.

A Claude home is written by others while we read it: entries vanish between two calls, a directory may
be unreadable, a name may be a pipe without a writer. Functions here return what could be read and add
the rest to ``ReadProblems``, so one bad name never hides the next.

``peek_lines`` reads the head of a log only as far as the caller asks and decodes only the few fields
that classify a line. To parse entries, use the tolerant reader.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from recollect.model.lines.damage import Line, split_lines
from recollect.model.views.fact_line import FactLine, fact_line

# The head of a log is mostly asked for its first lines.
_PIECE = 16 << 10
# O_NONBLOCK: opening a pipe must fail our check, not wait for a writer that never comes.
_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


class ReadProblem(msgspec.Struct, frozen=True):
    """A path that could not be read as what it should be, and why."""

    path: Path
    reason: str


class ReadProblems:
    """Paths that could not be read at the last attempt, each once."""

    def __init__(self) -> None:
        self._by_path: dict[Path, ReadProblem] = {}

    def note(self, path: Path, reason: str | OSError) -> None:
        """Record why ``path`` is missing from the result."""
        if isinstance(reason, OSError):
            reason = reason.strerror or type(reason).__name__
        self._by_path[path] = ReadProblem(path, reason)

    def solved(self, path: Path) -> None:
        """Remove ``path``: this time it could be read."""
        self._by_path.pop(path, None)

    def __iter__(self) -> Iterator[ReadProblem]:
        return iter(tuple(self._by_path.values()))

    def __len__(self) -> int:
        return len(self._by_path)


def list_directory(path: Path | str, problems: ReadProblems) -> list[os.DirEntry[str]]:
    """The entries of ``path`` by name; none where it is missing or unreadable."""
    try:
        with os.scandir(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as cause:
        problems.note(Path(path), cause)
        return []
    if problems:  # a Path costs more than all the rest, and most directories need none
        problems.solved(Path(path))
    return found


def is_directory(entry: os.DirEntry[str] | Path, problems: ReadProblems, *, follow: bool = True) -> bool:
    """Whether the entry is a directory; with ``follow``, also a link to one."""
    try:
        if isinstance(entry, Path):
            return stat.S_ISDIR(entry.stat(follow_symlinks=follow).st_mode)
        return entry.is_dir(follow_symlinks=follow)
    except FileNotFoundError:
        return False
    except OSError as cause:
        problems.note(Path(entry), cause)
        return False


def is_link(entry: os.DirEntry[str]) -> bool:
    """Whether the entry itself is a link; False if that cannot be determined."""
    try:
        return entry.is_symlink()
    except OSError:
        return False


def regular_file(
    entry: os.DirEntry[str], problems: ReadProblems, *, follow: bool = True
) -> os.stat_result | None:
    """The status of a regular file, else None; with ``follow``, of a link's target."""
    try:
        found = entry.stat(follow_symlinks=follow)
    except FileNotFoundError:
        if is_link(entry):
            problems.note(Path(entry.path), "link to a missing file")
        return None
    except OSError as cause:
        problems.note(Path(entry.path), cause)
        return None
    if not stat.S_ISREG(found.st_mode):
        problems.note(Path(entry.path), "not a regular file")
        return None
    if problems:  # a Path costs more than all the rest, and most files need none
        problems.solved(Path(entry.path))
    return found


def open_regular(path: Path) -> BinaryIO:
    """Open for reading; an OSError for anything but a regular file, immediately even for a pipe."""
    descriptor = os.open(path, _OPEN_FLAGS)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def first_bytes(path: str, size: int) -> bytes:
    """How a file begins, for callers with thousands of them; what is not a regular file may begin with nothing."""
    descriptor = os.open(path, _OPEN_FLAGS)
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def peek_lines(path: Path, *, within: int | None = None) -> Iterator[FactLine]:
    """The readable lines from the head of a log, none that starts after byte ``within``."""
    with open_regular(path) as log:

        def read(size: int, offset: int) -> bytes:
            log.seek(offset)
            return log.read(min(size, _PIECE))

        for line in split_lines(read):
            if within is not None and line.offset > within:
                return
            links = fact_line(line.data) if isinstance(line, Line) else None
            if links is not None:
                yield links
