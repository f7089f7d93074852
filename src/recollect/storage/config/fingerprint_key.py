"""The key of the fingerprints of secrets: made once, kept in our own directory, for its owner only.

The same key gives the same fingerprints from day to day, so that an allow list holds and equal secrets can be seen
to be equal. Lost, it is made anew, and all fingerprints change. It protects guessable secrets
from whoever sees a fingerprint, so it never leaves this machine and is never printed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from recollect.errors import DamagedData, StorageError
from recollect.model.secrets.fingerprint import KEY_BYTES
from recollect.system import fsops

_NAME = "fingerprint.key"


def fingerprint_key(data: Path) -> bytes:
    """The key in our directory; made where there is none yet."""
    path = data / _NAME
    try:
        with contextlib.suppress(FileNotFoundError):
            return _read(path)
        return _made(path)
    except OSError as cause:
        hint = f"fingerprints need a key of their own; {fsops.next_step(cause, 'try again')}"
        raise StorageError("read", path, cause, hint=hint) from cause


def _read(path: Path) -> bytes:
    fd = fsops.open_nofollow(path)
    try:
        written = fsops.pread(fd, 4 * KEY_BYTES, 0)
    finally:
        fsops.close_quietly(fd)
    try:
        key = bytes.fromhex(written.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise DamagedData(
            f"{path}: not a key of fingerprints",
            hint="move it away: a new one is made, and every fingerprint changes",
        )
    return key


def _made(path: Path) -> bytes:
    fsops.make_directories(path.parent)
    key = secrets.token_bytes(KEY_BYTES)
    temporary = path.with_name(f".{_NAME}.{os.urandom(6).hex()}.tmp")
    fd = fsops.create_new(temporary)
    try:
        try:
            fsops.write_all(fd, key.hex().encode() + b"\n")
            fsops.sync_file(fd)
        finally:
            fsops.close(fd)
        # Two that make one at the same moment must end up with the same: whoever comes second takes the first's.
        fsops.rename_new(temporary, path)
        fsops.sync_dir(path.parent)
    except FileExistsError:
        return _read(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            fsops.unlink(temporary)
    return key
