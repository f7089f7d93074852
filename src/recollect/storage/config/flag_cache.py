"""The files of the client's feature-flag cache, below ``statsig/`` of a home. Read only.

One file per user hash holds an evaluation; one more file records when each was fetched.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from recollect.storage.home import ClaudeHome
from recollect.system.peek import ReadProblems, list_directory, open_regular

PREFIX = "statsig.cached.evaluations."
LAST_MODIFIED = "statsig.last_modified_time.evaluations"
_LARGEST = 64 << 20


class CacheFile(Struct, frozen=True):
    """A cached evaluation. ``mtime_ms`` is the file's own time."""

    path: Path
    mtime_ms: int
    data: bytes

    @property
    def user_hash(self) -> str:
        """The user it was evaluated for."""
        return self.path.name.removeprefix(PREFIX)


class FlagCache(Struct, frozen=True):
    """All cached evaluations of a home, their fetch times, and what could not be read."""

    directory: Path
    files: list[CacheFile]
    times: bytes
    problems: list[str]


def flag_cache(home: ClaudeHome) -> FlagCache:
    """Read the cache; a missing one is an empty one."""
    problems = ReadProblems()
    files, times = [], b""
    for entry in list_directory(home.statsig_dir, problems):
        if not entry.name.startswith(PREFIX) and entry.name != LAST_MODIFIED:
            continue
        path = Path(entry.path)
        try:
            with open_regular(path) as opened:
                data = opened.read(_LARGEST)
            seen = path.stat()
        except OSError as cause:
            problems.note(path, cause)
            continue
        if entry.name == LAST_MODIFIED:
            times = data
        else:
            files.append(CacheFile(path, seen.st_mtime_ns // 10**6, data))
    return FlagCache(home.statsig_dir, files, times, [f"{one.path}: {one.reason}" for one in problems])
