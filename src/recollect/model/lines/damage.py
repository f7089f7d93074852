"""Lines as bytes, and what a reader says about bytes that are not an entry.

Damage is a value, not an exception: one bad line must never hide the next one
(promise P3). Codes are stable; scripts rely on them.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct, UnsetType

if TYPE_CHECKING:
    from recollect.model.lines.entry import Entry


_LONGEST = 60
_MOST_FIELDS = 8
# Texts that name things, beside ids and amounts. All others may hold transcript text.
_NAMES = frozenset(
    (
        "agent",
        "at",
        "by_agent",
        "code",
        "hash",
        "id",
        "kind",
        "mode",
        "model",
        "name",
        "path",
        "role",
        "session",
        "stop_reason",
        "timestamp",
        "title",
        "type",
        "type_name",
        "uuid",
    )
)


def brief_repr(one: Struct) -> str:
    """The first informative fields of a struct."""
    shown = []
    for field in one.__struct_fields__:
        value = getattr(one, field)
        if value is None or isinstance(value, UnsetType) or value in ("", b"", (), [], False):
            continue
        shown.append(f"{field}={_brief(field, value)}")
    more = ", ..." if len(shown) > _MOST_FIELDS else ""
    return f"{type(one).__name__}({', '.join(shown[:_MOST_FIELDS])}{more})"


def _brief(field: str, value: object) -> str:
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, bool | int | float) or hasattr(value, "isoformat"):
        return str(value)
    if isinstance(value, str) and (field in _NAMES or field.endswith(("_id", "_uuid", "_usd"))):
        return ascii(value if len(value) <= _LONGEST else value[: _LONGEST - 3] + "...")
    if isinstance(value, str):
        return f"<{len(value):,} characters>"
    if isinstance(value, bytes | Raw):
        return f"<{len(bytes(value)):,} bytes>"
    if isinstance(value, tuple | list | dict | set | frozenset):
        return f"<{len(value):,}>"
    return f"<{type(value).__name__}>"


class Limits(msgspec.Struct, frozen=True):
    """Limits that are enforced before a parser runs (rule L3)."""

    line_bytes: int = 64 * 1024 * 1024
    depth: int = 64


DEFAULT_LIMITS = Limits()
# How long a database may compute where others wrote the question, or what it is asked of.
QUERY_SECONDS = 30.0


# A mirror keeps a line of another client's file that is no record under such a type, after the agent's name. The bytes are
# damaged there; our line around them is sound. One with the field ``TOO_LONG`` stands behind a sound record that is too long for a line.
UNREADABLE = ":unreadable"
FOREIGN_SOURCE = "foreign-source"  # the line before the records of a file
TOO_LONG = "tooLong"
RECORD_DAMAGE = "unreadable-record"
RECORD_TOO_LONG = "oversize-record"


class DamageCode(enum.StrEnum):
    """Why bytes could not be turned into an entry."""

    INVALID_JSON = "invalid-json"
    GLUED = "glued-objects"
    NUL_RUN = "nul-run"
    NOT_AN_OBJECT = "not-an-object"
    INVALID_UTF8 = "invalid-utf8"
    OVERSIZE = "oversize-line"
    TOO_DEEP = "too-deep"


class Notice(enum.StrEnum):
    """What was unusual about a line that could still be read."""

    BOM = "byte-order-mark"
    CRLF = "crlf"
    LONE_SURROGATE = "lone-surrogate"
    FIELD_SHAPE = "field-shape"


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line of a log; ``line_split`` decides what is one. ``offset`` is where it starts in its log.

    ``data`` is without its newline. ``ended`` is False where there is none: after a whole value at the end of
    the log.
    """

    data: bytes
    offset: int = 0
    ended: bool = True

    @property
    def length(self) -> int:
        """The bytes of the line, newline included if there is one."""
        return len(self.data) + self.ended

    @property
    def text_lines(self) -> int:
        """How many lines it is to an editor: a value may go over several."""
        return 1 + self.data.count(b"\n") if b"\n" in self.data else 1  # searching is faster than counting

    @property
    def end(self) -> int:
        """Where to read on: the start of the next line, or the end of what was read of this one."""
        return self.offset + len(self.data) + self.ended

    __repr__ = brief_repr


class Damage(msgspec.Struct, frozen=True):
    """Bytes a reader could not turn into an entry.

    ``length`` counts the newline, as an entry's does. ``data`` holds the bytes, except for an oversize line,
    which is never held in memory as a whole. ``readable`` is what the client reads of the line, if anything:
    the object it begins with, or the whole line with replacement characters.
    """

    code: DamageCode
    offset: int
    length: int
    detail: str
    data: bytes = b""
    readable: Entry | None = None

    @property
    def text_lines(self) -> int:
        """How many lines it is to an editor."""
        return 1 + self.data.count(b"\n")

    @property
    def ended(self) -> bool:
        """Whether its newline is there."""
        return not self.data or self.length > len(self.data)

    @property
    def end(self) -> int:
        """Where to read on."""
        return self.offset + self.length

    __repr__ = brief_repr


