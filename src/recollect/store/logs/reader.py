"""Read a log that other programs may be writing, damaging or replacing at this moment.

Readers take what is whole: ``model.lines.damage`` decides what is a line. What is not whole at the end of the log
is *pending* and never returned as an entry or as damage (S3, P2). Bytes are read by position, and a line cut by
the edge of a chunk is read again, so nothing is carried over, memory is constant for any length, and the same
code reads from either end. ``item.end`` is always the position to read on from, also inside a line whose newline
was missing: what comes after it is then returned, blank or as damage.

Promises. Damage in one line hides that line and no other (P3). A line over the limit is reported by offset
and length and never held (L3). A log that grows, is cut or is overwritten while it is read at worst ends the
pass early; it never raises and never yields part of a line. Reading opens a descriptor for one call or one
iteration, closes it at its end, and writes nothing (H10).

It does not open pipes, devices or directories, take a lock, repair anything, or decide which of two lines
with one id counts: ``without_repeats`` drops only the exact repeat of an append, the rest is decided by the
graph.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from recollect.errors import NotFound, StorageError, UsageError
from recollect.model.lines.damage import (
    DEFAULT_LIMITS,
    FIRST_READ,
    NEWLINE,
    READ,
    SEAM,
    Damage,
    Limits,
    Line,
    PendingTail,
    first_seam,
    last_seam,
    oversize,
    rest_damage,
    split_lines,
)

# The codec is imported where lines become entries: most callers that read lines never need one.
if TYPE_CHECKING:
    from recollect.model.lines.entry import Entry
    from recollect.store.archive.objects import SeekableReader

# A page from the end of a log should cost a page, so every pass starts small.
_PROBE = 4 * 1024
_FINGERPRINT = 256
# A log in the archive: compressed, and also read by position.
PACKED = ".zst"

# O_NONBLOCK: a pipe that replaces the log after the check must not make open() wait for a writer.
_FLAGS = os.O_RDONLY
for _name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"):
    _FLAGS |= getattr(os, _name, 0)


class OpenLog:
    """One open log: whole lines by position, forwards and backwards.

    Positions are bytes from the start. Methods never read beyond the existing bytes; a log that shrinks
    meanwhile ends their iteration.
    """

    def __init__(self, source: Path | int, limits: Limits = DEFAULT_LIMITS) -> None:
        self._owned = not isinstance(source, int)
        self.path = Path(f"descriptor {source}") if isinstance(source, int) else source
        self.limits = limits
        self.fd = source if isinstance(source, int) else _opened(source)
        self._packed = self._unpacking() if self.path.suffix == PACKED else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor, if it is ours. Safe to call twice."""
        if self._owned and self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def stat(self) -> os.stat_result:
        """The state of the open file, even if its name now points to another."""
        return os.fstat(self.fd)

    def size(self) -> int:
        """How many bytes can be read; for a compressed log, the unpacked size."""
        return self.stat().st_size if self._packed is None else self._packed.size

    def read(self, size: int, offset: int) -> bytes:
        """At most ``size`` bytes from ``offset``; empty at the end."""
        if self._packed is not None:
            return self._packed.read(size, offset)
        try:
            return _read_at(self.fd, size, offset)
        except OverflowError:
            return b""  # an offset no file can have, as in a foreign cursor
        except OSError as cause:
            hint = "what was read before is valid; check the disk and read again"
            raise StorageError("read", self.path, cause, hint=hint) from cause

    def read_all(self, size: int, offset: int) -> bytes:
        """Like ``read``, but less than ``size`` only at the end of the log."""
        data = self.read(size, offset)
        while data and len(data) < size:
            more = self.read(size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def whole_end(self) -> int:
        """Where the last whole line ends; what follows is pending."""
        end = self._sure_start(self.size())
        for item in split_lines(self.read, end, self.size(), self.limits):
            end = item.end
        return end

    def committed_end(self, stop: int | None = None) -> int:
        """Where the last whole line with a newline ends, as if the log ended at ``stop``."""
        stop = self.size() if stop is None else stop
        end = self._sure_start(stop)
        for item in split_lines(self.read, end, stop, self.limits):
            end = item.end if item.ended else item.offset
        return end

    def line_start(self, position: int) -> int:
        """The last place after a newline at or before ``position``."""
        size = _PROBE
        while position > 0:
            low = max(0, position - size)
            newline = self.read_all(position - low, low).rfind(NEWLINE)
            if newline >= 0:
                return low + newline + 1
            position, size = low, min(size * 4, READ)
        return 0

    def next_line(self, position: int, stop: int | None = None) -> int | None:
        """The first place after a newline at or after ``position``; None where none comes before ``stop``."""
        if position <= 0:
            return 0
        if self.read(1, position - 1) == NEWLINE:
            return position
        return self._after_newline(position, stop)

    def lines(
        self, start: int = 0, stop: int | None = None, *, goes_on: bool = False
    ) -> Iterator[Line | Damage]:
        """Lines from ``start`` on, as if the log ended at ``stop``, or up to there if it ``goes_on`` with a line.

        A start inside a line moves to the next one, unless it is where an entry without a newline ended: then the
        rest of that line comes first, as a blank line or as damage.
        """
        position: int | None = max(0, start)
        if start > 0 and self.read(1, start - 1) != NEWLINE:
            position = self._after_newline(start, stop)
            if position is not None and self._is_end(start):
                yield self._rest(start, position)
        if position is not None:
            yield from split_lines(self.read, position, stop, self.limits, goes_on=goes_on)

    def lines_backwards(self, end: int) -> Iterator[Line | Damage]:
        """Lines before ``end``, which must be the start of a line or the end of one, newest first."""
        size, top = FIRST_READ, end
        while end > 0:
            low = max(0, end - size)
            data = self.read_all(end - low, low)
            if len(data) != end - low or (end < top and not data.endswith(NEWLINE)):
                return  # cut or overwritten meanwhile
            begin = first_seam(data) if low else 0
            # Without a seam there is one line, or a few that only reading on from a sure start tells apart.
            start = low + begin if begin >= 0 else self._sure_start(end)
            yield from reversed(list(split_lines(self.read, start, end, self.limits, goes_on=True)))
            end = start
            size = min(size * 2, READ)

    def fingerprint(self, position: int) -> bytes:
        """The bytes before ``position``: they show later whether this is still the same log."""
        start = max(0, position - _FINGERPRINT)
        return self.read_all(position - start, start)

    def fingerprint_after(self, line: Line | Damage, before: bytes) -> bytes:
        """The fingerprint at the end of ``line``, given the one at its start.

        Computed from the line that was read, because the log may have changed since; only an oversize line
        must be read from the log.
        """
        if isinstance(line, Damage):
            return self.fingerprint(line.end)
        return (before + line.data[-_FINGERPRINT:] + NEWLINE * line.ended)[-_FINGERPRINT:]

    def _unpacking(self) -> SeekableReader:
        # Imported here: only an archived log needs it, and it costs as much as everything else.
        from recollect.store.archive.objects import SeekableReader

        try:
            return SeekableReader(self.fd, self.path)
        except BaseException:
            self.close()
            raise

    def _after_newline(self, position: int, stop: int | None) -> int | None:
        while stop is None or position < stop:
            chunk = self.read(READ if stop is None else min(READ, stop - position), position)
            newline = chunk.find(NEWLINE)
            if newline >= 0:
                return position + newline + 1
            if not chunk:
                return None
            position += len(chunk)
        return None

    def _sure_start(self, position: int) -> int:
        """A place before ``position`` where a line certainly begins, near it if there is one."""
        high, size = position, _PROBE
        while high > 0:
            low = max(0, high - size)
            # Three bytes more: a seam may be at the edge of two reads.
            found = last_seam(self.read_all(min(high + 3, position) - low, low))
            if found >= 0:
                return low + found
            high, size = low, min(size * 4, READ)
        return 0

    def _is_end(self, position: int) -> bool:
        """Whether an entry without a newline ends there, if the log ends there or later on the same line.

        Later: an open line before it may be known as broken only by what follows the entry.
        """
        start, most = self._sure_start(position), self.line_start(position) + self.limits.line_bytes
        after = self._after_newline(position, most)
        stops = (position, min(most, self.size()) if after is None else after - 1)
        return any(
            line.end == position and not line.ended
            for stop in stops
            for line in split_lines(self.read, start, stop, self.limits)
        )

    def _rest(self, start: int, end: int) -> Line | Damage:
        """The rest of a line that is longer than the entry it begins with."""
        length = end - start - 1
        if length > self.limits.line_bytes:
            return oversize(start, length, self.limits)
        data = self.read_all(length, start)
        return rest_damage(data, start) if data.strip(b" \t\r") else Line(data, start)


def read_lines(
    source: Path | int, start: int = 0, stop: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> Generator[Line | Damage, None, None]:
    """Lines of a log, undecoded, including blank ones; Damage is what needs no decoding, like a line over the limit.

    ``source`` is a path, or a descriptor that stays open. ``start`` and ``stop`` are as in ``OpenLog.lines``.
    """
    with OpenLog(source, limits) as log:
        yield from log.lines(start, stop)


class LogReader:
    """A log as entries and damage. Holds no descriptor between calls."""

    def __init__(self, path: str | Path, limits: Limits = DEFAULT_LIMITS) -> None:
        self.path = path if isinstance(path, Path) else Path(path)
        self.limits = limits

    def __repr__(self) -> str:
        return f"<LogReader {self.path}>"

    def __iter__(self) -> Iterator[Entry | Damage]:
        return self.entries()

    def entries(self, start: int = 0, stop: int | None = None) -> Generator[Entry | Damage, None, None]:
        """Stream items; ``start`` and ``stop`` as in ``read_lines``. The log is opened at the first item."""
        with OpenLog(self.path, self.limits) as log:
            yield from self._items(log.lines(start, stop))

    def pending(self) -> PendingTail | None:
        """What is no whole line yet at the end, if there is such a thing at this moment."""
        with OpenLog(self.path, self.limits) as log:
            size, end = log.size(), log.whole_end()
            is_blank = not log.read_all(min(size - end, _PROBE), end).strip(b" \t\r")
            return None if is_blank else PendingTail(end, size - end)

    def tail(self, count: int) -> list[Entry | Damage]:
        """The last ``count`` items, in the order of the log."""
        if count < 1:
            raise UsageError(f"the last {count} entries: too few", hint="use at least 1")
        with OpenLog(self.path, self.limits) as log:
            items = list(islice(self._items(log.lines_backwards(log.whole_end())), count))
        return items[::-1]

    def entry_at(self, offset: int, length: int = 0) -> Entry | Damage | None:
        """The item whose line starts exactly at ``offset``; None if no whole line does, or a blank one.

        ``length`` is what the line is expected to have: if it has, nothing else is read.
        """
        with OpenLog(self.path, self.limits) as log:
            return entry_in(log, offset, length)

    def _items(self, lines: Iterable[Line | Damage]) -> Iterator[Entry | Damage]:
        from recollect.model.lines.codec import decode

        for line in lines:
            item = decode(line, self.limits) if isinstance(line, Line) else line
            if item is not None:
                yield item


def entry_in(log: OpenLog, offset: int, length: int = 0) -> Entry | Damage | None:
    """The same in a log that is open already, for those who read many."""
    from recollect.model.lines.codec import decode

    if 0 < length <= log.limits.line_bytes and offset > 0:
        data = log.read_all(length + 2, offset - 1)
        # The rule of ``split_lines`` for sound lines.
        if data.startswith(b"\n{") and data[length - 1 :] == SEAM and data.find(NEWLINE, 1) == length:
            return decode(Line(data[1:length], offset), log.limits)
    if offset < 0 or (offset and log.read(1, offset - 1) != NEWLINE):
        return None
    line = next(log.lines(offset), None)
    return decode(line, log.limits) if isinstance(line, Line) else line


def without_repeats(items: Iterable[Entry | Damage]) -> Iterator[Entry | Damage]:
    """Leave out an entry whose id and bytes both occurred before: a repeated append (P9, L8).

    Two entries with one id and different bytes both pass; the graph decides which one counts. Holds 16 bytes
    for each entry with an id.
    """
    import hashlib

    from recollect.model.lines.entry import Entry

    seen: set[bytes] = set()
    for item in items:
        if isinstance(item, Entry) and item.uuid is not None:
            # The line contains its id, so equal bytes are equal ids. Not hash(): a crafted line must not hide
            # another.
            digest = hashlib.blake2b(item.raw, digest_size=16).digest()
            if digest in seen:
                continue
            seen.add(digest)
        yield item


def _opened(path: Path) -> int:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            _refuse(path)
        fd = os.open(path, _FLAGS)
    except (FileNotFoundError, NotADirectoryError, ValueError) as cause:
        hint = "it may have been moved or cleaned up; list the sessions that exist"
        raise NotFound(f"no log at {path}", hint=hint) from cause
    except OSError as cause:
        raise StorageError("open", path, cause, hint="check its permissions; nothing was read") from cause
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        _refuse(path)
    return fd


def _refuse(path: Path) -> NoReturn:
    cause = OSError(errno.EINVAL, "not a regular file")
    raise StorageError("open", path, cause, hint="a log must be a regular file, or a link to one")


def _read_at(fd: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(fd, size, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, size)
