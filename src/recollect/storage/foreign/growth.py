"""What a foreign file has gained since it was last read, and whether it is still the same file.

Files of agents are appended to, but some clients rewrite them: a changed head, or changed bytes before the place
where reading stopped, begin a new generation, and everything is read again. Only where a file changed without growing, or is
another file, or older than it was, all that was read is compared: someone edited it, or put another in its place.
"""

from __future__ import annotations

import io
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

from recollect.errors import StorageError
from recollect.system.peek import ReadProblems, open_regular

_HEAD, _TAIL, _BLOCK = 4096, 256, 1 << 20
_HINT = "its session stays as it was mirrored last; check the file and its permissions"
# A torn last line that was not finished in this time is taken unchanged.
_SETTLED_SECONDS = 60


def _holds_its_own(session: str) -> bool:
    return True


def holds_none(session: str) -> bool:
    """For a unit that lies beside the file of a session, or that clients do not read any more."""
    return False


class Unit(NamedTuple):
    """One thing that a client changes as a whole. The stamp differs where it may have changed."""

    key: str
    stamp: tuple[int, ...]
    path: Path
    source: str  # its path below the foreign home
    # Whether the client finds a session there, by its own name for it; asked of stores of several sessions.
    holds: Callable[[str], bool] = _holds_its_own


class Growth(Struct):
    """How far a file was read."""

    consumed: int = 0
    head: str = ""
    tail: str = ""
    generation: int = 0
    is_torn: bool = False  # a last line was left there, since its end may still come
    took_torn: bool = False  # it was taken without its end
    stamp: tuple[int, ...] = ()  # of the unit when it was read
    checksum: int | None = None  # of all that was read; states of before have none


class _GrowthState(Struct):
    """What the states of all readers of files have."""

    growth: Growth = msgspec.field(default_factory=Growth)


class NewLines(NamedTuple):
    """The lines that were added, newlines included; all of them where the file is another one."""

    lines: list[bytes]
    is_restarted: bool


def stamped(home: Path, path: str, key: str | None = None) -> Unit | None:
    """A file of a home as it is now, which goes by its place there or another key; None where it cannot be seen.

    Every command asks for thousands of them: their names are put together as text.
    """
    try:
        seen = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    source = path[len(os.path.join(home, "")) :].replace(os.sep, "/")  # noqa: PTH118
    return Unit(key or source, (seen.st_size, seen.st_mtime_ns, seen.st_ino), Path(path), source)


def walked(top: Path, problems: ReadProblems | None) -> Iterator[tuple[str, list[str]]]:
    """Every directory below one, with the names of its files. What is no directory, or cannot be listed, is noted."""

    def note(cause: OSError) -> None:
        if problems is not None and not isinstance(cause, FileNotFoundError):
            problems.note(Path(cause.filename or top), cause)

    for where, below, names in os.walk(top, onerror=note):
        below.sort()
        yield where, names


def content(path: Path) -> bytes:
    """The whole content; a compressed file as what it was."""
    with _opened(path) as file:
        return file.read()


def _opened(path: Path) -> BinaryIO:
    try:
        file = open_regular(path)
    except OSError as cause:
        raise StorageError("read", path, cause, hint=_HINT) from cause
    if not path.name.endswith(".zst"):
        return file
    with file:
        return io.BytesIO(_decompressed(path, file.read()))


def _decompressed(path: Path, data: bytes) -> bytes:
    """Every frame; a reader of streams would take a file that was cut for a whole one."""
    import zstandard

    found = bytearray()
    try:
        while True:
            frame = zstandard.ZstdDecompressor().decompressobj()
            found += frame.decompress(data)
            if not frame.eof:
                raise StorageError("read", path, OSError(0, "it was cut off"), hint=_HINT)
            data = frame.unused_data
            if not data:
                return bytes(found)
    except zstandard.ZstdError as cause:
        raise StorageError("read", path, OSError(0, str(cause)), hint=_HINT) from cause


