"""Where sessions worked: projects by name or directory, repositories with their worktrees, remotes.

A project is the directory the work was done in, as the log names it, whichever system that log was written on.
People ask for one by a directory (``~/shop``, ``.``: it and everything below) or by a part of a directory's name.
A session belongs to the repository of its directory; where that is gone, as worktrees soon are, its log is asked, since
clients note where a worktree came from. The identity of a repository is its remote, or its first commit; git is not run,
since its configuration can name programs, and the identity is never a reason to trust anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from recollect.errors import RecollectError
from recollect.model.lines.damage import Line
from recollect.model.text.titles import directory_name
from recollect.model.views.fact_line import WORKTREE, origin_of
from recollect.store.git import repository_of
from recollect.store.logs.reader import read_lines
from recollect.system.fsops import is_directory
from recollect.system.peek import open_regular

TYPE_CHECKING = False  # see recollect/__init__.py


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


_NOTED = f'"{WORKTREE}"'.encode()


class RepositoryFinder:
    """Finds the repository of sessions; each directory is looked at once."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}
        self._there: dict[str, bool] = {}

    def of(self, cwd: str, log: str | Path, origins: Sequence[str] | None = None) -> str:
        """The repository of a session by its directory and its log; "" for one that names no directory.

        ``origins``: where its worktrees were made from, the last one first, if that is known without the log.
        """
        if cwd and not self._is_there(cwd):
            for origin in _origins(log) if origins is None else origins:
                found = self._repository(origin)
                if found is not None:
                    return found
        return self.by_directory(cwd)

    def by_directory(self, cwd: str) -> str:
        """The repository that a directory belongs to now, without reading a log."""
        return self._repository(cwd) or cwd

    def _is_there(self, directory: str) -> bool:
        if directory not in self._there:
            self._there[directory] = is_directory(directory)
        return self._there[directory]

    def _repository(self, directory: str) -> str | None:
        if directory not in self._known:
            self._known[directory] = repository_of(directory)
        return self._known[directory]


def _origins(log: str | Path) -> list[str]:
    """The directories that the session's worktrees were made from, the last one first."""
    found: list[str] = []
    try:
        for line in read_lines(Path(log)):
            if isinstance(line, Line) and _NOTED in line.data:
                origin = origin_of(line.data)
                found += [] if origin is None else [origin]
    except RecollectError:
        return []
    return found[::-1]


_LONGEST = 1 << 18
_SECTION = re.compile(r'\s*\[\s*remote\s+"((?:[^"\\]|\\.)*)"\s*\]', re.IGNORECASE)
_ANY_SECTION = re.compile(r"\s*\[")
_URL = re.compile(r"\s*url\s*=\s*(.*?)\s*(?:[;#].*)?$", re.IGNORECASE)
_SCP = re.compile(r"(?:[^@/:]+@)?([^/:]+):(?!//)(.+)")
_WITH_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^@/]*@)?([^/:]+)(?::[0-9]+)?/(.+)", re.IGNORECASE)
_FIRST_COMMIT = re.compile(r"0{40,64} ([0-9a-f]{40,64}) .*\tcommit \(initial\)", re.ASCII)


class RepositoryIdentities:
    """Looks up each directory once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str | None, str | None]] = {}

    def of(self, directory: str) -> tuple[str | None, str | None]:
        """The repository's directory here, and its identity; each None where there is none."""
        if directory not in self._known:
            root = repository_of(directory) if directory else None
            self._known[directory] = root, identity_of(root) if root is not None else None
        return self._known[directory]


def identity_of(repository: str) -> str | None:
    """The same identity on every machine."""
    git = Path(repository) / ".git"
    inside = git if git.is_dir() else Path(repository)
    remotes = _remotes(_text(inside / "config"))
    address = remotes.get("origin") or (next(iter(remotes.values())) if len(remotes) == 1 else "")
    named = normalised(address)
    if named is not None:
        return named
    first = _FIRST_COMMIT.match(_text(inside / "logs" / "HEAD").partition("\n")[0])
    return f"commit:{first[1]}" if first is not None else None


def normalised(address: str) -> str | None:
    """A repository address in one canonical form; None for a local path."""
    found = _WITH_SCHEME.fullmatch(address) or _SCP.fullmatch(address)
    if found is None or address.lower().startswith("file:"):
        return None
    path = found[2].strip("/").removesuffix(".git").strip("/")
    return f"{found[1].lower()}/{path}" if path else None


def _remotes(text: str) -> dict[str, str]:
    remotes: dict[str, str] = {}
    section: str | None = None
    for line in text.splitlines():
        named = _SECTION.match(line)
        if named is not None or _ANY_SECTION.match(line):
            section = named[1] if named is not None else None
            continue
        url = _URL.match(line) if section is not None else None
        if url is not None and section is not None and url[1]:
            remotes.setdefault(section, url[1].strip('"'))
    return remotes


def _text(file: Path) -> str:
    try:
        with open_regular(file) as opened:
            return opened.read(_LONGEST).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
