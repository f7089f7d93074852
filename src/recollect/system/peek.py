"""Look at other people's directories and files without touching, waiting or raising.

A Claude home is written by others while we read it: entries vanish between two
calls, a directory may be closed to us, a name may be a pipe that nobody ever
writes to. Everything here answers with what could be seen and puts the rest
into ``ReadProblems``, so that one bad name never hides the next one.

``peek_lines`` reads from the head of a log only as far as the caller asks and
decodes only the handful of fields that say what a line is. It is no parser of
entries: whoever wants the entry reads the log with the tolerant reader.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from recollect.model.damage import DEFAULT_LIMITS

# Imported where lines are read: most of those who come here only look at names.
if TYPE_CHECKING:
    from recollect.model.line_views.scan import Envelope

_CHUNK = 1 << 20
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
    """What could not be read at the last try, each path once."""

    def __init__(self) -> None:
        self._by_path: dict[Path, ReadProblem] = {}

    def note(self, path: Path, reason: str | OSError) -> None:
        """Remember why ``path`` is missing from the answer."""
        if isinstance(reason, OSError):
            reason = reason.strerror or type(reason).__name__
        self._by_path[path] = ReadProblem(path, reason)

    def solved(self, path: Path) -> None:
        """Forget ``path``: this time it could be read."""
        self._by_path.pop(path, None)

    def __iter__(self) -> Iterator[ReadProblem]:
        return iter(tuple(self._by_path.values()))

    def __len__(self) -> int:
        return len(self._by_path)


def list_directory(path: Path, problems: ReadProblems) -> list[os.DirEntry[str]]:
    """The entries of ``path`` by name; none where it is missing or closed to us."""
    try:
        with os.scandir(path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    except OSError as cause:
        problems.note(path, cause)
        return []
    problems.solved(path)
    return found


def is_directory(entry: os.DirEntry[str] | Path, problems: ReadProblems, *, follow: bool = True) -> bool:
    """Whether a directory is there; with ``follow``, also behind a link."""
    try:
        return stat.S_ISDIR(entry.stat(follow_symlinks=follow).st_mode)
    except FileNotFoundError:
        return False
    except OSError as cause:
        problems.note(Path(entry), cause)
        return False


def is_link(entry: os.DirEntry[str]) -> bool:
    """Whether the entry itself is a link, as far as the system lets us see."""
    try:
        return entry.is_symlink()
    except OSError:
        return False


def regular_file(
    entry: os.DirEntry[str], problems: ReadProblems, *, follow: bool = True
) -> os.stat_result | None:
    """The status of a file; with ``follow``, of the one behind a link. None if it is no regular file."""
    try:
        found = entry.stat(follow_symlinks=follow)
    except FileNotFoundError:
        if is_link(entry):
            problems.note(Path(entry.path), "link to a file that is not there")
        return None
    except OSError as cause:
        problems.note(Path(entry.path), cause)
        return None
    if not stat.S_ISREG(found.st_mode):
        problems.note(Path(entry.path), "not a regular file")
        return None
    if problems:  # a path costs more than all the rest, and ten thousand files have none
        problems.solved(Path(entry.path))
    return found


def open_regular(path: Path) -> BinaryIO:
    """Open for reading; an OSError for anything but a regular file, at once even for a pipe."""
    descriptor = os.open(path, _OPEN_FLAGS)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def peek_lines(path: Path, *, within: int | None = None) -> Iterator[Envelope]:
    """The readable lines from the head of a log, none that starts after byte ``within``.

    The unterminated last line counts if it reads as a whole, as it does for the client.
    """
    from recollect.model.line_views.scan import envelope_of

    with open_regular(path) as log:
        while within is None or log.tell() <= within:
            line = _next_line(log)
            if line is None:
                return
            found = envelope_of(line.rstrip(b"\r\n"))
            if found is not None:
                yield found


def _next_line(log: BinaryIO) -> bytes | None:
    """The next line, empty instead of one over the limit (rule L3); None at the end."""
    longest = DEFAULT_LIMITS.line_bytes
    line = log.readline(longest + 1)
    if not line:
        return None
    if len(line) <= longest or line.endswith(b"\n"):
        return line
    while line and not line.endswith(b"\n"):
        line = log.readline(_CHUNK)
    return b""
