"""The file system as one decision sees it: each fact is looked up once, so all answers agree.

Every deny, ask and allow rule checks a path, and the seal covers it too. With repeated lookups, a link
swapped in between could be judged as one file and sealed as another. The next decision starts with an
empty memory.
"""

from __future__ import annotations

from recollect.policy.world import World


class MemoizedWorld:
    """A world that remembers its first answers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._resolved: dict[str, str] = {}
        self._identities: dict[str, tuple[int, int] | None] = {}
        self._regular: dict[str, bool] = {}
        self._directories: dict[str, bool] = {}
        self._names: dict[str, frozenset[str] | None] = {}

    def resolved(self, path: str) -> str:
        found = self._resolved.get(path)
        if found is None:
            found = self._resolved[path] = self._world.resolved(path)
        return found

    def identity(self, path: str) -> tuple[int, int] | None:
        if path not in self._identities:
            self._identities[path] = self._world.identity(path)
        return self._identities[path]

    def is_regular_or_missing(self, path: str) -> bool:
        found = self._regular.get(path)
        if found is None:
            found = self._regular[path] = self._world.is_regular_or_missing(path)
        return found

    def is_directory(self, path: str) -> bool:
        found = self._directories.get(path)
        if found is None:
            found = self._directories[path] = self._world.is_directory(path)
        return found

    def names_in(self, path: str) -> frozenset[str] | None:
        if path not in self._names:
            self._names[path] = self._world.names_in(path)
        return self._names[path]
