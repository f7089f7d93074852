"""Path and last refresh of the index of a set of homes. Few imports, for the status line."""

# pathlib takes longer to import than the status line may.
# ruff: noqa: PTH116, PTH118

from __future__ import annotations

import os
import zlib

from recollect.index.schema import VERSION

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable


def index_file(homes: Iterable[str | os.PathLike[str]], cache: str) -> str:
    """The index of a set of homes, in any order and spelling."""
    names = "\0".join(sorted(os.path.realpath(home) for home in homes))
    checksum = zlib.crc32(names.encode("utf-8", "surrogateescape"))
    return os.path.join(cache, f"index-v{VERSION}-{checksum:08x}.sqlite")


def refreshed_at(index: str) -> float | None:
    """When an index was last refreshed, in seconds since 1970; None if it never was.

    Every refresh writes a line into the lock file, even if nothing was new, so the lock file's time
    says it.
    """
    try:
        return os.stat(index.removesuffix(".sqlite") + ".lock").st_mtime
    except OSError:
        return None
