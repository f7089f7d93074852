"""Which repository a directory belongs to, from git's files; git itself is never run.

A repository has a ``.git`` directory. A worktree has a ``.git`` file that names its place in the repository,
where ``commondir`` leads to what all worktrees share. A submodule has such a file too, but no ``commondir``:
it is a repository of its own.

The answer groups sessions for display. It is never a reason to trust anything: anyone who can write to a
directory can make it look like part of any repository.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from recollect.system.peek import open_regular

_LONGEST = 1 << 16


def repository_of(directory: str) -> str | None:
    """The repository of a directory, which need not exist any more: that of the nearest parent that has one."""
    if "\0" in directory or not Path(directory).is_absolute():
        return None
    try:
        here = Path(os.path.realpath(directory))
        for place in (here, *here.parents):
            found = _described(place / ".git")
            if found is not None:
                return found
    except OSError:
        return None
    return None


def _described(git: Path) -> str | None:
    try:
        kind = git.stat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(kind):
        return str(git.parent)
    named = _text(git)
    if named is None or not named.startswith("gitdir:"):
        return None
    own = _beside(git.parent, named.removeprefix("gitdir:").strip())
    shared = _text(own / "commondir")
    if shared is None:
        return str(git.parent)
    common = _beside(own, shared.strip())
    # A bare repository has no working directory: its own path is its name.
    return str(common.parent if common.name == ".git" else common)


def _beside(place: Path, named: str) -> Path:
    return Path(os.path.realpath(place / named))


def _text(file: Path) -> str | None:
    try:
        with open_regular(file) as opened:
            text = os.fsdecode(opened.read(_LONGEST))
    except (OSError, ValueError):
        return None
    return text if "\0" not in text else None
