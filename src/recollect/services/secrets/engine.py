"""The compiled scan engine, kept beside the index.

Compiling takes half a second, loading takes milliseconds. So it is compiled once, when there is much to search, and
kept; its name says for which expressions, library and processor. Any failure means working without it.
"""

from __future__ import annotations

import platform
from pathlib import Path

from recollect.errors import StorageError
from recollect.model.secrets import scan_engine
from recollect.model.secrets.needles import digest
from recollect.system import fsops
from recollect.system.locations import cache_dir

# Below this, searching without the engine takes no longer than compiling it.
WORTH_COMPILING = 32 << 20
WORTH_LOADING = 4 << 20


def engine_ready(size: int, cache: Path | None = None) -> Path | None:
    """Use the engine if it pays for this many bytes; returns its file, for other processes."""
    version = scan_engine.version() if size >= WORTH_LOADING else ""
    if not version:
        return None
    directory = cache_dir() if cache is None else cache
    file = directory / f"secrets-{platform.machine()}-{version}-{digest()}.hs"
    if use_engine(file):
        return file
    compiled = scan_engine.compiled() if size >= WORTH_COMPILING else None
    if compiled is None or not scan_engine.use(compiled):
        return None
    try:
        fsops.make_directories(directory)
        for old in directory.glob("secrets-*.hs"):
            fsops.unlink(old)
        fsops.replace_file(file, compiled)
    except (OSError, StorageError):
        return None  # used in this process only
    return file


def use_engine(file: Path) -> bool:
    """Whether a kept engine could be taken into use."""
    try:
        return scan_engine.use(file.read_bytes())
    except OSError:
        return False
