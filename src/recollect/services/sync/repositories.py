"""The identity of a directory's repository, to find the same one on another machine under another path.

It is the address of its remote ``origin`` (or the only one), without scheme, user and suffix:
``github.com/owner/name``. A repository without a remote is identified by its first commit, if git's reflog
still has it. Git is not run: its configuration can name programs. The identity is never a reason to trust
anything.
"""

from __future__ import annotations

import re
from pathlib import Path

from recollect.storage.git_directories import repository_of
from recollect.system.peek import open_regular

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
