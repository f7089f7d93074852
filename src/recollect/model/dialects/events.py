"""The ``events`` dialect: one event per line, ``session_id`` in place of ``sessionId``. Read only.

Calls and results are events of their own (``tool_use``, ``tool_result``) and nothing names a parent: order is
the file's. We never write it, because no program we know of reads it back.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from recollect.model.blocks import TextBlock, blocks_of
from recollect.model.dialects.lenient import RawFields, WrongShape, chain_fields, struct_of, text_field
from recollect.model.entry import Assistant, Body, System, ToolCallBody, ToolResultBody, User

_TOOL_EVENTS = ("tool_use", "tool_result")
_EVENTS = ("user", "assistant", "system", *_TOOL_EVENTS)


class ToolUseEvent(Struct, frozen=True):
    """A call."""

    name: str
    tool_use_id: str | None = None
    input: Raw = field(default_factory=lambda: Raw(b"{}"))


class ToolResultEvent(Struct, frozen=True):
    """The result of a call."""

    tool_use_id: str
    content: Raw | UnsetType = UNSET
    is_error: bool | None = None


def fits(fields: RawFields) -> bool:
    """Whether a line is written in this dialect."""
    type_name = text_field(fields, "type")
    if type_name in _TOOL_EVENTS and "tool_use_id" in fields:
        return True
    foreign = "sessionId" in fields or "parentUuid" in fields
    return type_name in _EVENTS and "session_id" in fields and not foreign


def body_of(fields: RawFields) -> Body | None:
    """The meaning of the event; None where its contents do not match its type."""
    try:
        return _READERS[text_field(fields, "type") or ""](fields)
    except (WrongShape, msgspec.ValidationError):
        return None


def _origin(fields: RawFields) -> dict[str, Any]:
    links = chain_fields(fields)
    links["session_id"] = links["session_id"] or text_field(fields, "session_id")
    return links


def _message_body(kind: type[Body], fields: RawFields) -> Body:
    body, _ = struct_of(kind, fields)
    return msgspec.structs.replace(body, **_origin(fields))


def _tool_use(fields: RawFields) -> Body:
    event, _ = struct_of(ToolUseEvent, fields)
    return ToolCallBody(name=event.name, call_id=event.tool_use_id, input=event.input, **_origin(fields))


def _tool_result(fields: RawFields) -> Body:
    event, _ = struct_of(ToolResultEvent, fields)
    failed = event.is_error is True
    return ToolResultBody(
        call_id=event.tool_use_id,
        content=event.content,
        error=_error_text(event.content) if failed else None,
        **_origin(fields),
    )


def _error_text(content: Raw | UnsetType) -> str:
    return "\n".join(block.text for block in blocks_of(content) if isinstance(block, TextBlock))


_READERS = {
    "user": lambda fields: _message_body(User, fields),
    "assistant": lambda fields: _message_body(Assistant, fields),
    "system": lambda fields: _message_body(System, fields),
    "tool_use": _tool_use,
    "tool_result": _tool_result,
}
