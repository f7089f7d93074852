"""What we know of a remote: how far each file was sent, what was pulled, which session has which name there.

It is a memory, not the truth. The remote knows where its logs end, and the logs here hold every line; without this file
everything is compared anew and nothing is sent or stored twice. So it is written whole, now and then and at the
end, and one that cannot be read is as good as none (it is kept under another name).

A log is known by inode, size and time, and by the bytes before the place it was sent to: one that only grew
is read from there, one that was written anew is compared from its start.
"""

from __future__ import annotations

import contextlib
import uuid
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.system import fsops
from recollect.system.lock import FileLock
from recollect.system.refusals import as_storage_error

_VERSION = 1
_NAME_DIGITS = 16


class ValueMapping(Struct, array_like=True, frozen=True):
    """A value that reads otherwise on this machine: ``there`` on the remote is ``here`` in these fields of a line."""

    there: str
    here: str
    fields: tuple[str, ...]


class SyncTarget(Struct, array_like=True, frozen=True):
    """The session of the remote that a session here is kept in; "" where it was deleted there and is not sent again."""

    session: str
    renamed: tuple[ValueMapping, ...] = ()


class KnownLog(Struct, array_like=True, frozen=True):
    """A log as it was seen, up to where it was sent (``sent`` bytes), and the remote's position there.

    ``tail`` is a hash of the bytes before that place. ``session`` and ``key`` are the remote's.
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
    """A log that was pulled: where it lies, how long it was then, and the remote's position."""

    path: str
    size: int
    lines: int
    hash: bytes


class SyncState(Struct):
    """All of it. ``targets`` is by the path of a session's log without its ending, ``directories`` too; ``owners`` by the
    path of a flat sub-agent's log; ``pulled`` by session and key; ``about`` is the directory and the repository a
    pulled session worked in, elsewhere. ``newest`` is the remote's time of the last pull.
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
    """The memory of one remote in our own directory. One process at a time works with it."""

    def __init__(self, data: Path, address: str) -> None:
        self.directory = data / "sync"
        name = sha256(address.encode()).hexdigest()[:_NAME_DIGITS]
        self.path = self.directory / f"{name}.state"
        self._lock = self.directory / f"{name}.lock"

    def locked(self, timeout: float = 10.0) -> FileLock:
        """Held by whoever pushes or pulls."""
        with as_storage_error("create", self.directory):
            fsops.make_directories(self.directory)
        return FileLock(self._lock, timeout, guards=self.path)

    def load(self) -> SyncState:
        """What was kept; nothing where there is nothing that can be read."""
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
        """Keep it, whole."""
        with as_storage_error("write", self.path):
            fsops.make_directories(self.directory)
            fsops.replace_file(self.path, msgspec.msgpack.encode(state))


def machine_id(data: Path) -> str:
    """A random name of this machine's recollect, made once; it tells branches apart and is no secret."""
    path = data / "sync" / "machine.id"
    with contextlib.suppress(OSError, ValueError):
        return str(uuid.UUID(path.read_text("ascii").strip()))
    made = str(uuid.uuid4())
    with as_storage_error("write", path):
        fsops.make_directories(path.parent)
        fsops.replace_file(path, made.encode() + b"\n")
    return made


def append_durably(path: Path, data: bytes, expected_size: int) -> bool:
    """Add bytes to a file of ours that has this size; False where it has another. It is made where it is missing."""
    with as_storage_error("append to", path):
        fsops.make_directories(path.parent)
        opened = fsops.open_append(path)
        try:
            if fsops.size_of(opened.fd) != expected_size:
                return False
            fsops.write_all(opened.fd, data)
            fsops.sync_data(opened.fd)
        finally:
            fsops.close_quietly(opened.fd)
        if opened.created:
            fsops.sync_dir(path.parent)
    return True
