"""Files of settings of the client: its own, those that name MCP servers, and its cache of feature flags. Read only.

Files are read completely or not at all; pipes and devices are refused. A missing file means no settings; an
unreadable one is reported, since the client would run without its deny rules; an unreadable list of disabled servers must not
look like one that disables none.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from recollect.errors import RecollectError, StorageError, UsageError
from recollect.store.git import is_tracked
from recollect.store.home import ClaudeHome
from recollect.system.peek import ReadProblems, list_directory, open_regular

_LARGEST = 64 << 20
_MANAGED = {
    "darwin": "/Library/Application Support/ClaudeCode/managed-settings.json",
    "win32": "C:/Program Files/ClaudeCode/managed-settings.json",
}


def managed_file() -> Path:
    """Settings by an administrator for every user of this machine."""
    return Path(_MANAGED.get(sys.platform, "/etc/claude-code/managed-settings.json"))


def project_file(directory: Path) -> Path:
    """A project's shared settings, part of its repository."""
    return directory / ".claude" / "settings.json"


def local_file(directory: Path) -> Path:
    """One person's settings for one project, usually ignored by git."""
    return directory / ".claude" / "settings.local.json"


def content(file: Path) -> bytes | None:
    """The bytes of a settings file; None if there is none."""
    try:
        with open_regular(file) as opened:
            data = opened.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as cause:  # a NUL in the path
        raise UsageError(f"{str(file)!a}: not a path", hint="name a file") from cause
    except OSError as cause:
        raise StorageError("read", file, cause, hint="make it readable, or move it away") from cause
    if len(data) > _LARGEST:
        raise UsageError(f"{file}: has more than {_LARGEST} bytes", hint="no settings are that long")
    return data


def supplied_by_repository(file: Path, project: Path) -> bool:
    """Whether the repository may have supplied this file: git tracks it, or a link leads to it (R22)."""
    return _is_linked(file, project) or is_tracked(file)


def _is_linked(file: Path, project: Path) -> bool:
    """Whether any part of the path from the project's directory to the file is a link."""
    step = file
    while step not in (project, step.parent):
        if step.is_symlink():
            return True
        step = step.parent
    return False


class McpDocument(NamedTuple):
    """The contents of a file:

    ``value`` is None if there is none; ``problem`` says why it could not be read.
    """

    path: Path
    value: object = None
    problem: str = ""


def read_document(path: Path) -> McpDocument:
    """Read a JSON file, following links; a missing file is not a problem."""
    try:
        data = content(path)
    except RecollectError as problem:
        return McpDocument(path, problem=problem.message)
    if data is None:
        return McpDocument(path)
    if not data.strip():
        return McpDocument(path)
    try:
        return McpDocument(path, msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return McpDocument(path, problem="it is not JSON")


PREFIX = "statsig.cached.evaluations."
LAST_MODIFIED = "statsig.last_modified_time.evaluations"
_LARGEST_CACHE = 64 << 20


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
                data = opened.read(_LARGEST_CACHE)
            seen = path.stat()
        except OSError as cause:
            problems.note(path, cause)
            continue
        if entry.name == LAST_MODIFIED:
            times = data
        else:
            files.append(CacheFile(path, seen.st_mtime_ns // 10**6, data))
    return FlagCache(home.statsig_dir, files, times, [f"{one.path}: {one.reason}" for one in problems])
