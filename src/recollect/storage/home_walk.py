"""Every log of a home in one walk, as plain values: what a refresh of the index compares.

The same files that ``ClaudeHome`` lists, without building paths and ids for each of
them: a refresh looks at thousands of files before every question, and most have not
changed. Names are taken as they are; readers open them with the tolerant reader.

A walk also tells which directories it saw, and when those last gained or lost a name. As long
as all of them are as they were, no log can have come or gone, and a look at the known ones
says all that another walk would (``have_same_names``).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

Role = Literal["session", "agent", "tool-output"]
_LOG, _AGENT = ".jsonl", "agent-"
# Longer than any clock of a file system takes from one tick to the next.
_SETTLED_NS = 3_000_000_000


class FoundLog(NamedTuple):
    """One file as it was seen. ``session`` is None where only the log's lines say whose it is."""

    path: str
    role: Role
    session: str | None
    agent: str | None
    device: int
    inode: int
    size: int
    mtime_ns: int


class SeenDirectory(NamedTuple):
    """A directory as it was before its names were read."""

    path: str
    device: int
    inode: int
    mtime_ns: int


class HomeWalk(Struct, frozen=True):
    """What one walk saw. ``directories`` is None where they cannot stand for the names in them."""

    logs: list[FoundLog]
    directories: list[SeenDirectory] | None


def scan_logs(root: Path, problems: list[tuple[str, str]] | None = None) -> list[FoundLog]:
    """All logs below ``projects/`` of a home; what cannot be read is told in ``problems``."""
    return walk(root, problems).logs


def walk(root: Path, problems: list[tuple[str, str]] | None = None) -> HomeWalk:
    """As ``scan_logs``, with the directories that were walked through."""
    scan = _LogScanner([] if problems is None else problems)
    began = time.time_ns()
    scan.home(root)
    # A directory that changed just now may change once more without its time telling: clocks tick.
    is_settled = all(seen.inode and seen.mtime_ns < began - _SETTLED_NS for seen in scan.directories)
    is_whole = scan.is_whole and is_settled and all(log.inode for log in scan.found)
    return HomeWalk(scan.found, scan.directories if is_whole else None)


def have_same_names(directories: Iterable[SeenDirectory]) -> bool:
    """Whether no name was added to these directories or taken away since they were walked through."""
    look = os.stat
    try:
        for path, device, inode, mtime in directories:
            now = look(path)
            if now.st_mtime_ns != mtime or now.st_ino != inode or now.st_dev != device:
                return False
    except OSError:
        return False
    return True


def look_at(path: str) -> tuple[int, int, int, int] | None:
    """Device, inode, size and time of a log, in the order ``FoundLog`` has them; None where it cannot be seen."""
    try:
        now = os.stat(path)  # noqa: PTH116 - no Path for thousands of names
    except OSError:
        return None
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


class _LogScanner:
    """One walk. A file that two names lead to is listed once, under the first.

    Sessions come before sub-agents, and those before results of tools: a link can make one file all of them.
    """

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.found: list[FoundLog] = []
        self.directories: list[SeenDirectory] = []
        self.is_whole = True
        self._problems = problems
        self._seen: set[tuple[int, int]] = set()
        self._session_directories: list[tuple[str, str]] = []
        self._results: list[tuple[str, str]] = []

    def home(self, root: Path) -> None:
        projects = os.fspath(root / "projects")
        base = os.path.realpath(projects)
        reached: set[str] = set()
        for entry in sorted(self._entries(projects), key=lambda entry: (entry.is_symlink(), entry.name)):
            if not self._is_directory(entry):
                continue
            target = os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(base, entry.name)  # noqa: PTH118 - no Path for thousands of names
            if base == target or base.startswith(target.rstrip(os.sep) + os.sep):
                self._problems.append((entry.path, "link to a directory above it"))
            elif target in reached:
                self.is_whole = False
            else:
                reached.add(target)
                self._project(entry.path)
        for directory, session in self._session_directories:
            self._side_files(directory, session)
        for directory, session in self._results:
            for result in self._entries(directory):
                self._file(result, "tool-output", session, None, follow=False)

    def _project(self, directory: str) -> None:
        for entry in self._entries(directory):
            name = entry.name
            if name.endswith(_LOG):
                stem = name[: -len(_LOG)]
                if name.startswith(_AGENT):
                    self._file(entry, "agent", None, stem[len(_AGENT) :])
                else:
                    self._file(entry, "session", stem, None)
            elif self._is_directory(entry):
                self._session_directories.append((entry.path, name))

    def _side_files(self, directory: str, session: str) -> None:
        for entry in self._entries(directory):
            if entry.name not in ("subagents", "tool-results"):
                continue
            if not self._is_directory(entry, follow=False):
                # A link here could lead anywhere, and all below it would be walked at every question.
                self._problems.append((entry.path, "a link or a file in the place of a directory"))
            elif entry.name == "subagents":
                self._agents(entry.path, session)
            else:
                self._results.append((entry.path, session))

    def _agents(self, directory: str, session: str) -> None:
        waiting = [directory]
        while waiting:
            for entry in self._entries(waiting.pop()):
                name = entry.name
                if name.endswith(_LOG):
                    if name.startswith(_AGENT):
                        self._file(entry, "agent", session, name[len(_AGENT) : -len(_LOG)])
                elif self._is_directory(entry, follow=False):
                    waiting.append(entry.path)

    def _file(
        self,
        entry: os.DirEntry[str],
        role: Role,
        session: str | None,
        agent: str | None,
        *,
        follow: bool = True,
    ) -> None:
        try:
            found = entry.stat(follow_symlinks=follow)
        except OSError as cause:
            if not isinstance(cause, FileNotFoundError) or entry.is_symlink():
                self._problems.append((entry.path, cause.strerror or "cannot be read"))
            return
        if not stat.S_ISREG(found.st_mode):
            self._problems.append((entry.path, "not a regular file"))
            return
        device, inode = identity = found.st_dev, found.st_ino
        if inode and identity in self._seen:
            self.is_whole = False
            return
        self._seen.add(identity)
        self.found.append(
            FoundLog(entry.path, role, session, agent, device, inode, found.st_size, found.st_mtime_ns)
        )

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            seen = os.stat(directory)  # noqa: PTH116 - no Path for thousands of names
            self.directories.append(SeenDirectory(directory, seen.st_dev, seen.st_ino, seen.st_mtime_ns))
            with os.scandir(directory) as entries:
                return list(entries)
        except FileNotFoundError:
            self.is_whole = False
            return []
        except OSError as cause:
            self._problems.append((directory, cause.strerror or "cannot be read"))
            return []

    def _is_directory(self, entry: os.DirEntry[str], *, follow: bool = True) -> bool:
        try:
            is_directory = entry.is_dir(follow_symlinks=follow)
            # What a link leads to may become a directory without any name changing here.
            if not is_directory and entry.is_symlink():
                self.is_whole = False
            return is_directory
        except OSError as cause:
            self._problems.append((entry.path, cause.strerror or "cannot be read"))
            return False
