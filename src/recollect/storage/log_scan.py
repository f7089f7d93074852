"""Every log of a home in one walk, as plain values: what a refresh of the index compares.

The same files that ``ClaudeHome`` lists, without building paths and ids for each of
them: a refresh looks at thousands of files before every question, and most have not
changed. Names are taken as they are; whoever opens one goes through the tolerant reader.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

Role = Literal["session", "agent", "tool-output"]
_LOG, _AGENT = ".jsonl", "agent-"


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


def scan_logs(root: Path, problems: list[tuple[str, str]] | None = None) -> list[FoundLog]:
    """All logs below ``projects/`` of a home; what cannot be read is told in ``problems``."""
    return list(_Scan([] if problems is None else problems).home(root))


class _Scan:
    """One walk. A file that two names lead to is listed once, under the first."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self._problems = problems
        self._seen: set[tuple[int, int]] = set()

    def home(self, root: Path) -> Iterator[FoundLog]:
        projects = os.fspath(root / "projects")
        base = os.path.realpath(projects)
        reached: set[str] = set()
        for entry in sorted(self._entries(projects), key=lambda entry: (entry.is_symlink(), entry.name)):
            if not self._is_directory(entry):
                continue
            target = os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(base, entry.name)  # noqa: PTH118 - no Path for thousands of names
            if base == target or base.startswith(target.rstrip(os.sep) + os.sep):
                self._problems.append((entry.path, "link to a directory above it"))
            elif target not in reached:
                reached.add(target)
                yield from self._project(entry.path)

    def _project(self, directory: str) -> Iterator[FoundLog]:
        for entry in self._entries(directory):
            name = entry.name
            if name.endswith(_LOG):
                stem = name[: -len(_LOG)]
                if name.startswith(_AGENT):
                    yield from self._file(entry, "agent", None, stem[len(_AGENT) :])
                else:
                    yield from self._file(entry, "session", stem, None)
            elif self._is_directory(entry):
                yield from self._side_files(entry.path, name)

    def _side_files(self, directory: str, session: str) -> Iterator[FoundLog]:
        for entry in self._entries(directory):
            if entry.name not in ("subagents", "tool-results"):
                continue
            if not self._is_directory(entry, follow=False):
                # A link here could lead anywhere, and all below it would be walked at every question.
                self._problems.append((entry.path, "a link or a file in the place of a directory"))
            elif entry.name == "subagents":
                yield from self._agents(entry.path, session)
            else:
                for result in self._entries(entry.path):
                    yield from self._file(result, "tool-output", session, None, follow=False)

    def _agents(self, directory: str, session: str) -> Iterator[FoundLog]:
        waiting = [directory]
        while waiting:
            for entry in self._entries(waiting.pop()):
                name = entry.name
                if name.endswith(_LOG):
                    if name.startswith(_AGENT):
                        yield from self._file(entry, "agent", session, name[len(_AGENT) : -len(_LOG)])
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
    ) -> Iterator[FoundLog]:
        try:
            found = entry.stat(follow_symlinks=follow)
        except OSError as cause:
            if not isinstance(cause, FileNotFoundError) or entry.is_symlink():
                self._problems.append((entry.path, cause.strerror or "cannot be read"))
            return
        if not stat.S_ISREG(found.st_mode):
            self._problems.append((entry.path, "not a regular file"))
            return
        identity = (found.st_dev, found.st_ino)
        if found.st_ino and identity in self._seen:
            return
        self._seen.add(identity)
        yield FoundLog(
            entry.path, role, session, agent, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        )

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                return list(entries)
        except FileNotFoundError:
            return []
        except OSError as cause:
            self._problems.append((directory, cause.strerror or "cannot be read"))
            return []

    def _is_directory(self, entry: os.DirEntry[str], *, follow: bool = True) -> bool:
        try:
            return entry.is_dir(follow_symlinks=follow)
        except OSError as cause:
            self._problems.append((entry.path, cause.strerror or "cannot be read"))
            return False
