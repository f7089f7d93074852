"""The file system queries of the permission engine. Nothing here raises or writes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from recollect.policy.paths.protected import hooks_directory

_MOST_NAMES = 20_000
_MOST_BYTES = 1_000_000


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

    def is_directory(self, path: str) -> bool:
        """True for a directory, also by way of a link."""
        found = self._status(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def names_in(self, path: str) -> frozenset[str] | None:
        """Every relative path below a directory; None when part of it cannot be read or there are too many."""
        names: set[str] = set()
        waiting = [""]
        while waiting:
            below = waiting.pop()
            try:
                with os.scandir(os.path.join(path, below)) as entries:  # noqa: PTH118
                    for entry in entries:
                        names.add(below + entry.name)
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(f"{below}{entry.name}/")
            except (OSError, ValueError):
                return None
            if len(names) > _MOST_NAMES:
                return None
        return frozenset(names)

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


def hooks_of(directory: str | Path, home: str | Path) -> tuple[str, ...]:
    """The directories from which git would run hooks here by ``core.hooksPath``; git is not started to find out."""
    place = Path(directory)
    root = next((one for one in (place, *place.parents) if (one / ".git").is_dir()), place)
    files = (root / ".git" / "config", Path(home, ".gitconfig"), Path(home, ".config", "git", "config"))
    named = (hooks_directory(_text(path)) for path in files)
    return tuple(
        os.path.normpath(root / (f"{home}{name[1:]}" if name.startswith("~/") else name))
        for name in named
        if name and "\0" not in name
    )


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
