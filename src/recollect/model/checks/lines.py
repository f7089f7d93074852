"""Lines that cannot be read, or only with replacements, and what of them is lost.

The client reads one JSON value from the start of a line and passes over the rest. So damage matters where a
message of the conversation is in it: a whole one that a repair can recover, half of one, or one of which only
the entry that follows it is left. Other damage is reported, but nothing is lost by it.

A line may hold several entries without a newline between them, half an entry before a complete one (a crash,
then another writer), or a run of NUL bytes (S10). Nothing is guessed: half an entry is not completed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from msgspec import Struct, structs

from recollect.model import codec
from recollect.model.checks import RuleViolation
from recollect.model.checks.resumed import LIMITS
from recollect.model.damage import (
    RECORD_DAMAGE,
    RECORD_TOO_LONG,
    TOO_LONG,
    UNREADABLE,
    Damage,
    DamageCode,
    Line,
    Notice,
)
from recollect.model.entry import (
    Assistant,
    Entry,
    Kind,
    ToolCallBody,
    ToolResultBody,
    UnknownBody,
    UnknownShapeBody,
    User,
)

_ODD = {Notice.LONE_SURROGATE, Notice.BOM, Notice.CRLF}
# How lines of every client begin. In a string the quotes would be escaped, so this is never inside one.
_START = re.compile(
    r'\{"(?:parentUuid|type|uuid|sessionId|isSidechain|logicalParentUuid|messageId|timestamp)":'
)
_UUID = re.compile(rb'"uuid"\s*:\s*"([^"\\]{1,200})"')
_PARENT = re.compile(rb'"parentUuid"\s*:\s*"([^"\\]{1,200})"')
_MESSAGE = re.compile(rb'"type"\s*:\s*"(?:user|assistant)"')
_OTHER_LINK = re.compile(rb'"type"\s*:\s*"(?:system|attachment|progress)"')
_SIDECHAIN = re.compile(rb'"isSidechain"\s*:\s*true')
_STARTS_TRIED = 64
_SEARCHED = 1 << 20
_SPACE = " \t\r\0\ufeff"
_MESSAGES = (User, Assistant, ToolCallBody, ToolResultBody)
_decoder = json.JSONDecoder()


class LinePart(Struct, frozen=True):
    """A part of a line: an entry, or bytes that are none."""

    start: int
    length: int
    is_entry: bool


class DamagedLine(Struct, frozen=True):
    """A line, or the rest of one, that the client passes over.

    ``lost`` are the whole entries in it. ``half`` is the id of half an entry, where it can be read, and
    ``half_parent`` the id it follows; ``is_half_message``: it is half a message of the conversation.
    """

    code: str
    what: str
    offset: int
    lost: tuple[Entry, ...] = ()
    is_half_message: bool = False
    half: str | None = None
    half_parent: str | None = None
    harmless_code: str = "skipped-bytes"

    def holds_a_message(self, known: frozenset[str], missing: frozenset[str]) -> bool:
        """Whether a message is lost, given the ids in the log and those that are named but not there."""
        if any(_is_lost_message(entry, known) or entry.uuid in missing for entry in self.lost):
            return True
        return self.half in missing or (self.is_half_message and self.half not in known)

    def violation(self, *, is_loss: bool) -> RuleViolation:
        return RuleViolation(self.code if is_loss else self.harmless_code, self.what, self.offset)


def _is_lost_message(entry: Entry, known: frozenset[str]) -> bool:
    is_aside = entry.chain is not None and entry.chain.is_sidechain is True
    return isinstance(entry.body, _MESSAGES) and not is_aside and entry.uuid not in known


def line_faults(item: Entry) -> Iterator[RuleViolation]:
    """What is unusual about an entry that can be read."""
    for notice in item.notices:
        if notice in _ODD:
            yield RuleViolation(
                notice.value, f"a line with {notice.value.replace('-', ' ')}", item.offset, item.uuid
            )
    body = item.body
    if isinstance(body, UnknownShapeBody):
        what = f"type {body.type_name!r}: {body.problem}"
        yield RuleViolation("unknown-shape", what, item.offset, item.uuid)
    elif isinstance(body, UnknownBody):
        if not body.type_name and "message" in item.fields():
            yield RuleViolation("unknown-shape", "a message without type", item.offset, item.uuid)
        elif body.type_name.endswith(UNREADABLE):
            yield _unreadable_record(item, body.type_name.removesuffix(UNREADABLE))
        else:
            yield RuleViolation("unknown-type", f"type {body.type_name!r}", item.offset, item.uuid)


def _unreadable_record(item: Entry, agent: str) -> RuleViolation:
    fields, code, why = item.fields(), RECORD_DAMAGE, "no record"
    if TOO_LONG in fields:
        code, why = RECORD_TOO_LONG, "too long to be shown whole"
        size = fields[TOO_LONG]
        why += f": {size:,} bytes" if isinstance(size, int) else ""
    return RuleViolation(code, f"a line of {agent}'s file is {why}", item.offset, item.uuid)


def examined(damage: Damage) -> DamagedLine:
    """What the client passes over in a damaged line; ``damage.readable`` is what it reads of it."""
    parts = [part for part in parts_of(damage.data) if part.is_entry]
    is_read = damage.readable is not None
    lost = tuple(
        item
        for part in parts[is_read:]
        if isinstance(item := codec.decode(Line(damage.data[part.start : part.start + part.length])), Entry)
    )
    return _damaged(damage, b"" if lost or is_read else damage.data, lost)


def _damaged(damage: Damage, half: bytes, lost: tuple[Entry, ...]) -> DamagedLine:
    """``half`` are bytes that may be half an entry."""
    data = half[:_SEARCHED]
    uuids, parent = _UUID.findall(data), _PARENT.search(data)
    is_link = _MESSAGE.search(data) or (b'"parentUuid"' in data and not _OTHER_LINK.search(data))
    return DamagedLine(
        damage.code.value,
        damage.detail,
        damage.offset,
        lost,
        bool(is_link) and not _SIDECHAIN.search(data),
        uuids[-1].decode("utf-8", "replace") if uuids else None,
        parent.group(1).decode("utf-8", "replace") if parent else None,
    )


def torn(tail: Damage, damaged: DamagedLine) -> DamagedLine:
    """The same at the end of a log, where a write was cut off."""
    is_nul = tail.code is DamageCode.NUL_RUN
    what = (
        f"{tail.detail} at the end of the log"
        if is_nul
        else f"the last {tail.length - 1} bytes are half an entry"
    )
    code = damaged.code if is_nul else "torn-tail"
    return structs.replace(damaged, code=code, what=what, harmless_code="unfinished-line")


# ---- the parts of a line ---------------------------------------------------------------------------------


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
