"""The file system queries of the permission engine. Nothing here raises, opens or writes."""

from __future__ import annotations

import os
import stat


class FileWorld:
    """The real file system, without caching: a decision must see a link that was swapped in."""

    def resolved(self, path: str) -> str:
        """The path with every link followed as far as it exists."""
        try:
            return os.path.realpath(path)
        except (OSError, ValueError):
            return path

    def identity(self, path: str) -> tuple[int, int] | None:
        """Device and inode of what the path names, or None."""
        found = self._status(path)
        return None if found is None else (found.st_dev, found.st_ino)

    def is_regular_or_missing(self, path: str) -> bool:
        """False for a FIFO, a device or a socket."""
        found = self._status(path)
        return found is None or stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return os.stat(path)  # noqa: PTH116 - a Path would be made for every question
        except (OSError, ValueError):
            return None


class CachedFileWorld(FileWorld):
    """Cached answers, for analysing thousands of past calls, never for a call that is about to run."""

    def __init__(self) -> None:
        self._resolved: dict[str, str] = {}
        self._seen: dict[str, os.stat_result | None] = {}

    def resolved(self, path: str) -> str:
        found = self._resolved.get(path)
        if found is None:
            found = self._resolved[path] = super().resolved(path)
        return found

    def _status(self, path: str) -> os.stat_result | None:
        if path not in self._seen:
            self._seen[path] = super()._status(path)
        return self._seen[path]
