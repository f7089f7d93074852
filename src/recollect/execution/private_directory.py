"""HOME and TMPDIR of one run, for back ends without a /tmp of their own.

The process that creates the directory holds a lock on it, which the kernel releases however the process
ends. So an unlocked directory was left by a killed process, and the next process that creates one
removes it. Only directories of this user are considered, and no link is followed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "recollect-run-"
_DIRECTORY = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
_swept: set[int] = set()
"""Processes (this one, or one it was forked from) that have already swept."""


@dataclass(frozen=True, slots=True)
class PrivateDirectory:
    """A directory of one run, locked until it is removed."""

    path: Path
    _held: int

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._held)


def make() -> PrivateDirectory:
    """A new directory with ``home`` and ``temporary``; the first call removes what killed processes left."""
    if os.getpid() not in _swept:
        _swept.add(os.getpid())
        sweep(Path(tempfile.gettempdir()))
    while True:
        place = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        held = _hold(place)
        if held is not None:
            break  # else: another process swept it before it was locked
    for name in ("home", "temporary"):
        (place / name).mkdir(mode=0o700)
    return PrivateDirectory(place, held)


def sweep(parent: Path) -> None:
    """Remove what killed processes of this user left in the directory."""
    with contextlib.suppress(OSError):
        for name in [entry.name for entry in os.scandir(parent) if entry.name.startswith(_PREFIX)]:
            held = _hold(parent / name)
            if held is not None:
                PrivateDirectory(parent / name, held).remove()


def _hold(place: Path) -> int | None:
    """Lock a directory of ours; None when it is locked, not ours, or gone."""
    import fcntl

    try:
        held = os.open(place, _DIRECTORY)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        opened, here = os.fstat(held), place.lstat()
        same = (opened.st_dev, opened.st_ino) == (here.st_dev, here.st_ino)
        if same and stat.S_ISDIR(here.st_mode) and here.st_uid == os.geteuid():
            return held
    os.close(held)
    return None
