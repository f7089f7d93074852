"""Sessions by repository: all worktrees of one repository are one group.

A session belongs to the repository of the directory it worked in. Where that directory is gone, as
worktrees soon are, its log is asked: clients note where a worktree came from. Then the next directory
above that is there; at last the directory itself stands for the repository it may have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.errors import RecollectError
from recollect.model.damage import Line
from recollect.model.line_views.worktree import WORKTREE, origin_of
from recollect.services.list import ListedSession
from recollect.storage.git_directories import repository_of
from recollect.storage.logs.reader import read_lines
from recollect.system.fsops import is_directory

_NOTED = f'"{WORKTREE}"'.encode()


class RepositoryGroup(Struct, frozen=True):
    """The sessions of one repository, and the directories they worked in, in the order they came."""

    repo: str
    sessions: list[ListedSession]
    directories: list[str]


class RepositoryFinder:
    """Finds the repository of sessions; each directory is looked at once."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}
        self._there: dict[str, bool] = {}

    def of(self, cwd: str, log: str | Path, origins: Sequence[str] | None = None) -> str:
        """The repository of a session by its directory and its log; "" for one that names no directory.

        ``origins``: where its worktrees were made from, the last one first, if that is known without the log.
        """
        if cwd and not self._is_there(cwd):
            for origin in _origins(log) if origins is None else origins:
                found = self._repository(origin)
                if found is not None:
                    return found
        return self.by_directory(cwd)

    def by_directory(self, cwd: str) -> str:
        """The repository that a directory belongs to now, without reading a log."""
        return self._repository(cwd) or cwd

    def groups(self, sessions: Iterable[ListedSession]) -> list[RepositoryGroup]:
        """Sessions by repository, each group where its first session stood."""
        found: dict[str, RepositoryGroup] = {}
        for session in sessions:
            repo = self.of(session.cwd, session.path)
            group = found.setdefault(repo, RepositoryGroup(repo, [], []))
            group.sessions.append(session)
            if session.cwd and session.cwd not in group.directories:
                group.directories.append(session.cwd)
        return list(found.values())

    def _is_there(self, directory: str) -> bool:
        if directory not in self._there:
            self._there[directory] = is_directory(directory)
        return self._there[directory]

    def _repository(self, directory: str) -> str | None:
        if directory not in self._known:
            self._known[directory] = repository_of(directory)
        return self._known[directory]


def _origins(log: str | Path) -> list[str]:
    """The directories that the session's worktrees were made from, the last one first."""
    found: list[str] = []
    try:
        for line in read_lines(Path(log)):
            if isinstance(line, Line) and _NOTED in line.data:
                origin = origin_of(line.data)
                found += [] if origin is None else [origin]
    except RecollectError:
        return []
    return found[::-1]
