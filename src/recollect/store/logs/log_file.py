"""One log as an open file: where it ends, what was just written, how to remove that again.

While the lock is held, everything between the old end of the file and the new one should be ours. If it is,
byte for byte, a failed write can be removed; if it is not, a program without a lock has written too, and then
nothing is cut off, since no byte that is not ours may be destroyed (P4). The newline that the next writer
puts first isolates the remains.

Every method expects the caller to hold the log's lock, and raises plain ``OSError``.
"""

from __future__ import annotations

import errno
import warnings
from pathlib import Path

from recollect.errors import Outcome
from recollect.system import fsops


class AppendFile:
    """An append descriptor that follows its path: replaced or deleted files are opened again (S6).

    ``unsynced`` is true while the file holds bytes that no sync of ours has covered, our own or those of a
    writer that may have died before its sync. ``sync_failed`` stays true after the first failure (S4).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unsynced = False
        self.sync_failed = False
        self._name = str(path)
        self._fd = -1
        self._identity: tuple[int, int] | None = None
        self._name_is_durable = False
        self._base = 0
        self._reached = 0
        self._seen_end: int | None = None
        self._in_flight: bytes | None = None
        self._network: str | None = None

    def follow_path(self) -> bool:
        """Open what the path names now, creating it if missing; True if that is another file."""
        if self._identity is not None and fsops.identity_at(self._name) == self._identity:
            return False
        self.drop()
        self._fd = self._open()
        self._name_is_durable = False
        self._warn_of_network()
        # Last: if anything above raised, the next round must see an unknown file and start over.
        self._identity = fsops.identity_of(self._fd)
        return True

    def find_end(self) -> int:
        """Where the file ends now."""
        self._base = fsops.go_to_end(self._fd)
        if self._base != self._seen_end:
            self._seen_end = self._base
            self.unsynced = True  # by other programs' bytes, or ours from before a failure
        return self._base

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the file; fewer when it is shorter."""
        return fsops.pread(self._fd, length, offset)

    def append(self, lines: bytes) -> int:
        """Write whole lines at the end, on a fresh line; return the offset of the first byte of ``lines``.

        Call after ``find_end``, and follow with ``settle`` or ``take_back``.
        """
        # Read every time: another program may have cut the file and written it back to the same length.
        ends_whole = self._base == 0 or self.read(self._base - 1, 1) == b"\n"
        payload = lines if ends_whole else b"\n" + lines  # repair a torn tail (S2)
        self._seen_end = None
        self._in_flight = payload
        self.unsynced = True
        fsops.write_all(self._fd, payload)
        end = fsops.position(self._fd)
        if end != self._base + len(payload) and not self._is_on_its_own(payload, end):
            raise OSError(errno.EIO, "another program wrote into the middle of the line")
        if (
            self._network and fsops.size_of(self._fd) < end
        ):  # local file systems do not lose a completed write (H11)
            raise OSError(errno.EIO, "the file is shorter than what was written to it")
        self._reached = end
        return end - len(lines)

    def settle(self) -> None:
        """Accept the bytes just written: remember where they end and never remove them."""
        if self._in_flight is not None:
            self._seen_end = self._reached
            self._in_flight = None

    def take_back(self, *, durably: bool) -> Outcome:
        """Remove what ``append`` left of an unsettled write, if the file ends in it and all of it is ours.

        ``durably`` also syncs: lines of a batch may have reached the disk, and must not reappear after a
        power loss when we report them as not stored.
        """
        payload, self._in_flight = self._in_flight, None
        if payload is None:
            return Outcome.NOT_STORED
        try:
            return self._cut(payload, durably)
        except OSError:
            return Outcome.UNKNOWN

    def sync(self) -> None:
        """Make the bytes durable, and the file's name once per opening (S5). A failure is final (S4)."""
        try:
            fsops.sync_data(self._fd)
            if not self._name_is_durable:
                # Also when the file was here before us: its creator may have died before this step.
                fsops.sync_dir(self.path.parent)
        except OSError:
            self.sync_failed = True
            raise
        self._name_is_durable = True
        self.unsynced = False

    def drop(self) -> None:
        """Close and ignore errors: the file is not ours any more, or its outcome is already reported."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            fsops.close_quietly(fd)
        self._identity = None
        self._seen_end = None
        self._in_flight = None

    def __del__(self) -> None:
        self.drop()

    def _open(self) -> int:
        try:
            return fsops.open_append(self.path)
        except FileNotFoundError:
            fsops.make_directories(self.path.parent)
            return fsops.open_append(self.path)

    def _warn_of_network(self) -> None:
        if self._network is not None:
            return
        self._network = fsops.network_file_system(self._fd)
        if self._network is None:
            return
        warnings.warn(
            f"{self.path} is on {self._network}: two machines appending at once can damage it, and a lock may not work on "
            "the other machine. Keep the store on a local disk",
            fsops.NetworkFileSystem,
            stacklevel=2,
        )

    def _is_on_its_own(self, payload: bytes, end: int) -> bool:
        """Whether our bytes are complete and on fresh lines although another program appended just before them."""
        start = end - len(payload)
        fresh = start == 0 or payload.startswith(b"\n") or self.read(start - 1, 1) == b"\n"
        return fresh and self.read(start, len(payload)) == payload

    def _cut(self, payload: bytes, durably: bool) -> Outcome:
        end = fsops.position(self._fd)
        written = end - self._base
        if written == 0:
            return Outcome.NOT_STORED
        ours = (
            0 < written <= len(payload)
            and fsops.size_of(self._fd) == end
            and self.read(self._base, written) == payload[:written]
        )
        if not ours:
            return Outcome.UNKNOWN
        # A program without a lock could still append between the check above and this cut; no system call does both.
        fsops.truncate(self._fd, self._base)
        if durably:
            self.sync()
        return Outcome.NOT_STORED
