"""Lines of a mirror that stand for damage in another client's file, and what stops them from counting."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from recollect.model.damage import (
    FOREIGN_SOURCE,
    RECORD_DAMAGE,
    RECORD_TOO_LONG,
    TOO_LONG,
    UNREADABLE,
    Damage,
    Line,
)

# storage/foreign/lines.py writes the type first.
_UNREADABLE_RECORD = re.compile(rb'\{"type":"[a-z]+' + UNREADABLE.encode() + b'"')
_SOURCE = b'{"type":"%b"' % FOREIGN_SOURCE.encode()


class _UnreadableLine(Struct):
    type: str = ""
    too_long: object = msgspec.field(default=msgspec.UNSET, name=TOO_LONG)


class _SourceLine(Struct):
    source: str = ""
    generation: int = 0


_unreadable_line = msgspec.json.Decoder(_UnreadableLine)
_source_line = msgspec.json.Decoder(_SourceLine)


def record_code(data: bytes) -> str | None:
    """Why a line that is sound itself counts as damaged."""
    if not _UNREADABLE_RECORD.match(data):
        return None
    try:
        line = _unreadable_line.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return None
    if not line.type.endswith(UNREADABLE):
        return None  # a log from elsewhere may name two types
    return RECORD_DAMAGE if line.too_long is msgspec.UNSET else RECORD_TOO_LONG


def generation_of(data: bytes) -> tuple[str, int]:
    """The file whose records follow a line, compressed or not, and which generation of it; the first where the line does not say."""
    try:
        line = _source_line.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return "", 0
    return line.source.removesuffix(".zst"), line.generation


class RecordGenerations:
    """Which lines for bytes that are no record stop counting as damage, line by line through one log.

    A file of another client is read again from its start where it was rewritten, or where the end of a torn line came after that
    line was taken. Its source line has the next generation then. What was no record in an earlier one is not in the file any
    more, or was the beginning of a record: as for ``export --format original``, the last generation counts.
    """

    def __init__(self) -> None:
        self._source = ""
        self._last: dict[str, int] = {}
        self._offsets: dict[str, list[int]] = {}  # of lines that count so far, by source

    def take(self, line: Line | Damage) -> list[int]:
        """The offsets of earlier lines that no longer count, because of this one."""
        data = line.data
        if data.startswith(_SOURCE):
            self._source, generation = generation_of(data)
            before = self._last.get(self._source, generation)
            self._last[self._source] = max(before, generation)
            return self._offsets.pop(self._source, []) if before < generation else []
        if record_code(data) == RECORD_DAMAGE and _is_sound(line):
            self._offsets.setdefault(self._source, []).append(line.offset)
        return []


def _is_sound(line: Line | Damage) -> bool:
    # Imported for the few lines that are asked: the codec comes with it.
    from recollect.model.line_views.damage import damage_of

    return isinstance(line, Line) and damage_of(line) is None
