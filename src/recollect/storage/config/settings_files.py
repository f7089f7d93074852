"""Where settings are stored, how they are read, and whether a repository could have supplied them.

Files are read completely or not at all; pipes and devices are refused. A missing file means no settings; an
unreadable one is reported, since the client would run without its deny rules.
"""

from __future__ import annotations

import sys
from pathlib import Path

from recollect.errors import StorageError, UsageError
from recollect.storage.git_index import is_tracked
from recollect.system.peek import open_regular

_LARGEST = 16 << 20
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
