"""The directories of this machine, for choosing where a file is restored. Only reads."""

from __future__ import annotations

import os
from pathlib import Path

from recollect.errors import NotFound, UsageError
from recollect.services.documents.page import DirectoryDocument

_MOST = 500


def directory_document(path: str | None, *, nearest: bool = False) -> DirectoryDocument:
    """A directory by its absolute path; without one, the user's own. ``nearest``: or the closest one to write in."""
    place = Path(path) if path else Path.home()
    if not place.is_absolute():
        raise UsageError(f"directory {path!a}: not an absolute path", hint="write it from the root")
    place = Path(os.path.normpath(place))
    if nearest and not place.is_dir():
        above = next(one for one in (*place.parents, Path("/")) if one.is_dir())
        place = above if os.access(above, os.W_OK) and above.parent != above else Path.home()
    try:
        with os.scandir(place) as found:
            names = sorted(one.name for one in found if not one.name.startswith(".") and _is_directory(one))
    except FileNotFoundError as cause:
        raise NotFound(f"no directory at {place}", hint="choose one that exists") from cause
    except OSError as cause:
        raise UsageError(
            f"directory {place}: {(cause.strerror or 'it cannot be read').lower()}", hint="choose another one"
        ) from cause
    shown = [name for name in names if name.isprintable()]
    return DirectoryDocument(
        path=str(place),
        parent=None if place.parent == place else str(place.parent),
        directories=shown[:_MOST],
        total=len(names),
        is_writable=os.access(place, os.W_OK | os.X_OK),
    )


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
