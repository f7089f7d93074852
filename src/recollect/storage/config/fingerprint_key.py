"""The key for fingerprints of secrets: created once, stored in our own directory, readable by its owner only.

The same key gives the same fingerprints every day, so that an allow list stays valid and equal secrets are
recognisable. If it is lost, a new one is created and all fingerprints change. It keeps guessable secrets from
being tested against a fingerprint, so it never leaves this machine and is never printed.
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
    """The key in our directory; created if missing."""
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
            f"{path}: not a fingerprint key",
            hint="move it away: a new one is created, and every fingerprint changes",
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
        # Two processes that create it at the same moment must end up with the same key: the second uses the
        # first's.
        fsops.rename_new(temporary, path)
        fsops.sync_dir(path.parent)
    except FileExistsError:
        return _read(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            fsops.unlink(temporary)
    return key
