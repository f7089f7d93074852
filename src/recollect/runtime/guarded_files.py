"""Opens files so that what was decided is what is read and written (C02, C07, C09).

A path is resolved once and then walked by descriptor without following links, so a link swapped in
later leads to a refusal. Only regular files are opened. A new content is written beside the old file
and renamed over it, with the old file's mode.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import NotFound, RecollectError
from recollect.runtime.outcome import ToolFailed
from recollect.system import fsops, openat
from recollect.system.beneath import open_beneath

_ROOT = Path("/")
_MADE_UP = ("/proc/", "/sys/", "/dev/")  # /proc/self/environ contains this process's API key
MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """A file's state when it was read."""

    data: bytes
    identity: tuple[int, int]
    mode: int
    mtime_ns: int


def read(real: str, most: int = MOST_BYTES) -> FileSnapshot | None:
    """The file at a resolved path; None where there is none."""
    if f"{real}/".startswith(_MADE_UP):
        raise ToolFailed(f"{real}: is not a file on a disk")
    try:
        opened = open_beneath(_ROOT, real.strip("/"))
    except NotFound:
        return None
    except RecollectError as problem:
        raise ToolFailed(f"{real}: {problem.message}") from problem
    try:
        found = os.fstat(opened)
        if found.st_size > most:
            raise ToolFailed(
                f"File content ({found.st_size:,} bytes) exceeds maximum allowed size ({most:,} bytes)."
            )
        data = fsops.pread(opened, found.st_size, 0)
    finally:
        fsops.close_quietly(opened)
    return FileSnapshot(data, (found.st_dev, found.st_ino), stat.S_IMODE(found.st_mode), found.st_mtime_ns)


def write(real: str, data: bytes, before: FileSnapshot | None) -> FileSnapshot:
    """Write the file at a resolved path if it is still the one in ``before``; returns its new state."""
    *above, name = real.strip("/").split("/")
    temporary = f".recollect-{secrets.token_hex(8)}.tmp"
    try:
        with openat.opened(_ROOT, tuple(above), create=before is None) as directory:
            _require_same(directory, name, real, before)
            try:
                openat.create_file(directory, temporary, data, None if before is None else before.mode)
                _publish(directory, temporary, name, before)
            except BaseException:
                with contextlib.suppress(OSError):
                    openat.remove(directory, temporary)
                raise
            openat.sync(directory)
    except RecollectError as problem:
        raise ToolFailed(f"{real}: {problem.message}. Nothing was written.") from problem
    except OSError as problem:
        raise ToolFailed(f"{real}: {problem.strerror or problem}. Nothing was written.") from problem
    seen = read(real)
    if seen is None:
        raise ToolFailed(f"{real}: the file was removed right after it was written")
    return seen


def _require_same(directory: int, name: str, real: str, before: FileSnapshot | None) -> None:
    found = openat.status(directory, name)
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise openat.refused_link(Path(real))
    now = None if found is None else (found.st_dev, found.st_ino)
    if now != (None if before is None else before.identity):
        raise ToolFailed(f"{real}: the file changed between the decision and the call. Nothing was written.")


def _publish(directory: int, temporary: str, name: str, before: FileSnapshot | None) -> None:
    # A rename would replace a file created since the check; a hard link fails instead.
    if before is None and openat.give_second_name(directory, temporary, name):
        openat.remove(directory, temporary)
    else:
        openat.replace(directory, temporary, name)
