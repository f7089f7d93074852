"""What we know about a remote: how far each file was sent, what was pulled, and the session names there.

It is a cache, not the source of truth. The remote knows where its logs end, and the local logs hold every
line; without this file everything is compared again and nothing is sent or stored twice. So it is written as
a whole, occasionally and at the end, and an unreadable file counts as missing (it is renamed).

A log is recognised by inode, size and time, and by the bytes before the last sent position: one that only
grew is read from there, one that was rewritten is compared from its start.
"""

from __future__ import annotations

import contextlib
import uuid
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.system import fsops
from recollect.system.fsops import as_storage_error
from recollect.system.lock import FileLock

_VERSION = 1
_NAME_DIGITS = 16


class ValueMapping(Struct, array_like=True, frozen=True):
    """A value that differs on this machine: ``there`` on the remote is ``here`` in these fields of a line."""

    there: str
    here: str
    fields: tuple[str, ...]


class SyncTarget(Struct, array_like=True, frozen=True):
    """The remote session of a local session; "" where it was deleted there and is not sent again."""

    session: str
    renamed: tuple[ValueMapping, ...] = ()


class KnownLog(Struct, array_like=True, frozen=True):
    """A log as last seen: the bytes sent (``sent``), and the remote's position there.

    ``tail`` is a hash of the bytes before that position. ``session`` and ``key`` are the remote's.
    """

    size: int
    mtime_ns: int
    inode: int
    sent: int
    lines: int
    hash: bytes
    tail: bytes
    session: str
    key: str


class KnownFile(Struct, array_like=True, frozen=True):
    """A side file as it was sent; ``sha256`` is that of the bytes the remote has."""

    size: int
    mtime_ns: int
    inode: int
    sha256: str
    session: str
    key: str


class PulledLog(Struct, array_like=True, frozen=True):
    """A pulled log: its path, its length then, and the remote's position."""

    path: str
    size: int
    lines: int
    hash: bytes


class SyncState(Struct):
    """The whole state.

    ``targets`` and ``directories`` are by the path of a session's log without its suffix; ``owners`` by the
    path of a flat sub-agent's log; ``pulled`` by session and key; ``about`` is the remote directory and
    repository of a pulled session. ``newest`` is the remote's time of the last pull.
    """

    version: int = _VERSION
    logs: dict[str, KnownLog] = {}
    files: dict[str, KnownFile] = {}
    directories: dict[str, str] = {}
    owners: dict[str, str] = {}
    targets: dict[str, SyncTarget] = {}
    pulled: dict[str, dict[str, PulledLog]] = {}
    pulled_files: dict[str, dict[str, str]] = {}
    about: dict[str, tuple[str | None, str | None]] = {}
    seen: dict[str, tuple[int, int, int]] = {}
    newest: int = 0


class StateFile:
    """The state file of one remote in our own directory. One process at a time uses it."""

    def __init__(self, data: Path, address: str) -> None:
        self.directory = data / "sync"
        name = sha256(address.encode()).hexdigest()[:_NAME_DIGITS]
        self.path = self.directory / f"{name}.state"
        self._lock = self.directory / f"{name}.lock"

    def locked(self, timeout: float = 10.0) -> FileLock:
        """Held while pushing or pulling."""
        with as_storage_error("create", self.directory):
            fsops.make_directories(self.directory)
        return FileLock(self._lock, timeout, guards=self.path)

    def load(self) -> SyncState:
        """The saved state; empty where it is missing or unreadable."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return SyncState()
        with contextlib.suppress(msgspec.MsgspecError, ValueError):
            state = msgspec.msgpack.decode(data, type=SyncState)
            if state.version == _VERSION:
                return state
        with contextlib.suppress(OSError):
            fsops.rename_over(self.path, self.path.with_suffix(".unreadable"))
        return SyncState()

    def save(self, state: SyncState) -> None:
        with as_storage_error("write", self.path):
            fsops.make_directories(self.directory)
            fsops.replace_file(self.path, msgspec.msgpack.encode(state))


def machine_id(data: Path) -> str:
    """A random id of this installation, created once; it distinguishes branches and is not secret."""
    path = data / "sync" / "machine.id"
    with contextlib.suppress(OSError, ValueError):
        return str(uuid.UUID(path.read_text("ascii").strip()))
    made = str(uuid.uuid4())
    with as_storage_error("write", path):
        fsops.make_directories(path.parent)
        fsops.replace_file(path, made.encode() + b"\n")
    return made


def append_durably(path: Path, data: bytes, expected_size: int) -> bool:
    """Append bytes to a file of ours that has this size; False where it has another. Created if missing."""
    with as_storage_error("append to", path):
        fsops.make_directories(path.parent)
        fd = fsops.open_append(path)
        try:
            if fsops.size_of(fd) != expected_size:
                return False
            fsops.write_all(fd, data)
            fsops.sync_data(fd)
        finally:
            fsops.close_quietly(fd)
        if not expected_size:  # the file may be new
            fsops.sync_dir(path.parent)
    return True
