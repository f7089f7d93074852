"""The name of a directory that a log speaks of, whichever system it was written on."""

from __future__ import annotations

from pathlib import PurePath, PureWindowsPath


def directory_name(cwd: str) -> str:
    """The last part of a path; empty where it has none. Backslashes count where there are no slashes."""
    kind = PureWindowsPath if "\\" in cwd and "/" not in cwd else PurePath
    return kind(cwd).name


def project_name(cwd: str, log_directory: str) -> str:
    """What a project is called: by the directory worked in, else by the directory of its logs."""
    return directory_name(cwd) or cwd or log_directory
