"""What a project is called, and which directories belong to the one that was asked for.

A project is the directory the work was done in, as the log names it, whichever system that log was written on.
People ask for one by a directory (``~/shop``, ``.``: it and everything below) or by a part of a directory's name.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from pathlib import Path


def directory_name(cwd: str) -> str:
    """The last part of a path; empty where it has none. Backslashes count where there are no slashes."""
    separator = "\\" if "\\" in cwd and "/" not in cwd else "/"
    parts = [part for part in cwd.split(separator) if part not in ("", ".")]
    is_drive = separator == "\\" and len(parts) == 1 and parts[0].endswith(":")
    return parts[-1] if parts and not is_drive else ""


def project_name(cwd: str, log_directory: str) -> str:
    """What a project is called: by the directory worked in, else by the directory of its logs."""
    return directory_name(cwd) or cwd or log_directory


def _windows_path(text: str) -> str:
    """A directory as Windows names it, in one spelling; empty where it is none."""
    is_named = text[1:2] == ":" and text[2:3] in ("\\", "/")
    return text.replace("/", "\\").rstrip("\\").casefold() if is_named or text[:2] == "\\\\" else ""


class ProjectFilter:
    """The project that was asked for; every command, the page and the library choose by it."""

    def __init__(self, project: str | Path) -> None:
        text = str(project)
        self._name = text.casefold()
        self._windows = _windows_path(text)
        self._directory: str | None = None
        self._is_directory = not self._windows and ("/" in text or text == ".")
        if self._is_directory:
            try:
                place = os.path.realpath(os.path.expanduser(text)).rstrip("/")  # noqa: PTH111 - a hook waits for it
            except (OSError, ValueError):
                return  # where no directory can have such a name, nothing fits
            self._directory = None if text.startswith("~") and place.endswith(text.rstrip("/")) else place

    def fits(self, cwd: str | None) -> bool:
        """Whether work in this directory belongs to it; a log that names no directory belongs to none."""
        if not cwd:
            return False
        if self._windows:
            return f"{_windows_path(cwd)}\\".startswith(f"{self._windows}\\")
        if not self._is_directory:
            return self._name in directory_name(cwd).casefold()
        place = self._directory
        return place is not None and (cwd == place or cwd.startswith(f"{place}/"))
