"""The graph of a large log, cached in a file beside the index, so that the log need not be read whole again.

Reading a log of 50 MB for its ids and links takes a fifth of a second; the cache has a tenth of the bytes and
loads in a tenth of the time. The file holds ids, links, times and offsets, no text of the transcript. It may
be deleted at any time.

The cache is valid only while the log is the same file: unchanged, or grown after the same bytes. A file of
another version, a damaged or an unusable one counts as missing, and a failure to write it is ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.model.conversation.node import LeafMark, Node
from recollect.storage.logs.reader import OpenLog
from recollect.system import fsops
from recollect.system.peek import open_regular

# Increase with each change in what ``node_of`` makes of a line; added or removed fields are noticed
# automatically.
_FORMAT = " ".join(("5", *Node.__struct_fields__))
_HEAD = 512
_LONGEST_HEADER = 64 << 10
_SUFFIX = ".points"
_MOST_FILES = 400
_MOST_BYTES = 256 << 20


class LogPoints(Struct):
    """What was read of a log so far.

    ``meta`` are the offsets of lines that the client wrote in the user's name, ``commands`` of slash commands,
    ``mixed`` of results with something beside them; ``calls`` are the ids of the calls that a line makes.
    """

    points: list[Node | LeafMark] = []
    meta: set[int] = set()
    commands: set[int] = set()
    mixed: set[int] = set()
    calls: dict[int, tuple[str, ...]] = {}
    end: int = 0
    before_end: bytes = b""


class _PointsHeader(Struct, array_like=True, frozen=True):
    """Identifies the log, its state when it was read, and the checksum of the rest."""

    format: str
    log: str
    device: int
    inode: int
    size: int
    modified: int
    head_bytes: int
    head: str
    end: int
    before_end: str
    check: int

    def fits(self, log: OpenLog) -> bool:
        """Whether the log is still the same, or has only grown."""
        now = log.stat()
        if (self.device, self.inode) != (now.st_dev, now.st_ino) or log.size() < self.end:
            return False
        is_same = (now.st_size, now.st_mtime_ns) == (self.size, self.modified)
        is_longer = now.st_size > self.size and _digest(log.read_all(self.head_bytes, 0)) == self.head
        return (is_same or is_longer) and _digest(log.fingerprint(self.end)) == self.before_end


class _PointsBody(Struct, array_like=True, frozen=True):
    nodes: list[Node]
    marks: list[LeafMark]
    meta: set[int]
    commands: set[int]
    mixed: set[int]
    calls: dict[int, tuple[str, ...]]


_header = msgspec.json.Decoder(_PointsHeader)
_rest = msgspec.msgpack.Decoder(_PointsBody)
_UNUSABLE = (msgspec.MsgspecError, UnicodeError, OSError, ValueError)


class PointsCache:
    """A directory of such files; the oldest are removed when there are too many."""

    def __init__(self, directory: Path, most_files: int = _MOST_FILES, most_bytes: int = _MOST_BYTES) -> None:
        self._directory = directory
        self._most_files, self._most_bytes = most_files, most_bytes

    def read(self, log: OpenLog) -> LogPoints | None:
        """The valid cached part of a log; the log may have grown since."""
        try:
            with open_regular(self._place(log.path)) as file:
                header = _header.decode(file.readline(_LONGEST_HEADER))
                if not _is_ours(header, log.path) or not header.fits(log):
                    return None
                data = file.read()
            if zlib.crc32(data) != header.check:
                return None
            rest = _rest.decode(data)
        except _UNUSABLE:
            return None
        points: list[Node | LeafMark] = [*rest.nodes, *rest.marks]
        points.sort(key=lambda point: point.offset)
        ends = (header.end, log.fingerprint(header.end))
        return LogPoints(points, rest.meta, rest.commands, rest.mixed, rest.calls, *ends)

    def covers(self, log: OpenLog) -> int:
        """Up to which byte a log need not be read again."""
        try:
            with open_regular(self._place(log.path)) as file:
                header = _header.decode(file.readline(_LONGEST_HEADER))
        except _UNUSABLE:
            return 0
        return header.end if _is_ours(header, log.path) and header.fits(log) else 0

    def write(self, log: OpenLog, status: os.stat_result, points: LogPoints) -> None:
        """Cache what was read of a log.

        ``status`` must be from before the reading, so that it covers nothing newer.
        """
        nodes = [one for one in points.points if isinstance(one, Node)]
        marks = [one for one in points.points if isinstance(one, LeafMark)]
        try:
            head = log.read_all(_HEAD, 0)
            body = _PointsBody(nodes, marks, points.meta, points.commands, points.mixed, points.calls)
            data = msgspec.msgpack.encode(body)
            header = _PointsHeader(
                _FORMAT,
                str(log.path),
                status.st_dev,
                status.st_ino,
                status.st_size,
                status.st_mtime_ns,
                len(head),
                _digest(head),
                points.end,
                _digest(points.before_end),
                zlib.crc32(data),
            )
            fsops.make_directories(self._directory)
            fsops.replace_file(self._place(log.path), msgspec.json.encode(header) + b"\n" + data)
            self._make_room()
        except _UNUSABLE:
            return

    def _place(self, log: Path) -> Path:
        name = hashlib.sha256(os.fsencode(log)).hexdigest()[:32]
        return self._directory / (name + _SUFFIX)

    def _make_room(self) -> None:
        with os.scandir(self._directory) as entries:
            seen = [(entry.stat(), entry.path) for entry in entries if entry.name.endswith(_SUFFIX)]
        seen.sort(key=lambda pair: pair[0].st_mtime_ns, reverse=True)
        total = 0
        for number, (status, path) in enumerate(seen):
            total += status.st_size
            if number >= self._most_files or (number and total > self._most_bytes):
                with contextlib.suppress(OSError):
                    fsops.unlink(Path(path))


def _is_ours(header: _PointsHeader, log: Path) -> bool:
    return (header.format, header.log) == (_FORMAT, str(log))


def _digest(data: bytes) -> str:
    """Of bytes of the log, which are not stored themselves."""
    return hashlib.sha256(data).hexdigest()
