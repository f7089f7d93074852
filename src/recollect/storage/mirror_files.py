"""The files of a mirror: a Claude home that is filled from elsewhere and may be deleted at any time.

It is a cache, so nothing is synced to the disk. The writer checks what is there before adding to it, and
holds the lock meanwhile. Readers hold nothing: a log grows by whole lines, and every other file gets its name
when it is complete. Callers check the names in paths; nothing here follows a link.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from recollect.system import fsops
from recollect.system.lock import FileLock
from recollect.system.peek import open_regular
from recollect.system.refusals import as_storage_error

_LOG, _AGENT, _TODO = ".jsonl", "agent-", "-agent-"
_PIECE = 1 << 20
_LOCK_SECONDS = 120.0


class FileMark(Struct, frozen=True):
    """The identity and size of a file."""

    inode: int
    size: int


class MirrorFiles:
    """One mirror below a directory: ``home`` is its Claude home."""

    def __init__(self, root: Path) -> None:
        self.root, self.home = root, root / "home"
        self.projects = self.home / "projects"
        self._incoming = root / "incoming"
        self.lock = FileLock(root / "lock", _LOCK_SECONDS, guards=self.home)

    def make(self) -> None:
        """Create the empty home if it is missing."""
        with as_storage_error("create", self.projects):
            fsops.make_directories(self.projects)

    def sessions(self) -> dict[str, Path]:
        """The sessions that have a log or a directory here, each with its parent directory."""
        found: dict[str, Path] = {}
        for project in fsops.entries(self.projects):
            with contextlib.suppress(NotADirectoryError), os.scandir(project) as entries:
                for entry in entries:
                    is_session = entry.name.endswith(_LOG) or entry.is_dir(follow_symlinks=False)
                    if is_session and not entry.name.startswith(_AGENT):
                        found[entry.name.removesuffix(_LOG)] = project
        return found

    def mark(self, path: Path) -> FileMark | None:
        """The file at a path; None where there is none."""
        try:
            seen = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileMark(seen.st_ino, seen.st_size)

    def lines(self, path: Path, start: int) -> Iterator[bytes]:
        """The lines from a byte on; the last one may lack its newline."""
        with open_regular(path) as file:
            file.seek(start)
            yield from file

    def bytes_of(self, path: Path) -> Iterator[bytes]:
        with open_regular(path) as file:
            while piece := file.read(_PIECE):
                yield piece

    def append(self, path: Path, lines: bytes) -> None:
        """Add whole lines to a log, in one write."""
        with as_storage_error("append to", path):
            opened = fsops.open_append(path)
            try:
                fsops.write_all(opened.fd, lines)
            finally:
                fsops.close_quietly(opened.fd)

    def put(self, path: Path, pieces: Iterable[bytes]) -> None:
        """Write a complete file: under a temporary name first, then renamed.

        One at a time, under the lock.
        """
        with as_storage_error("write", path):
            with contextlib.suppress(FileNotFoundError):
                fsops.unlink(self._incoming)
            fd = fsops.create_new(self._incoming)
            try:
                for piece in pieces:
                    fsops.write_all(fd, piece)
            finally:
                fsops.close_quietly(fd)
            fsops.make_directories(path.parent)
            fsops.rename_over(self._incoming, path)

    def date(self, path: Path, milliseconds: int) -> None:
        """Set the modification time of a log."""
        with contextlib.suppress(OSError):
            fsops.give_time(path, milliseconds * 1_000_000)

    def keep_only(self, session: str, project: Path, expected: set[Path]) -> None:
        """Remove the files of a session that are not expected."""
        for path in list(self._files(session, project)):
            if path not in expected:
                with as_storage_error("remove", path):
                    fsops.unlink(path)

    def remove(self, session: str) -> bool:
        """Remove all files of a session, its log last, so that an interrupted removal can be found and
        repeated.
        """
        places = [project for project in fsops.entries(self.projects) if project.is_dir()]
        found = False
        with as_storage_error("remove", self.home):
            for path in self._todos(session):
                fsops.unlink(path)
            rooms = [self.home / "file-history" / session, self.home / "tasks" / session]
            for directory in (*rooms, *(place / session for place in places)):
                if directory.is_dir() and not directory.is_symlink():
                    shutil.rmtree(directory)
                    found = True
            for place in places:
                with contextlib.suppress(FileNotFoundError):
                    fsops.unlink(place / f"{session}{_LOG}")
                    found = True
        return found

    def sizes(self, sessions: Iterable[tuple[str, Path]]) -> dict[str, int]:
        """The bytes of sessions, each with its parent directory; that whose log changed first comes first."""
        found = [(self._modified(project / f"{name}{_LOG}"), name, project) for name, project in sessions]
        return {
            name: sum(mark.size for path in self._files(name, project) if (mark := self.mark(path)))
            for _, name, project in sorted(found)
        }

    def _modified(self, path: Path) -> int:
        with contextlib.suppress(OSError):
            return path.lstat().st_mtime_ns
        return 0

    def _files(self, session: str, project: Path) -> Iterator[Path]:
        log = project / f"{session}{_LOG}"
        if log.is_file():
            yield log
        for directory in (
            project / session,
            *(self.home / room / session for room in ("file-history", "tasks")),
        ):
            for above, _, names in os.walk(directory):
                yield from (Path(above) / name for name in names)
        yield from self._todos(session)

    def _todos(self, session: str) -> list[Path]:
        todos = fsops.entries(self.home / "todos")
        return [path for path in todos if path.stem.partition(_TODO)[0] == session]
