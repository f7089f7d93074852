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
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from recollect.model.checks.api_400 import LONG_LINE, shortened
from recollect.model.checks.rules import RuleViolation
from recollect.model.conversation.api import api_messages
from recollect.model.conversation.chain import after_compaction, chain_to
from recollect.model.conversation.graph import Graph, Node
from recollect.model.lines import codec
from recollect.model.lines.damage import (
    RECORD_DAMAGE,
    RECORD_TOO_LONG,
    TOO_LONG,
    UNREADABLE,
    Damage,
    DamageCode,
    Limits,
    Line,
    Notice,
)
from recollect.model.lines.entry import (
    Assistant,
    Entry,
    Kind,
    System,
    ToolCallBody,
    ToolResultBody,
    UnknownBody,
    UnknownShapeBody,
    User,
)
from recollect.model.lines.json_text import Json
from recollect.model.views.fact_line import goes_on_from

LineOf = Callable[[Node], Line]
# Any line the client can hold is read: leaving one out would lose history.
LIMITS = Limits(line_bytes=512 * 1024 * 1024)
LARGEST_CONVERSATION = 64 << 20


class ResumedLog(Struct, frozen=True):
    """What a client makes of a log. ``entries`` is None where the conversation is too large to hold.

    ``history`` holds the ids of the messages from the root to the active leaf, including those hidden by
    compactions.
    """

    leaf: Node | None
    history: tuple[str, ...] = ()
    entries: Sequence[Entry] | None = ()
    messages: Sequence[Json] = ()


def resumed_log(
    graph: Graph, line_of: LineOf, *, is_bounded: bool = True, known: Mapping[int, Entry] | None = None
) -> ResumedLog:
    """Build what would be resumed; empty where the client finds no conversation.

    Without a bound every text is held, for any size of the conversation. ``known`` has entries by their offsets.
    """
    leaf = graph.active_leaf
    if leaf is None:
        return ResumedLog(None)

    def load(node: Node) -> Entry | None:
        return (known or {}).get(node.offset) or entry_of(node, line_of(node))

    chain = chain_to(graph, leaf, load)
    largest = LARGEST_CONVERSATION if is_bounded else sys.maxsize
    entries = _entries(after_compaction(chain), line_of, largest, load)
    messages = api_messages(entries) if entries is not None else []
    return ResumedLog(leaf, tuple(_history(graph, chain, load)), entries, messages)


def entry_of(node: Node, line: Line) -> Entry | None:
    """The entry of a node, given its line; None where the line has changed since."""
    item = codec.decode(line, LIMITS)
    entry = item.readable if isinstance(item, Damage) else item
    return entry if entry is not None and (entry.uuid == node.uuid or node.has_odd_key) else None


def _entries(
    nodes: Sequence[Node], line_of: LineOf, largest: int, load: Callable[[Node], Entry | None]
) -> list[Entry] | None:
    """The resumed entries; those of a large conversation have shortened texts."""
    is_large = sum(node.length for node in nodes) > largest
    if sum(node.length for node in nodes if node.length <= LONG_LINE) > largest:
        return None  # there is nothing to cut in these
    entries: list[Entry] = []
    size = 0
    for node in nodes:
        entry = entry_of(node, Line(shortened(line_of(node).data), node.offset)) if is_large else load(node)
        if entry is not None:
            entries.append(entry)
            size += len(entry.raw)
        if size > largest:
            return None
    return entries


def _history(graph: Graph, chain: list[Node], load: Callable[[Node], Entry | None]) -> list[str]:
    found: dict[str, None] = {}
    walked: set[str] = set()
    while chain and chain[0].uuid not in walked:
        walked.update(node.uuid for node in chain)
        found.update(dict.fromkeys(node.uuid for node in chain if node.is_message))
        # The last entry before a compaction, where a conversation starts with one.
        first = load(chain[0]) if chain[0].is_boundary else None
        hidden = first.body.logical_parent_uuid if first and isinstance(first.body, System) else None
        # A long session has many compactions: only what the client loads is collected in full.
        chain = list(graph.ancestors(hidden))[::-1] if hidden in graph.nodes else []
    return list(found)


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


# A part of a line: where it starts, its length, and whether it is an entry or bytes that are none.
LinePart = tuple[int, int, bool]


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
        for entry in self.lost:
            is_aside = entry.chain is not None and entry.chain.is_sidechain is True
            is_message = isinstance(entry.body, _MESSAGES) and not is_aside
            if entry.uuid in missing or (is_message and entry.uuid not in known):
                return True
        return self.half in missing or (self.is_half_message and self.half not in known)


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
    parts = [(start, length) for start, length, is_entry in parts_of(damage.data) if is_entry]
    is_read = damage.readable is not None
    lost = tuple(
        item
        for start, length in parts[is_read:]
        if isinstance(item := codec.decode(Line(damage.data[start : start + length])), Entry)
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
                yield byte, gap, False
            yield byte + gap, size, True
            byte += gap + size
            position = start = end
        else:
            tried += 1
        position = _next_start(text, position + (end is None))
    rest = _size(text[start:])
    if rest or not data:
        yield byte, rest, False


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


LOST_BEGINNING = "lost-beginning"


def beginning_fault(entry: Entry) -> Iterator[RuleViolation]:
    """A record before which no entry stands: a mirror copies the history there as long as it has it."""
    base = goes_on_from(entry)
    if base is not None:
        yield RuleViolation(LOST_BEGINNING, beginning_is_in(base), entry.offset)


def beginning_is_in(base: str) -> str:
    """What a finding says of a log whose beginning another session has."""
    return f"its beginning is in session {base[:60]!a}, and not in this log"