def readable(item: Entry | Damage | None) -> Entry | None:
    """The entry, or what the client reads of a damaged line."""
    return item.readable if isinstance(item, Damage) else item


def readable_entries(items: Iterable[Entry | Damage]) -> Iterator[Entry]:
    """The entries among some items, and what the client reads of damaged lines."""
    return (entry for item in items if (entry := readable(item)) is not None)


class PendingTail(msgspec.Struct, frozen=True):
    """The end of a log that is no whole line yet. It may be a write in progress, so it is not damage (S3)."""

    offset: int
    length: int


# 128 KiB was the fastest of 64 KiB to 4 MiB on real logs: longer chunks leave the allocator's heap and cause
# page faults each time. The first is shorter: a page should cost a page.
FIRST_READ = 64 * 1024
READ = 128 * 1024
NEWLINE = b"\n"
BOM = b"\xef\xbb\xbf"
# A place where lines meet. With CR, of which an editor may have put one on every line.
SEAM, CRLF_SEAM = b"}\n{", b"}\r\n{"
UNFINISHED, BROKEN = -1, -2

_HEAD = 4096
_BLANKS = b" \t\r\n"
# What is an error until more of it is there, with the sign before it: half a word, number or escape at the end.
# Compiled where it is needed, as few lines need it and every command would wait.
_CUT = r"[\s:,\[](?:t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?|-)\Z|[0-9](?:[eE][+-]?|\.)\Z|\\u[0-9a-fA-F]{0,3}\Z"

ReadAt = Callable[[int, int], bytes]
"""Takes a size and an offset; gives at most that many bytes, none at the end."""

_whole = msgspec.json.Decoder(msgspec.Raw).decode


def split_lines(
    read: ReadAt,
    start: int = 0,
    stop: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    *,
    goes_on: bool = False,
) -> Iterator[Line | Damage]:
    """Lines from ``start``, which must be where one begins, as if the log ended at ``stop``.

    ``goes_on``: a new line begins at ``stop``, so nothing before it is pending. Damage is a line over the limit,
    or one that starts with a byte order mark that is not the first thing in the log.
    """
    position, size = start, FIRST_READ
    odd = _OddLines(read, stop, limits, goes_on=goes_on)
    limit = limits.line_bytes
    while chunk := odd.read(size, position):
        begin, is_open = 0, chunk.startswith(b"{")
        while (end := chunk.find(NEWLINE, begin)) >= 0:
            if is_open and chunk[end - 1 : end + 2] == SEAM and end - begin <= limit:
                yield Line(chunk[begin:end], position + begin)
                begin = end + 1
                continue
            item = odd.line(position + begin, chunk[begin:end], chunk[end + 1 : end + 2])
            if item is None:
                return
            yield item
            if not item.ended:
                return
            begin = item.end - position
            is_open = chunk.startswith(b"{", begin)
        if begin:
            position, size = position + begin, min(size * 2, READ)
            continue
        item = odd.long_line(position, len(chunk))
        if item is None:
            return
        yield item
        if not item.ended:
            return
        position = item.end


def value_end(data: bytes, start: int = 0) -> int:
    """Where the JSON value ends that begins at ``start``; ``UNFINISHED`` if more could finish it, else ``BROKEN``."""
    text = data[start:] if start else data
    try:
        _whole(text)
    except msgspec.DecodeError as problem:
        if "truncated" in str(problem) and NEWLINE not in text:
            return UNFINISHED
    except RecursionError:
        return BROKEN
    else:
        return len(data.rstrip(_BLANKS))
    return _prefix_end(data, start)


def _prefix_end(data: bytes, start: int) -> int:
    # Every byte becomes one character, so positions are those of the bytes; JSON's own signs are ASCII.
    text = data.decode("latin-1")
    while start < len(text) and text[start] in " \t\r\n":
        start += 1
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)
    try:
        return decoder.raw_decode(text, start)[1]
    except json.JSONDecodeError as problem:
        at_end = problem.pos >= len(text) or problem.msg.startswith("Unterminated string")
        return UNFINISHED if at_end or re.compile(_CUT).match(text, max(0, problem.pos - 1)) else BROKEN
    except (ValueError, RecursionError):
        return BROKEN


def _no_constant(name: str) -> None:
    raise ValueError(name)


def is_plain(data: bytes) -> bool:
    """Whether every newline in ``data`` but the last is a seam: then each line is what stands between two."""
    at = data.find(NEWLINE)
    last = len(data) - 1
    while 0 <= at < last:
        if data[at - 1 : at + 2] != SEAM:
            return False
        at = data.find(NEWLINE, at + 1)
    return data[:1] == b"{"


def first_seam(data: bytes) -> int:
    """Where a line certainly begins, near the start; -1 if nowhere."""
    at = data.find(SEAM)
    return at + 2 if at >= 0 else data.find(CRLF_SEAM) + 3 if CRLF_SEAM in data else -1


