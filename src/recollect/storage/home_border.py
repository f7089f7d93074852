"""Where a home really lies: the one rule about links for every command that changes a home.

The home itself and the directories directly in it (``projects``, ``tasks`` and so on) may be links: so people keep
their sessions on another disk. They are resolved once, and every path is judged relative to the result. A link further
down is followed for reading only. What it leads to is changed only if it lies in the home too: a log, a side
directory or a project that leads out of the home could be any file of the user.
"""

from __future__ import annotations

import os
from pathlib import Path

from recollect.errors import UsageError

_ROOMS = ("projects", "file-history", "tasks", "todos", "plans", "session-env", "paste-cache")


class HomeBorder:
    """The real directories of one home: its root, and its own directories that are links to other places."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        rooms = [os.path.join(self.root, name) for name in _ROOMS]  # noqa: PTH118 - is a link there? Path may raise
        targets = [Path(os.path.realpath(room)) for room in rooms if os.path.islink(room)]  # noqa: PTH114
        # A link to a directory above would make everything there part of the home.
        self.areas = (self.root, *(one for one in targets if one not in (self.root, *self.root.parents)))

    def holds(self, path: Path) -> bool:
        """Whether a path, with every link on it followed, lies in the home."""
        above = Path(os.path.realpath(path)).parents
        return any(area in above for area in self.areas)

    def reason_not_to_change(self, path: Path) -> str | None:
        """Why a file must not be changed: it is a link, or lies behind one, that leads out; None where it may."""
        if self.holds(path):
            return None
        return (
            "it is a link that leads out of the home"
            if path.is_symlink()
            else "it lies outside the home, behind a link"
        )

    def require(self, path: Path) -> Path:
        """The real path of a file that is to be changed; ``UsageError`` where it lies outside."""
        reason = self.reason_not_to_change(path)
        if reason is not None:
            raise UsageError(
                f"{path}: {reason}", hint=f"nothing was changed; its real place is {os.path.realpath(path)}"
            )
        return Path(os.path.realpath(path))
