"""One narrow decoder of a line: what it is, its place in the chain, its message and its blocks, contents undecoded.

A line that the decoder refuses, and one of another dialect, is read by the codec and gives the same ``FactLine``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field, structs

from recollect.model.lines.blocks import Usage
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.entry import Assistant, Entry, Kind, ToolCallBody
from recollect.model.lines.json_text import loose_object, loose_value

REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
CALL, RESULT = "tool_use", "tool_result"
AGENT_TOOLS = ("Task", "Agent")
# Types of lines that are calls themselves, in other dialects.
_ALONE = ("tool_use", "tool_call")
_SAID = ("user", "assistant", *_ALONE)


class CallBlock(Struct, frozen=True, gc=False):
    """A block of content, with the fields of calls and results."""

    type: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""
    is_error: bool | None = None
    content: Raw = Raw(b"null")


_block_list = msgspec.json.Decoder(list[CallBlock])


class FactMessage(Struct, frozen=True, gc=False):
    """A message, its content undecoded. All lines of one answer share its id."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    content: Raw | UnsetType = UNSET


class FactLine(Struct, frozen=True, rename="camel", gc=False):
    """A line decoded once: for the index, the graph, and what is sent and shown."""

    type: str | None = None
    uuid: str | None = None
    parent_uuid: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None
    session_id: str | None = None
    agent_id: str | None = None
    is_meta: bool | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    request_id: str | None = None
    model: str | None = None
    forked_from: Raw | UnsetType = UNSET
    message: FactMessage | None = None
    content: Raw | UnsetType = UNSET
    attachment: Raw | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    cost_usd: Raw | UnsetType = field(default=UNSET, name="costUSD")
    duration_ms: float | int | None = None
    subtype: str | None = None
    is_compact_summary: bool | None = None
    compact_metadata: Raw | UnsetType = UNSET
    leaf_uuid: str | None = None
    explicit: bool | None = None
    origin: Raw | UnsetType = UNSET
    tool_use_result: Raw | UnsetType = UNSET  # what the client itself kept of a result

    @property
    def message_content(self) -> Raw | None:
        """What the message holds; None where there is no message, or no content in it."""
        content = UNSET if self.message is None else self.message.content
        return None if isinstance(content, UnsetType) else content

    @property
    def origin_kind(self) -> str | None:
        """Who speaks in the user's name, if the client says so."""
        return None if isinstance(self.origin, UnsetType) else text_of(loose_value(self.origin), "kind")

    @property
    def is_forked(self) -> bool:
        """Whether it is a copy from another session."""
        return not isinstance(self.forked_from, UnsetType) and bytes(self.forked_from) != b"null"

    @property
    def blocks(self) -> list[CallBlock]:
        """The blocks of what is said; text alone holds none."""
        content = self.content if self.message is None else self.message.content
        if self.type not in _SAID or isinstance(content, UnsetType) or memoryview(content)[0] != ord("["):
            return []
        try:
            return _block_list.decode(content)
        except REFUSED:
            parts = loose_value(content)
            return (
                [_block(part) for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
            )

    @property
    def calls(self) -> list[CallBlock]:
        """What is asked for; a call without a name is none."""
        return [block for block in self.blocks if block.type == CALL and block.name]

    @property
    def results(self) -> list[CallBlock]:
        """What calls gave back."""
        return [block for block in self.blocks if block.type == RESULT and self.type not in _ALONE]


_decode = msgspec.json.Decoder(FactLine).decode


def narrow_line(data: bytes) -> FactLine | None:
    """What a line says, byte for byte; None where the decoder refuses it."""
    try:
        return _decode(data)
    except REFUSED:
        return None


def fact_line(data: bytes, *, with_damage: bool = True) -> FactLine | None:
    """What a line says, by the codec where it is odd or of another dialect; None where it cannot be read.

    Without ``with_damage`` None also where only a part of it can be read.
    """
    line = narrow_line(data)
    if line is None or line.type in _ALONE or (line.session_id is None and is_of_other_dialect(data)):
        entry = readable_entry(data, with_damage=with_damage)
        return None if entry is None else line_of(entry)
    return line


def graph_line(data: bytes) -> FactLine | None:
    """The same with ids as the client compares them. It knows no other dialect."""
    return narrow_line(data) or client_line(data)


def client_line(data: bytes) -> FactLine | None:
    """The same by the codec alone."""
    entry = readable_entry(data)
    if entry is None:
        return None
    fields = entry.fields()
    uuid, parent = key_text(fields.get("uuid")), parent_text(fields.get("parentUuid"))
    return structs.replace(line_of(entry), uuid=uuid, parent_uuid=parent)


def call_ids(data: bytes) -> tuple[str, ...]:
    """The ids of the tool calls in a line of the model."""
    line = fact_line(data)
    return () if line is None else tuple(one.id for one in line.blocks if one.type == CALL and one.id)


def has_more_than_results(data: bytes) -> bool:
    """Whether a line with results has blocks of another type beside them."""
    line = fact_line(data)
    return line is not None and any(one.type != RESULT for one in line.blocks)


def is_of_other_dialect(data: bytes) -> bool:
    """Whether a line without ``sessionId`` may name its session in another place."""
    return b'"session_id"' in data or b'"metadata"' in data


def readable_entry(data: bytes, *, with_damage: bool = True) -> Entry | None:
    """A line as the codec reads it, or what could be saved of it."""
    item = decode(Line(data))
    if isinstance(item, Damage):
        return item.readable if with_damage else None
    return item


def line_of(entry: Entry) -> FactLine:
    """What the codec says of a line."""
    fields, chain, body = entry.fields(), entry.chain, entry.body
    message = fields.get("message")
    # A title or a tag is no link to the codec, and may have an id all the same.
    values: dict[str, Any] = {}
    names = zip(FactLine.__struct_fields__, FactLine.__struct_encode_fields__, strict=True)
    for name, key in itertools.islice(names, 1, 11):
        value = fields.get(key)
        is_fit = isinstance(value, bool if name.startswith("is_") else str)
        values[name] = (value if is_fit else None) if chain is None else getattr(chain, name)
    for name, key in (("is_compact_summary", "isCompactSummary"), ("explicit", "explicit")):
        values[name] = value if isinstance(value := fields.get(key), bool) else None
    if isinstance(body, Assistant):
        values |= {"request_id": body.request_id, "duration_ms": body.duration_ms}
        values["cost_usd"] = UNSET if body.cost_usd is None else Raw(repr(body.cost_usd).encode())
    call = (
        [CallBlock(CALL, body.call_id or "", body.name, body.input)]
        if isinstance(body, ToolCallBody)
        else None
    )
    return FactLine(
        type_of(entry),
        **values,
        forked_from=_raw(fields, "forkedFrom"),
        message=FactMessage(text_of(message, "id"), content=_raw(message, "content"))
        if isinstance(message, dict)
        else None,
        content=_raw(fields, "content") if call is None else Raw(msgspec.json.encode(call)),
        attachment=_raw(fields, "attachment"),
        data=_raw(fields, "data"),
        subtype=text_of(fields, "subtype"),
        compact_metadata=_raw(fields, "compactMetadata"),
        leaf_uuid=key_text(fields.get("leafUuid")),
        origin=_raw(fields, "origin"),
        tool_use_result=_raw(fields, "toolUseResult"),
    )


def raw_of(value: object) -> Raw:
    """A plain value as JSON again, numbers beyond 64 bits included."""
    try:
        return Raw(msgspec.json.encode(value))
    except OverflowError:
        return Raw(json.dumps(value).encode())


def _raw(fields: Mapping[str, object], name: str) -> Raw | UnsetType:
    return raw_of(fields[name]) if name in fields else UNSET


def _block(fields: dict[str, Any]) -> CallBlock:
    is_error = fields.get("is_error")
    return CallBlock(
        text_of(fields, "type") or "",
        text_of(fields, "id") or "",
        text_of(fields, "name") or "",
        raw_of(fields.get("input", {})),
        text_of(fields, "tool_use_id") or "",
        is_error if isinstance(is_error, bool) else None,
        raw_of(fields.get("content")),
    )


def text_of(fields: Any, name: str) -> str | None:
    """A field that is text, of something that may not even be an object."""
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if isinstance(value, str) else None


def key_text(value: object) -> str | None:
    """An id as the client compares it: text as it is, another simple value in brackets, as ``<5>``."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return f"<{str(value).lower()}>"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"<{value}>" if isinstance(value, int | float) else "<object>"


def parent_text(value: object) -> str | None:
    """The id of a parent. A line whose parent is 0, false or empty has none; an object names no line."""
    name = key_text(value) if value else None
    return "<no line>" if name == "<object>" else name


def type_of(entry: Entry) -> str | None:
    """The line's own word for what it is."""
    fields = entry.fields()
    # A line in a run of NUL bytes has no fields to be had; its kind is known all the same.
    return text_of(fields, "type") if fields else getattr(entry.body, "type_name", str(entry.kind)) or None


WORKTREE = "worktree-state"


def origin_of(data: bytes) -> str | None:
    """The directory that a session's worktree was made from; None where a line says none."""
    fields = loose_object(data)
    if fields.get("type") != WORKTREE:
        return None
    return text_of(fields.get("worktreeSession"), "originalCwd") or None


def goes_on_from(entry: Entry) -> str | None:
    """The session of Codex whose history a fork without a copy goes on from, as the fork's first record names it."""
    fields = entry.fields() if entry.kind is Kind.FOREIGN_RECORD else {}
    original = fields.get("original") if fields.get("recordType") == "session_meta" else None
    line = loose_value(original.encode("utf-8", "replace")) if isinstance(original, str) else None
    meta = line.get("payload") if isinstance(line, dict) else None
    base = meta.get("history_base") if isinstance(meta, dict) else None
    if not isinstance(base, dict) or base.get("end_ordinal_exclusive") == 0:
        return None
    return text_of(base, "thread_id") or None
