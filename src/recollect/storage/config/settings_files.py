"""Where settings lie, how they are read, and whether a repository could have put them there.

Files are read whole or not at all, never followed into pipes or devices. What is not there is
no settings; what is there and cannot be read is said, since the client would go on without its deny rules.
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
    """What an administrator sets for every user of this machine."""
    return Path(_MANAGED.get(sys.platform, "/etc/claude-code/managed-settings.json"))


def project_file(directory: Path) -> Path:
    """Settings that a project shares: part of its repository."""
    return directory / ".claude" / "settings.json"


def local_file(directory: Path) -> Path:
    """One person's settings for one project: meant to be ignored by git."""
    return directory / ".claude" / "settings.local.json"


def content(file: Path) -> bytes | None:
    """The bytes of a settings file; None where there is none."""
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
    """Whether whoever wrote the repository may have written this file: git tracks it, or a link leads to it (R22)."""
    return _is_linked(file, project) or is_tracked(file)


def _is_linked(file: Path, project: Path) -> bool:
    """Whether a part of the way from the project's directory to the file is a link."""
    step = file
    while step not in (project, step.parent):
        if step.is_symlink():
            return True
        step = step.parent
    return False
