"""Directories in memory, for what tests write: a disk is waited for with each of the many files that are flushed.

What is tested is what our calls do, not what a disk does. A torture run uses the disk.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from pathlib import Path

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
_MEMORY, _ROOM, _OURS = Path("/dev/shm"), 4 << 30, "recollect-tests-"


@functools.cache
def memory() -> Path | None:
    """Where there is memory to write to, and enough of it; else None, which means the disk wherever a directory is named."""
    if TORTURE or not os.access(_MEMORY, os.W_OK):
        return None
    for left in _MEMORY.glob(f"{_OURS}*"):  # by a run that was killed
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    space = os.statvfs(_MEMORY)
    return _MEMORY if space.f_bavail * space.f_frsize >= _ROOM else None


def directory(name: str, *, on_disk: bool = False) -> Path:
    """A new one, which the caller removes."""
    return Path(tempfile.mkdtemp(prefix=f"{_OURS}{os.getpid()}-{name}-", dir=None if on_disk else memory()))