def last_seam(data: bytes) -> int:
    """Where a line certainly begins, near the end; -1 if nowhere."""
    at = data.rfind(SEAM)
    return at + 2 if at >= 0 else data.rfind(CRLF_SEAM) + 3 if CRLF_SEAM in data else -1


def rest_damage(rest: bytes, offset: int, *, ended: bool = True) -> Damage:
    """The damage that stands after a whole object on its line: the client ignores it."""
    if b"\0" in rest:
        code = DamageCode.NUL_RUN
    elif rest.lstrip(_BLANKS)[:1] == b"{" and value_end(rest) >= 0:
        code = DamageCode.GLUED
    else:
        code = DamageCode.INVALID_JSON
    detail = f"{len(rest)} bytes after a whole object on its line, which the client ignores"
    return Damage(code, offset, len(rest) + ended, detail, rest)


def oversize(offset: int, length: int, limits: Limits) -> Damage:
    """A line over the limit, which is not held."""
    return Damage(DamageCode.OVERSIZE, offset, length + 1, f"{length} bytes, limit {limits.line_bytes}")


def _without_mark(text: bytes, offset: int) -> bytes:
    """The text from where its value begins; a byte order mark counts as blank at the start of the log."""
    return (text if offset else text.removeprefix(BOM)).lstrip(_BLANKS)


class _OddLines:
    """Lines that are not between two seams, one at a time. None: what begins there is pending."""

    def __init__(self, read: ReadAt, stop: int | None, limits: Limits, *, goes_on: bool) -> None:
        self._read, self._stop, self._limits, self._goes_on = read, stop, limits, goes_on

    def read(self, size: int, offset: int) -> bytes:
        """At most ``size`` bytes, none from ``stop`` on."""
        size = size if self._stop is None else min(size, self._stop - offset)
        return self._read(size, offset) if size > 0 else b""

    def line(self, offset: int, text: bytes, following: bytes) -> Line | Damage | None:
        """The line that begins with ``text``, which a newline follows, and then that byte if it is known."""
        if len(text) > self._limits.line_bytes:
            return oversize(offset, len(text), self._limits)
        value = _without_mark(text, offset)
        if value.startswith(BOM) and offset:
            detail = "a byte order mark that is not at the start of the log, where the client expects none"
            return Damage(DamageCode.INVALID_JSON, offset, len(text) + 1, detail, text)
        if value[:1] not in (b"{", b"["):
            return Line(text, offset)
        if value[:1] == following == b"{" and value.rstrip(_BLANKS).endswith(b"}"):
            return Line(text, offset)
        if value_end(value) != UNFINISHED:
            return Line(text, offset)
        return self._spanning(offset, len(text), len(text) - len(value))

    def long_line(self, offset: int, known: int) -> Line | Damage | None:
        """The line that begins at ``offset`` and has no newline in its first ``known`` bytes."""
        end = self._newline(offset + known)
        if end is None:
            return self._last(offset)
        if end - offset > self._limits.line_bytes:
            return oversize(offset, end - offset, self._limits)
        text = self._read_all(end - offset, offset)
        # Both fail only if the log was cut or overwritten since it was measured.
        if len(text) != end - offset or NEWLINE in text or self._read_all(1, end) != NEWLINE:
            return None
        return self.line(offset, text, self._read_all(1, end + 1))

    def _spanning(self, offset: int, first: int, skipped: int) -> Line | None:
        """The value that begins in a line of ``first`` bytes and may go on after it.

        The limit also holds for values over several lines; one that reaches it is taken for broken.
        """
        limit, size = self._limits.line_bytes, READ
        while True:
            wanted = min(size, limit + 1)
            data = self._read_all(wanted, offset)
            is_all = len(data) < wanted
            window = data if is_all else data[: data.rfind(NEWLINE) + 1]
            end = value_end(window, skipped)
            if end >= 0:
                newline = window.find(NEWLINE, end)
                return Line(window[: newline if newline >= 0 else end], offset, newline >= 0)
            if end == UNFINISHED and is_all and not self._goes_on:
                return None
            if end == BROKEN or is_all or wanted > limit:
                return Line(data[:first], offset)
            size *= 4

    def _last(self, offset: int) -> Line | None:
        """What follows the last newline, if it is a whole object."""
        limit, head = self._limits.line_bytes, self._read_all(_HEAD, offset)
        if not _without_mark(head, offset).startswith(b"{"):
            return None
        data = head if len(head) < _HEAD else self._read_all(limit + 1, offset)
        value = _without_mark(data, offset)
        end = value_end(value) if len(data) <= limit else UNFINISHED
        return Line(data[: len(data) - len(value) + end], offset, ended=False) if end >= 0 else None

    def _newline(self, position: int) -> int | None:
        while chunk := self.read(READ, position):
            at = chunk.find(NEWLINE)
            if at >= 0:
                return position + at
            position += len(chunk)
        return None

    def _read_all(self, size: int, offset: int) -> bytes:
        data = self.read(size, offset)
        while 0 < len(data) < size:
            more = self.read(size - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data
