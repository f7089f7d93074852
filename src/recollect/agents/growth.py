"""What a foreign file has gained since it was last read, and whether it is still the same file.

Files of agents are appended to, but some clients and people rewrite them: where what was read before is not there any more, a
new generation begins, and everything is read again.
"""

from __future__ import annotations

import io
import os
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard
from msgspec import Struct

from recollect.errors import StorageError
from recollect.system.peek import ReadProblems, open_regular

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
    checksum: int = 0  # of all that was read
    generation: int = 0
    is_torn: bool = False  # a last line was left there: it is taken when its end came, or when it has settled
    took_torn: bool = False  # it was taken without its end


class UnitState(Struct, kw_only=True):
    """What reading on in a unit needs to know; agents add what they need."""

    growth: Growth = msgspec.field(default_factory=Growth)


class NewLines(NamedTuple):
    """The lines that were added, newlines included; all of them where the file is another one. ``before`` stands above them."""

    lines: list[bytes]
    is_restarted: bool
    before: bytes


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


def files_below(
    home: Path, pattern: str, kinds: tuple[str, ...], problems: ReadProblems | None
) -> Iterator[Unit]:
    """The files with such endings in directories of a home, by name."""
    for top in sorted(home.glob(pattern)):
        for where, names in walked(top, problems):
            for name in sorted(names):
                if name.endswith(kinds) and not name.startswith("."):
                    unit = stamped(home, f"{where}{os.sep}{name}")
                    if unit is not None:
                        yield unit


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
    try:
        with open_regular(path) as file:
            data = file.read()
    except OSError as cause:
        raise StorageError("read", path, cause, hint=_HINT) from cause
    return _decompressed(path, data) if path.name.endswith(".zst") else data


def _decompressed(path: Path, data: bytes) -> bytes:
    """Every frame; a reader of streams would take a file that was cut for a whole one."""
    result = bytearray()
    try:
        while True:
            frame = zstandard.ZstdDecompressor().decompressobj()
            result += frame.decompress(data)
            if not frame.eof:
                raise StorageError("read", path, OSError(0, "it was cut off"), hint=_HINT)
            data = frame.unused_data
            if not data:
                return bytes(result)
    except zstandard.ZstdError as cause:
        raise StorageError("read", path, OSError(0, str(cause)), hint=_HINT) from cause


def new_lines(unit: Unit, growth: Growth) -> NewLines:
    """What is new, and the state after it in ``growth``."""
    data = content(unit.path)
    before = data[: growth.consumed]
    is_other = zlib.crc32(before) != growth.checksum or (growth.took_torn and len(data) > growth.consumed)
    if growth.consumed and is_other:
        growth.generation += 1
        growth.consumed, before = 0, b""
    file = io.BytesIO(data)
    file.seek(growth.consumed)
    lines = file.readlines()
    growth.is_torn = bool(lines) and not lines[-1].endswith(b"\n") and not _is_taken(unit, lines[-1])
    if growth.is_torn:
        lines.pop()
    if lines:
        growth.took_torn = not lines[-1].endswith(b"\n") and not _is_value(lines[-1])
    growth.consumed += sum(map(len, lines))
    growth.checksum = zlib.crc32(data[: growth.consumed])
    return NewLines(lines, not before, before)


def whole_document(unit: Unit, growth: Growth) -> list[bytes]:
    """A file that is rewritten at every change, as one record; nothing where it is the same as before."""
    data = content(unit.path)
    checksum = zlib.crc32(data)
    if (len(data), checksum) == (growth.consumed, growth.checksum):
        return []
    growth.generation += growth.consumed > 0
    growth.consumed, growth.checksum = len(data), checksum
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
