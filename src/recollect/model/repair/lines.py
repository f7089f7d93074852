"""What can be recovered of a line that cannot be read.

A line may hold several entries without a newline between them, half an entry before a complete one (a crash,
then another writer), or a run of NUL bytes (S10). Every complete entry is kept unchanged; the rest is named,
and the caller sets it aside. Nothing is guessed: half an entry is not completed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from msgspec import Struct

from recollect.model import codec, json_text
from recollect.model.checks.resumed import LIMITS
from recollect.model.damage import Damage, DamageCode, Line
from recollect.model.entry import Entry, Kind
from recollect.model.repair.draft import RepairAction, RepairDraft

# How lines of every client begin. In a string the quotes would be escaped, so this is never inside one.
_START = re.compile(
    r'\{"(?:parentUuid|type|uuid|sessionId|isSidechain|logicalParentUuid|messageId|timestamp)":'
)
_STARTS_TRIED = 64
_SPACE = " \t\r\0\ufeff"
_decoder = json.JSONDecoder()


class LinePart(Struct, frozen=True):
    """A part of a line: an entry that is kept, or bytes that are set aside."""

    start: int
    length: int
    is_entry: bool


def take_lines(draft: RepairDraft, lines: Iterator[Line | Damage], end: int) -> None:
    """Read every line of a log into the draft, repaired where possible; ``end`` is where the last whole
    line with a newline ends.
    """
    number = 0
    for line in lines:
        number += 1
        if isinstance(line, Damage):  # longer than the limit of the parser
            draft.keep(number, line.offset, line.length, is_unreadable=True)
            draft.notes.append(f"line {number}: {line.detail}; left unchanged and not examined")
        else:
            _take(draft, number, line, line.length)
    if end < draft.size:
        tail = draft.read(end, draft.size - end)
        _take(draft, number + 1, Line(tail, end), len(tail))


def _take(draft: RepairDraft, number: int, line: Line, length: int) -> None:
    item = codec.decode(line, LIMITS)
    has_newline = length > len(line.data)
    if not isinstance(item, Damage):
        draft.keep(number, line.offset, length)
        if not has_newline:
            draft.act("newline-added", len(draft.rows) - 1, "the last line is complete but has no newline")
    elif item.code in (DamageCode.TOO_DEEP, DamageCode.OVERSIZE):
        draft.keep(number, line.offset, length, is_unreadable=True)
        draft.notes.append(f"line {number}: {item.detail}; left unchanged and not examined")
    elif item.code == DamageCode.INVALID_UTF8 and item.readable is not None:
        draft.keep(number, line.offset, length)
        text = json_text.valid_utf8(line.data)
        why = f"{item.detail}; kept with replacement characters, the original bytes are set aside"
        draft.rewrite(len(draft.rows) - 1, text, "utf8-replaced", why)
    else:
        _take_parts(draft, number, line, length, item)


def _take_parts(draft: RepairDraft, number: int, line: Line, length: int, damage: Damage) -> None:
    parts = list(parts_of(line.data))
    kept = sum(part.is_entry for part in parts)
    code = _code(damage, kept, is_tail=length == len(line.data))
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        size = part.length + (length - len(line.data) if is_last else 0)
        if part.is_entry:
            draft.keep(number, line.offset + part.start, size)
        else:
            draft.drop(number, line.offset + part.start, size, code)
    why = f"{damage.detail}; " + (f"{kept} complete kept" if kept else "set aside")
    draft.actions.append(RepairAction(code, number, line.offset, why))


def _code(damage: Damage, kept: int, *, is_tail: bool) -> str:
    if damage.code == DamageCode.NUL_RUN:
        return "nul-trimmed"
    if kept:
        return "glued-split" if damage.code == DamageCode.GLUED else "entry-saved"
    return "torn-tail" if is_tail else "unreadable"


def parts_of(data: bytes) -> Iterator[LinePart]:
    """The line split into entries and what is between them; the lengths add up to that of the line."""
    text = data.decode("utf-8", "surrogateescape")
    position, start, byte, tried = _next_start(text, 0), 0, 0, 0
    while position < len(text) and tried < _STARTS_TRIED:
        end = _entry_end(text, position, is_clean=not text[start:position].strip(_SPACE))
        if end is not None:
            gap, size = _size(text[start:position]), _size(text[position:end])
            if gap:
                yield LinePart(byte, gap, is_entry=False)
            yield LinePart(byte + gap, size, is_entry=True)
            byte += gap + size
            position = start = end
        else:
            tried += 1
        position = _next_start(text, position + (end is None))
    rest = _size(text[start:])
    if rest or not data:
        yield LinePart(byte, rest, is_entry=False)


def _next_start(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    if position < len(text) and text[position] == "{":
        return position
    found = _START.search(text, position)
    return len(text) if found is None else found.start()


def _entry_end(text: str, position: int, *, is_clean: bool) -> int | None:
    """The end of the entry that starts here; None where there is none."""
    try:
        value, end = _decoder.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    item = codec.decode(Line(text[position:end].encode("utf-8", "surrogateescape")), LIMITS)
    entry = item if isinstance(item, Entry) else None
    # Without unreadable bytes before it, any type is accepted; an inner object of half a line must not pass
    # as an entry.
    is_whole = is_clean or (entry is not None and entry.kind != Kind.UNKNOWN and "sessionId" in value)
    return end if entry is not None and is_whole else None


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
