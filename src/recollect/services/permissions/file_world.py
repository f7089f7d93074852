"""The file system as the permission engine asks about it. Nothing here raises, opens or writes."""

from __future__ import annotations

import os
import stat


class FileWorld:
    """The real file system, looked at anew for every question: a decision must see a link that was swapped in."""

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
    """The same, each answer kept: for looking back over thousands of calls, never for one that is about to run."""

    def __init__(self) -> None:
        self._resolved: dict[str, str] = {}
        self._seen: dict[str, os.stat_result | None] = {}

    def resolved(self, path: str) -> str:
        """As the real one said first."""
        found = self._resolved.get(path)
        if found is None:
            found = self._resolved[path] = super().resolved(path)
        return found

    def _status(self, path: str) -> os.stat_result | None:
        if path not in self._seen:
            self._seen[path] = super()._status(path)
        return self._seen[path]