def new_lines(unit: Unit, growth: Growth) -> NewLines:
    """What is new, and the state after it in ``growth``."""
    with _opened(unit.path) as file:
        if growth.consumed and _is_other(file, unit, growth):
            growth.generation += 1
            growth.consumed = 0
        checksum = _checked(file, growth)
        file.seek(growth.consumed)
        lines = file.readlines()
        growth.is_torn = bool(lines) and not lines[-1].endswith(b"\n") and not _is_taken(unit, lines[-1])
        if growth.is_torn:
            lines.pop()
        if lines:
            growth.took_torn = not lines[-1].endswith(b"\n") and not _is_value(lines[-1])
        was_read = growth.consumed > 0
        growth.consumed += sum(map(len, lines))
        growth.head, growth.tail = _marks(file, growth.consumed)
    growth.stamp = unit.stamp
    growth.checksum = None if checksum is None else _summed(lines, checksum)
    return NewLines(lines, not was_read)


def _is_other(file: BinaryIO, unit: Unit, growth: Growth) -> bool:
    """Whether a file is not the one that was read so far, or the end of a line came that was taken without it."""
    if (growth.head, growth.tail) != _marks(file, growth.consumed):
        return True
    if growth.took_torn and file.seek(0, io.SEEK_END) > growth.consumed:
        return True
    if growth.checksum is None or not _is_suspect(growth.stamp, unit.stamp):
        return False
    return growth.checksum != _sum_of(file, growth.consumed)


def _is_suspect(before: tuple[int, ...], now: tuple[int, ...]) -> bool:
    """Whether a file changed as no append does. Each is size, time and inode."""
    if before == now or not before:
        return False
    return now[0] == before[0] or now[1] < before[1] or now[2] != before[2]


def _checked(file: BinaryIO, growth: Growth) -> int | None:
    """The checksum of what was read so far; a state of before gets one, for which the file is read once."""
    if not growth.consumed:
        return 0
    return _sum_of(file, growth.consumed) if growth.checksum is None else growth.checksum


def _sum_of(file: BinaryIO, end: int) -> int:
    file.seek(0)
    return _summed(iter(lambda: file.read(min(_BLOCK, end - file.tell())), b""), 0)


def _summed(blocks: Iterable[bytes], value: int) -> int:
    """A checksum that goes on from its own value, so that what was read before is not needed for it."""
    for block in blocks:
        value = zlib.crc32(block, value)
    return value


def is_left_torn(state: bytes) -> bool:
    """Whether a unit has to be looked at again although it does not change: its last line is taken when it has settled."""
    return bool(state) and msgspec.msgpack.decode(state, type=_GrowthState).growth.is_torn


def was_read(growth: Growth, data: bytes) -> bool:
    """Whether a file with these bytes is the one that was read so far."""
    file = io.BytesIO(data)
    is_same = growth.checksum is None or growth.checksum == _sum_of(file, growth.consumed)
    return is_same and _marks(file, growth.consumed) == (growth.head, growth.tail)


def whole_document(unit: Unit, growth: Growth) -> list[bytes]:
    """A file that is rewritten at every change, as one record; nothing where it is the same as before."""
    data = content(unit.path)
    digest = blake2b(data, digest_size=8).hexdigest()
    if digest == growth.head:
        return []
    growth.generation += growth.head != ""
    growth.consumed, growth.head = len(data), digest
    return [data]


def _is_taken(unit: Unit, last: bytes) -> bool:
    """Whether a line without its newline is an entry already, or is not likely to become one."""
    # A clock that was set back makes no difference for long.
    return _is_value(last) or abs(time.time() - unit.stamp[1] / 1e9) > _SETTLED_SECONDS


def _is_value(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _marks(file: BinaryIO, end: int) -> tuple[str, str]:
    """Digests of the beginning and of what stands before the place where reading stopped."""
    if not end:
        return "", ""
    file.seek(0)
    head = file.read(min(end, _HEAD))
    start = max(0, end - _TAIL)
    file.seek(start)
    tail = file.read(end - start)
    return blake2b(head, digest_size=8).hexdigest(), blake2b(tail, digest_size=8).hexdigest()
