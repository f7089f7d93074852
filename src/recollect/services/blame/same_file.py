"""Whether a path in a log is the file that is asked about, also after its directory was renamed.

The same path, or a path that leads to the same file through links, is the file itself. A path below a directory that
is gone, or below another worktree of the same repository, may be the file where it was before: it has the same path
from there on. Then its content decides (``is_alike``). Another name needs a trace: see ``renames``.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from enum import Enum
from pathlib import Path

from recollect.model.blame.line_owners import is_trivial, lines_of
from recollect.storage.git_directories import repository_of


class PathMatch(Enum):
    """How a path of a log is related to the file."""

    SAME = "same"
    MOVED = "moved"  # something says that the file was there before
    PERHAPS = "perhaps"
    OTHER = "other"


class SameFile:
    """One file, compared with the paths that sessions name."""

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 - links are not resolved: sessions name what was typed
        self._real = os.path.realpath(path)
        self._repository = repository_of(str(self.path.parent))
        self._known: dict[tuple[str, frozenset[str]], PathMatch] = {}

    def compared(self, logged: str, cwds: Collection[str]) -> PathMatch:
        """``cwds`` are the directories in which the session worked."""
        key = logged, frozenset(cwds)
        if key not in self._known:
            self._known[key] = self._compared(logged, key[1])
        return self._known[key]

    def _compared(self, logged: str, cwds: frozenset[str]) -> PathMatch:
        if logged == str(self.path) or "\0" in logged:
            return PathMatch.OTHER if "\0" in logged else PathMatch.SAME
        other = Path(logged)
        if other.name != self.path.name or not other.is_absolute():
            return PathMatch.OTHER
        if os.path.realpath(other) == self._real:
            return PathMatch.SAME
        return PathMatch.PERHAPS if self._may_have_moved(other, cwds) else PathMatch.OTHER

    def _may_have_moved(self, other: Path, cwds: frozenset[str]) -> bool:
        for old, new in zip(other.parents, self.path.parents, strict=False):
            is_of_session = str(old) in cwds or str(new) in cwds
            if is_of_session and old != new and (not old.is_dir() or self._is_worktree(old)):
                return True
            if old.name != new.name:
                return False  # the paths differ from here on
        return False

    def _is_worktree(self, directory: Path) -> bool:
        return self._repository is not None and repository_of(str(directory)) == self._repository


def said_lines(text: str) -> set[str]:
    """The lines of a text that say something."""
    return {line for line in map(str.strip, lines_of(text)) if not is_trivial(line)}


def is_alike(one: set[str], last: set[str], ever: set[str]) -> bool:
    """Whether a text may be that of a file: half of it, or of the file's last text, was ever in the file."""
    return bool(one and last) and 2 * len(one & ever) >= min(len(one), len(last))
