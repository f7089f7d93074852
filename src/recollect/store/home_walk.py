"""Where the logs of a home lie, and every log of it in one walk, as plain values.

The rules come first: what a file is by its name, which project directories there are, where the
logs of sub-agents lie, which links are followed. ``ClaudeHome`` lists by them too, with paths and ids. A walk
builds neither: a refresh looks at thousands of files before every question, and most have not
changed. Names are taken as they are; readers open them with the tolerant reader.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from recollect.system.peek import ReadProblems, is_directory, list_directory, regular_file

Role = Literal["session", "agent", "tool-output"]
LOG, AGENT = ".jsonl", "agent-"
_SUBAGENTS, _RESULTS = "subagents", "tool-results"
# Longer than any clock of a file system takes from one tick to the next.
_SETTLED_NS = 3_000_000_000


def role_of(name: str) -> Role | None:
    """What a file in a project directory is, by its name; None for what is no log."""
    if not name.endswith(LOG):
        return None
    return "agent" if name.startswith(AGENT) else "session"


def project_directories(problems: ReadProblems, projects: Path) -> Iterator[tuple[os.DirEntry[str], bool]]:
    """Every project directory: real ones first, then links; and whether another name led to it before.

    A link to a directory that holds the listing itself is noted and left out.
    """
    base = os.path.realpath(projects)
    reached: set[str] = set()
    for entry in sorted(
        list_directory(projects, problems), key=lambda entry: (entry.is_symlink(), entry.name)
    ):
        if not is_directory(entry, problems):
            continue
        target = os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(base, entry.name)  # noqa: PTH118 - no Path for thousands of names
        if base == target or base.startswith(target.rstrip(os.sep) + os.sep):
            problems.note(Path(entry.path), "link to a directory above it")
        else:
            yield entry, target in reached
            reached.add(target)


def may_be_side_directory(problems: ReadProblems, entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a project directory may hold the side files of a session; it may be a link."""
    # Logs are by far the most entries; checking the name first saves a system call.
    return not entry.name.endswith(LOG) and is_directory(entry, problems)


def agent_directories(
    problems: ReadProblems, side_files: Iterable[os.DirEntry[str]]
) -> Iterator[list[os.DirEntry[str]]]:
    """The directories with logs of a session's sub-agents, each as its entries, of the entries of its side directory.

    No link is followed: it could lead anywhere, and all below it would be walked at every question.
    """
    for entry in side_files:
        if entry.name != _SUBAGENTS:
            continue
        if not is_directory(entry, problems, follow=False):
            problems.note(Path(entry.path), "a link or a file in the place of a directory")
            continue
        waiting = [entry.path]
        while waiting:
            entries = list_directory(waiting.pop(), problems)
            yield entries
            waiting += [
                one.path
                for one in reversed(entries)
                if not one.name.endswith(LOG) and is_directory(one, problems, follow=False)
            ]


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


def scan_logs(root: Path, problems: list[tuple[str, str]] | None = None) -> list[FoundLog]:
    """All logs below ``projects/`` of a home; what cannot be read is told in ``problems``."""
    scan = _LogScanner()
    scan.home(root)
    if problems is not None:
        problems += [(str(one.path), one.reason) for one in scan.problems]
    return scan.found


def seen_directory(path: str) -> SeenDirectory:
    """A directory as it is now: to be asked before its names are read."""
    seen = os.stat(path)  # noqa: PTH116 - no Path for thousands of names
    return SeenDirectory(path, seen.st_dev, seen.st_ino, seen.st_mtime_ns)


def are_settled(directories: Iterable[SeenDirectory], now_ns: int) -> bool:
    """Whether their times would tell of the next change: one that changed just now may change within the same tick."""
    return all(seen.inode and seen.mtime_ns < now_ns - _SETTLED_NS for seen in directories)


class _LogScanner:
    """One walk. A file that two names lead to is listed once, under the first.

    Sessions come before sub-agents, and those before results of tools: a link can make one file all of them.
    """

    def __init__(self) -> None:
        self.found: list[FoundLog] = []
        self.problems = ReadProblems()
        self._seen: set[tuple[int, int]] = set()
        self._session_directories: list[tuple[str, str]] = []
        self._results: list[tuple[str, str]] = []

    def home(self, root: Path) -> None:
        for entry, is_repeated in project_directories(self.problems, root / "projects"):
            if not is_repeated:
                self._project(entry.path)
        for directory, session in self._session_directories:
            self._side_files(directory, session)
        for directory, session in self._results:
            for result in list_directory(directory, self.problems):
                self._file(result, "tool-output", session, None, follow=False)

    def _project(self, directory: str) -> None:
        for entry in list_directory(directory, self.problems):
            name = entry.name
            role = role_of(name)
            if role == "agent":
                self._file(entry, "agent", None, name[len(AGENT) : -len(LOG)])
            elif role == "session":
                self._file(entry, "session", name[: -len(LOG)], None)
            elif may_be_side_directory(self.problems, entry):
                self._session_directories.append((entry.path, name))

    def _side_files(self, directory: str, session: str) -> None:
        side_files = list_directory(directory, self.problems)
        for entries in agent_directories(self.problems, side_files):
            for entry in entries:
                if role_of(entry.name) == "agent":
                    self._file(entry, "agent", session, entry.name[len(AGENT) : -len(LOG)])
        for entry in side_files:
            if entry.name != _RESULTS:
                continue
            if is_directory(entry, self.problems, follow=False):
                self._results.append((entry.path, session))
            else:
                self.problems.note(Path(entry.path), "a link or a file in the place of a directory")

    def _file(
        self,
        entry: os.DirEntry[str],
        role: Role,
        session: str | None,
        agent: str | None,
        *,
        follow: bool = True,
    ) -> None:
        found = regular_file(entry, self.problems, follow=follow)
        if found is None:
            return
        device, inode = identity = found.st_dev, found.st_ino
        if inode and identity in self._seen:
            return
        self._seen.add(identity)
        self.found.append(
            FoundLog(entry.path, role, session, agent, device, inode, found.st_size, found.st_mtime_ns)
        )
