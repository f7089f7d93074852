"""The file system as one decision sees it: each question is asked once, so that all its answers agree.

A path is looked at by every deny, ask and allow rule, and again when the decision is sealed. Asked anew
each time, a link swapped in between could be judged as one file and sealed as another; asked once, what
was judged is what is sealed. It lives as long as one decision: the next one looks again.
"""

from __future__ import annotations

from recollect.policy.world import World


class MemoizedWorld:
    """A world that remembers what it was told."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._resolved: dict[str, str] = {}
        self._identities: dict[str, tuple[int, int] | None] = {}
        self._regular: dict[str, bool] = {}

    def resolved(self, path: str) -> str:
        """As the world said first."""
        found = self._resolved.get(path)
        if found is None:
            found = self._resolved[path] = self._world.resolved(path)
        return found

    def identity(self, path: str) -> tuple[int, int] | None:
        """As the world said first."""
        if path not in self._identities:
            self._identities[path] = self._world.identity(path)
        return self._identities[path]

    def is_regular_or_missing(self, path: str) -> bool:
        """As the world said first."""
        found = self._regular.get(path)
        if found is None:
            found = self._regular[path] = self._world.is_regular_or_missing(path)
        return found
