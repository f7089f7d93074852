"""Whether a line is damaged, as the codec says it, without building the entries of sound lines."""

from __future__ import annotations

import re

from recollect.model.lines.codec import decode
from recollect.model.lines.damage import (
    DEFAULT_LIMITS,
    FOREIGN_SOURCE,
    RECORD_DAMAGE,
    RECORD_TOO_LONG,
    TOO_LONG,
    UNREADABLE,
    Damage,
    Line,
)
from recollect.model.lines.json_text import is_plainly_sound, loose_object
from recollect.model.views.fact_line import narrow_line

# agents/lines.py writes the type first.
_UNREADABLE_RECORD = re.compile(rb'\{"type":"[a-z]+' + UNREADABLE.encode() + b'"')
_SOURCE = b'{"type":"%b"' % FOREIGN_SOURCE.encode()


def record_code(data: bytes) -> str | None:
    """Why a line that is sound itself counts as damaged."""
    if not _UNREADABLE_RECORD.match(data):
        return None
    fields = loose_object(data)
    if not str(fields.get("type")).endswith(UNREADABLE):
        return None  # a log from elsewhere may name two types
    return RECORD_TOO_LONG if TOO_LONG in fields else RECORD_DAMAGE


def generation_of(data: bytes) -> tuple[str, int]:
    """The file whose records follow a line, compressed or not, and which generation of it; the first where the line does not say."""
    fields = loose_object(data)
    source, generation = fields.get("source"), fields.get("generation")
    return (
        source.removesuffix(".zst") if isinstance(source, str) else "",
        generation if isinstance(generation, int) else 0,
    )


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
    return isinstance(line, Line) and damage_of(line) is None


def damage_code(line: Line | Damage) -> str | None:
    """Why a line counts as damaged, unless a later one stops that (``RecordGenerations``)."""
    return code_of(line if isinstance(line, Damage) else damage_of(line), line.data)


def code_of(damage: Damage | None, data: bytes) -> str | None:
    """The code that a line is counted by, from what ``damage_of`` says of it."""
    return record_code(data) if damage is None else damage.code.value


def damage_of(line: Line) -> Damage | None:
    """What is wrong with a line."""
    if is_plainly_sound(line.data, DEFAULT_LIMITS.depth) and narrow_line(line.data) is not None:
        return None
    item = decode(line)
    return item if isinstance(item, Damage) else None
