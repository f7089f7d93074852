"""What is one line of a log: the only place that decides it.

The client reads one JSON value from where it stands and ignores the rest of that line; on an error it goes on
after the next newline. So a line is normally what stands between two newlines, and there are three other cases:

- a value that is not finished at the newline goes on over the following lines, all of which are one line here;
- a last value without a newline is a line as soon as it is whole; the rest of its line may still come, and is
  damage then, or blank;
- a value that is not finished at the end of the log, with or without a newline, is *pending*: no line yet.

An object is finished once its last bracket is there, so a line that was read stays what it is, whatever is
appended later. Two objects never touch inside a value: where ``}``, newline, ``{`` meet, one line ends and
another begins, whatever stands before. Sound logs consist of such places, and only other lines are looked at
more closely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from recollect.model.damage import DEFAULT_LIMITS, Damage, DamageCode, Limits, Line

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
    import json  # only odd lines get here

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
