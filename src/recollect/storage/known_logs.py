"""Whether logs and directories that are known are as they were: what every question asks first.

A walk (``home_walk``) tells what there is. As long as its directories are as they were, no log came or went, and a look
at the known logs says all that another walk would. Imports next to nothing, as most questions need no walk.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable

# Device, inode, size and time of a log, in the order ``FoundLog`` has them.
LogState = tuple[int, int, int, int]
# The same after its path.
PlacedState = tuple[str, int, int, int, int]


def have_same_names(directories: Iterable[tuple[str, int, int, int]]) -> bool:
    """Whether no name was added to these directories or taken away since they were walked through."""
    look = os.stat
    try:
        for path, device, inode, mtime in directories:
            now = look(path)
            if now.st_mtime_ns != mtime or now.st_ino != inode or now.st_dev != device:
                return False
    except OSError:
        return False
    return True


def changed_logs(known: Iterable[PlacedState]) -> list[tuple[str, LogState]] | None:
    """Of these logs, those that changed, as they are now; None where one of all cannot be seen."""
    look, changed = os.stat, []
    try:
        for path, device, inode, size, mtime in known:
            now = look(path)
            if now.st_mtime_ns != mtime or now.st_size != size or now.st_ino != inode or now.st_dev != device:
                changed.append((path, (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)))
    except OSError:
        return None
    return changed
