"""What a project is called, and which directories belong to the one that was asked for.

A project is the directory the work was done in, as the log names it, whichever system that log was written on.
People ask for one by a directory (``~/shop``, ``.``: it and everything below) or by a part of a directory's name.
"""

from __future__ import annotations

import contextlib
from pathlib import Path, PurePath, PureWindowsPath


def directory_name(cwd: str) -> str:
    """The last part of a path; empty where it has none. Backslashes count where there are no slashes."""
    kind = PureWindowsPath if "\\" in cwd and "/" not in cwd else PurePath
    return kind(cwd).name


def project_name(cwd: str, log_directory: str) -> str:
    """What a project is called: by the directory worked in, else by the directory of its logs."""
    return directory_name(cwd) or cwd or log_directory


class ProjectFilter:
    """The project that was asked for; every command, the page and the library choose by it."""

    def __init__(self, project: str | Path) -> None:
        text = str(project)
        self._name = text.casefold()
        self._directory: str | None = None
        self._is_directory = "/" in text or text == "."
        if self._is_directory:
            # Where no directory can have such a name, nothing fits.
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                self._directory = str(Path(text).expanduser().resolve()).rstrip("/")

    def fits(self, cwd: str | None) -> bool:
        """Whether work in this directory belongs to it; a log that names no directory belongs to none."""
        if not cwd:
            return False
        if not self._is_directory:
            return self._name in directory_name(cwd).casefold()
        place = self._directory
        return place is not None and (cwd == place or cwd.startswith(f"{place}/"))
