"""Writable directories, opened before the run without following a link (C07).

A confined program may replace a directory inside a tree that it can write to by a link and wait for a
later run to be given that directory. So a writable directory is opened component by component, no link
among them, and from then on only the descriptor counts: the back ends get it, and what is prepared or
restored inside the tree is reached through it.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import NotFound, StorageError, UsageError
from recollect.system.beneath import descend

_OPEN_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_LOOK = getattr(os, "O_PATH", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_SYSTEM = frozenset(
    ("/", "/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/run", "/var")
)
_KERNEL = tuple(map(Path, ("/proc", "/sys", "/dev")))


@dataclass(frozen=True, slots=True)
class OpenTree:
    """A directory by its path, as the confined program sees it, and by its descriptor."""

    path: Path
    descriptor: int

    def open(self, *parts: str) -> int:
        """A descriptor of something below the tree, itself possibly a link; raises as ``os.open`` does."""
        return descend(self.descriptor, parts, _LOOK)


def open_tree(path: Path) -> OpenTree:
    """Open a directory that a run may write to. A link on the path is refused, a system directory too."""
    place = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the links that are refused here
    if str(place) in _SYSTEM or any(one in place.parents for one in _KERNEL):
        raise UsageError(
            f"writable directory {place}: it is a system directory", hint="name a directory of your own"
        )
    top = os.open("/", _OPEN_DIRECTORY)
    try:
        return OpenTree(place, descend(top, place.parts[1:], _OPEN_DIRECTORY | os.O_NOFOLLOW))
    except FileNotFoundError as cause:
        raise NotFound(f"writable directory {path}: does not exist", hint="check the path") from cause
    except OSError as cause:
        raise _refused(place, cause) from cause
    finally:
        os.close(top)


def _refused(place: Path, cause: OSError) -> UsageError | StorageError:
    if cause.errno not in (errno.ELOOP, errno.ENOTDIR):
        return StorageError("open", place, cause, hint="check its permissions")
    link = next((one for one in reversed((place, *place.parents)) if one.is_symlink()), None)
    if link is None:
        return UsageError(f"writable directory {place}: not a directory", hint="name a directory")
    real = os.path.realpath(place)
    return UsageError(
        f"writable directory {place}: {link} is a link, and links are not followed",
        hint=f"if you trust the link, name the directory it leads to: {real}",
    )
