"""Project directories that are gone, and where each may be now.

A directory that was moved or renamed leaves its sessions behind: the client looks for them under the new path. Where
it is now is told by its repository, which the client notes in the global config (``githubRepoPaths``), or by its
name. Only one answer is a proposal. A directory of the same name that has sessions of its own may be another
project, so that is for the user to say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from recollect.services.sync.repositories import RepositoryIdentities
from recollect.storage.home import ClaudeHome
from recollect.system.fsops import is_directory
from recollect.system.peek import open_regular

_LARGEST = 64 << 20
# How far a directory of the same name is looked for: levels below what is left of the old path, and entries.
_LEVELS = 2
_MOST = 5_000


class GoneDirectory(Struct, frozen=True):
    """A directory that sessions worked in and that is gone; ``new`` is where it is now, ``why`` how that is known."""

    old: str
    sessions: int
    new: str | None = None
    by: Literal["repository", "name"] | None = None
    why: str = ""


def gone_directories(home: ClaudeHome) -> list[GoneDirectory]:
    """The outermost ones, by path. What is below one of them moves with it."""
    counts: dict[str, int] = {}
    for log in home.sessions():
        cwd = log.first_cwd()
        if cwd and Path(cwd).is_absolute() and "\0" not in cwd:
            counts[cwd] = counts.get(cwd, 0) + 1
    there = {cwd for cwd in counts if is_directory(cwd)}
    search = _Search(home, there)
    found: list[GoneDirectory] = []
    for old in sorted(set(counts) - there, key=lambda path: (len(Path(path).parts), path)):
        if not any(one.new is not None and Path(old).is_relative_to(one.old) for one in found):
            below = sum(n for cwd, n in counts.items() if Path(cwd).is_relative_to(old))
            found.append(search.answer(old, below))
    return found


class _Search:
    """Looks for one home's lost directories; what it learned of one serves the next."""

    def __init__(self, home: ClaudeHome, there: set[str]) -> None:
        self._there = there
        self._repositories = _repository_paths(home)
        self._identities = RepositoryIdentities()

    def answer(self, old: str, sessions: int) -> GoneDirectory:
        same = sorted(self._of_same_repository(old))
        if len(same) == 1:
            return GoneDirectory(old, sessions, same[0], "repository", "it is the same repository")
        if same:
            return GoneDirectory(
                old, sessions, why=f"{len(same)} directories have its repository: {same[0]}, …"
            )
        named = sorted(self._of_same_name(old))
        if len(named) > 1:
            return GoneDirectory(old, sessions, why=f"{len(named)} directories have its name: {named[0]}, …")
        if not named:
            return GoneDirectory(old, sessions, why="no directory has its repository or its name")
        if named[0] in self._there:
            return GoneDirectory(old, sessions, why=f"{named[0]} has its name, and sessions of its own")
        return GoneDirectory(old, sessions, named[0], "name", "it has the same name")

    def _of_same_repository(self, old: str) -> set[str]:
        names = [name for name, paths in self._repositories.items() if old in paths]
        known = {path for name in names for path in self._repositories[name] if is_directory(path)}
        wanted = {f"github.com/{name}" for name in names}
        nearby = self._there | (set(_below(old)) if wanted else set())
        for path in nearby if wanted else ():
            root, identity = self._identities.of(path)
            if identity is not None and root is not None and identity.lower() in wanted:
                known.add(root)
        return {path for path in known if self._is_of(path, wanted)}

    def _is_of(self, path: str, wanted: set[str]) -> bool:
        """Whether it is still that repository: another one may have taken its place."""
        identity = self._identities.of(path)[1]
        return identity is not None and identity.lower() in wanted

    def _of_same_name(self, old: str) -> set[str]:
        name = Path(old).name
        return {path for path in (*self._there, *_below(old)) if Path(path).name == name}


def _repository_paths(home: ClaudeHome) -> dict[str, list[str]]:
    """Where the client saw each GitHub repository; nothing where the config cannot be read."""
    if home.config_file is None:
        return {}
    try:
        with open_regular(home.config_file) as file:
            whole = msgspec.json.decode(file.read(_LARGEST), type=dict[str, Raw])
        found = msgspec.json.decode(whole["githubRepoPaths"], type=dict[str, list[str]])
    except (OSError, KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return {name.lower(): paths for name, paths in found.items()}


def _below(old: str) -> Iterator[str]:
    """The directories near what is left of a path: a few levels down, hidden ones left out."""
    above = next(one for one in Path(old).parents if one.is_dir())
    if len(above.parts) < 3:  # the root, /home, /tmp: whose directories would these be?
        return
    waiting, seen = [(str(above), 0)], 0
    while waiting:
        place, level = waiting.pop()
        for entry in _entries(place):
            seen += 1
            if seen > _MOST:
                return
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                yield entry.path
                if level + 1 < _LEVELS:
                    waiting.append((entry.path, level + 1))


def _entries(place: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(place) as entries:
            return list(entries)
    except OSError:
        return []
