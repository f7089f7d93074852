"""Read a log that other programs may be writing, damaging or replacing at this moment.

The newline is the commit mark. A line exists once its newline is on disk; what follows the last newline is
*pending* and never returned as an entry or as damage (S3, P2). Bytes are read by position, and a line cut by
the edge of a chunk is read again, so nothing is carried over, memory is constant for any length, and the same
code pages from either end.

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
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from msgspec import Struct

from recollect.errors import NotFound, StorageError, UsageError
from recollect.model.brief_repr import brief_repr
from recollect.model.damage import DEFAULT_LIMITS, Damage, DamageCode, Limits, Line, PendingTail

# The codec is imported where lines become entries: most callers that read lines never need one.
if TYPE_CHECKING:
    from recollect.model.entry import Entry
    from recollect.storage.archive.seekable import SeekableReader

# A page from the end of a log should cost a page, so every pass starts small. 128 KiB was the fastest of 64
# KiB to 4 MiB on real logs, in both directions: longer chunks leave the allocator's heap and cause page
# faults each time.
_PROBE = 4 * 1024
_FIRST_READ = 64 * 1024
_READ = 128 * 1024
_FINGERPRINT = 256
_NEWLINE = b"\n"
# A log in the archive: compressed, and also read by position.
PACKED = ".zst"

# O_NONBLOCK: a pipe that replaces the log after the check must not make open() wait for a writer.
_FLAGS = os.O_RDONLY
for _name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"):
    _FLAGS |= getattr(os, _name, 0)


class LineBlock(Struct, frozen=True, gc=False):
    """Whole lines of the log, last newline included."""

    data: bytes
    offset: int


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

    def committed_end(self) -> int:
        """Where the last whole line ends."""
        return self.line_start(self.size())

    def line_start(self, position: int) -> int:
        """The last start of a line at or before ``position``."""
        size = _PROBE
        while position > 0:
            low = max(0, position - size)
            newline = self.read_all(position - low, low).rfind(_NEWLINE)
            if newline >= 0:
                return low + newline + 1
            position, size = low, min(size * 4, _READ)
        return 0

    def next_line(self, position: int, stop: int | None = None) -> int | None:
        """The first start of a line at or after ``position``; None where no newline comes before ``stop``."""
        if position <= 0:
            return 0
        if self.read(1, position - 1) == _NEWLINE:
            return position
        return self._after_newline(position, stop)

    def lines(self, start: int = 0, stop: int | None = None) -> Iterator[Line | Damage]:
        """Lines that start at or after ``start`` and end, newline included, at or before ``stop``."""
        position, size, limit = self.next_line(start, stop), _FIRST_READ, self.limits.line_bytes
        while position is not None:
            wanted = size if stop is None else min(size, stop - position)
            chunk = self.read(wanted, position) if wanted > 0 else b""
            if not chunk:
                return
            begin = 0
            while (end := chunk.find(_NEWLINE, begin)) >= 0:
                if end - begin <= limit:
                    yield Line(chunk[begin:end], position + begin)
                else:
                    yield self._oversize(position + begin, end - begin)
                begin = end + 1
            if begin:
                position, size = position + begin, min(size * 2, _READ)
                continue
            end_of_line = self._after_newline(position + len(chunk), stop)
            item = None if end_of_line is None else self._single(position, end_of_line)
            if item is None:
                return
            yield item
            position = item.end

    def lines_backwards(self, end: int) -> Iterator[Line | Damage]:
        """Lines before ``end``, which must be the start of a line or the end of the last, newest first."""
        limit = self.limits.line_bytes
        for block in self.blocks_backwards(end):
            if isinstance(block, Damage):
                yield block
                continue
            data, stop = block.data, len(block.data) - 1
            while stop >= 0:
                begin = data.rfind(_NEWLINE, 0, stop) + 1
                if stop - begin <= limit:
                    yield Line(data[begin:stop], block.offset + begin)
                else:
                    yield self._oversize(block.offset + begin, stop - begin)
                stop = begin - 1

    def blocks_backwards(self, end: int) -> Iterator[LineBlock | Damage]:
        """The same lines in blocks, for a search that need not examine each; Damage is an oversize line."""
        size = _FIRST_READ
        while end > 0:
            low = max(0, end - size)
            data = self.read_all(end - low, low)
            if len(data) != end - low or not data.endswith(_NEWLINE):
                return  # cut or overwritten meanwhile
            begin = data.find(_NEWLINE) + 1 if low else 0
            if begin < len(data):
                yield LineBlock(data[begin:], low + begin)
                end = low + begin
            else:
                start = self.line_start(low)
                item = self._single(start, end)
                if item is None:
                    return
                yield LineBlock(item.data + _NEWLINE, start) if isinstance(item, Line) else item
                end = start
            size = min(size * 2, _READ)

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
        return (before + line.data[-_FINGERPRINT:] + _NEWLINE)[-_FINGERPRINT:]

    def _unpacking(self) -> SeekableReader:
        # Imported here: only an archived log needs it, and it costs as much as everything else.
        from recollect.storage.archive.seekable import SeekableReader

        try:
            return SeekableReader(self.fd, self.path)
        except BaseException:
            self.close()
            raise

    def _after_newline(self, position: int, stop: int | None) -> int | None:
        while stop is None or position < stop:
            chunk = self.read(_READ if stop is None else min(_READ, stop - position), position)
            newline = chunk.find(_NEWLINE)
            if newline >= 0:
                return position + newline + 1
            if not chunk:
                return None
            position += len(chunk)
        return None

    def _single(self, start: int, end: int) -> Line | Damage | None:
        """The one line from ``start`` to ``end``. Measured before it is read, so that it can be refused."""
        if end - start - 1 > self.limits.line_bytes:
            return self._oversize(start, end - start - 1)
        data = self.read_all(end - start - 1, start)
        # Both fail only if the log was cut or overwritten since it was measured.
        whole = len(data) == end - start - 1 and _NEWLINE not in data
        return Line(data, start) if whole and self.read(1, end - 1) == _NEWLINE else None

    def _oversize(self, offset: int, length: int) -> Damage:
        detail = f"{length} bytes, limit {self.limits.line_bytes}"
        return Damage(DamageCode.OVERSIZE, offset, length + 1, detail)


def read_lines(
    source: Path | int, start: int = 0, stop: int | None = None, limits: Limits = DEFAULT_LIMITS
) -> Generator[Line | Damage, None, None]:
    """Lines of a log, undecoded, including blank ones; Damage is a line over the limit.

    ``source`` is a path, or a descriptor that stays open. A ``start`` inside a line moves to the next one.
    The log is read as if it ended at ``stop``: a line that reaches beyond is left out.
    """
    with OpenLog(source, limits) as log:
        yield from log.lines(start, stop)


class LogPage(Struct, frozen=True):
    """Some items in log order, and the bytes they were read from.

    Pass ``end`` to ``page_forward`` or ``start`` to ``page_backward`` to continue; blank lines belong to a
    page without being items. ``at_end`` means there was no whole line beyond when the page was read.
    """

    items: list[Entry | Damage]
    start: int
    end: int
    at_start: bool
    at_end: bool

    __repr__ = brief_repr


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
        from recollect.model.codec import decode

        limits = self.limits
        with OpenLog(self.path, limits) as log:
            for line in log.lines(start, stop):
                item = decode(line, limits) if isinstance(line, Line) else line
                if item is not None:
                    yield item

    def pending(self) -> PendingTail | None:
        """The unterminated tail, if there is one at this moment."""
        with OpenLog(self.path, self.limits) as log:
            size = log.size()
            end = log.line_start(size)
            return PendingTail(end, size - end) if end < size else None

    def page_forward(self, offset: int, limit: int) -> LogPage:
        """Up to ``limit`` items from ``offset`` on; an offset inside a line moves to the next line."""
        _check_limit(limit)
        with OpenLog(self.path, self.limits) as log:
            last = log.committed_end()
            start = None if offset >= last else log.next_line(offset, last)
            start = last if start is None else start
            items, end = self._taken(log.lines(start, last), limit)
            # Fewer items than requested: the pass reached the last newline, blank lines included.
            end = last if len(items) < limit else end
            return LogPage(items, start, end, start == 0, end >= last)

    def page_backward(self, offset: int | None, limit: int) -> LogPage:
        """Up to ``limit`` items before ``offset`` (None: the end).

        An offset inside a line moves to that line's start, so that the line is left to ``page_forward``.
        """
        _check_limit(limit)
        with OpenLog(self.path, self.limits) as log:
            last = log.committed_end()
            end = last if offset is None or offset >= last else log.line_start(offset)
            items, _ = self._taken(log.lines_backwards(end), limit)
            items.reverse()
            start = items[0].offset if len(items) == limit else 0
            return LogPage(items, start, end, start == 0, end >= last)

    def tail(self, count: int) -> LogPage:
        """The last ``count`` items."""
        return self.page_backward(None, count)

    def entry_at(self, offset: int) -> Entry | Damage | None:
        """The item whose line starts exactly at ``offset``; None if no whole line does, or a blank one."""
        from recollect.model.codec import decode

        with OpenLog(self.path, self.limits) as log:
            if offset < 0 or (offset and log.read(1, offset - 1) != _NEWLINE):
                return None
            line = next(log.lines(offset), None)
            return decode(line, self.limits) if isinstance(line, Line) else line

    def _taken(self, lines: Iterator[Line | Damage], limit: int) -> tuple[list[Entry | Damage], int]:
        """The first ``limit`` items, and where the last of them ends."""
        from recollect.model.codec import decode

        items: list[Entry | Damage] = []
        for line in lines:
            item = decode(line, self.limits) if isinstance(line, Line) else line
            if item is not None:
                items.append(item)
                if len(items) == limit:
                    break
        return items, items[-1].end if items else 0


def without_repeats(items: Iterable[Entry | Damage]) -> Iterator[Entry | Damage]:
    """Leave out an entry whose id and bytes both occurred before: a repeated append (P9, L8).

    Two entries with one id and different bytes both pass; the graph decides which one counts. Holds 16 bytes
    for each entry with an id.
    """
    import hashlib

    from recollect.model.entry import Entry

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


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise UsageError(f"page of {limit} entries: the limit is too small", hint="use a limit of at least 1")


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
