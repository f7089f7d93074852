"""The ``flat`` dialect: four types, everything on the top level, one file per day.

``user`` and ``assistant`` carry ``content``, ``usage``, ``model`` and ``stopReason`` on the line itself;
``tool_call`` and ``tool_result`` have lines of their own. The format has no ids and no parents: order is the
file's. We add two fields, which readers of the format ignore: ``uuid``, when an entry has one, so that a
repeated append can be recognised, and ``formatVersion``. A line of a later version than ours is kept but not
interpreted: what its fields mean may have changed. Lines without one are of the first version.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from recollect.model.blocks import blocks_of
from recollect.model.cost.usage import Usage
from recollect.model.dialects.lenient import RawFields, WrongShape, chain_fields, struct_of, text_field
from recollect.model.entry import ApiMessage, Assistant, Body, RawMessage, ToolCallBody, ToolResultBody, User

_SPOKEN = ("user", "assistant")
FORMAT_VERSION = 1


class FlatUsage(Struct, frozen=True, omit_defaults=False):
    """Token counts under the names of this dialect."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0


class FlatMetadata(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where a prompt came from."""

    source: str | None = None
    session_id: str | None = None


class FlatUser(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="user"):
    """A prompt."""

    content: Raw
    timestamp: str | None = None
    metadata: FlatMetadata | None = None
    uuid: str | None = None
    format_version: int | None = field(default=None, name="formatVersion")


class FlatAssistant(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="assistant"):
    """An answer."""

    content: Raw
    timestamp: str | None = None
    usage: FlatUsage | None = None
    model: str | None = None
    stop_reason: str | None = field(default=None, name="stopReason")
    uuid: str | None = None
    format_version: int | None = field(default=None, name="formatVersion")


class FlatToolCall(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool_call"):
    """A call."""

    tool: str
    arguments: Raw = field(default_factory=lambda: Raw(b"{}"))
    timestamp: str | None = None
    tool_call_id: str | None = field(default=None, name="toolCallId")
    uuid: str | None = None
    format_version: int | None = field(default=None, name="formatVersion")


class FlatToolResult(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="tool_result"):
    """The result of a call: ``result`` or ``error``."""

    tool: str | None = None
    result: Raw | UnsetType = UNSET
    error: str | None = None
    timestamp: str | None = None
    duration_ms: float | int | None = None
    tool_call_id: str | None = field(default=None, name="toolCallId")
    uuid: str | None = None
    format_version: int | None = field(default=None, name="formatVersion")


FlatLine = FlatUser | FlatAssistant | FlatToolCall | FlatToolResult


def fits(fields: RawFields) -> bool:
    """Whether a line is written in this dialect."""
    type_name = text_field(fields, "type")
    if type_name in _SPOKEN:
        return "content" in fields and "message" not in fields
    return type_name in ("tool_call", "tool_result") and "tool" in fields


def body_of(fields: RawFields) -> Body | None:
    """The meaning of the line; None where its contents do not match its type."""
    reader = _READERS[text_field(fields, "type") or ""]
    try:
        return None if _version(fields) > FORMAT_VERSION else reader(fields)
    except (WrongShape, msgspec.ValidationError):
        return None


def _version(fields: RawFields) -> int:
    raw = fields.get("formatVersion")
    version = 1 if raw is None else msgspec.json.decode(raw)
    if not isinstance(version, int) or isinstance(version, bool):
        raise WrongShape("formatVersion: expected a number")
    return version


def encode(line: FlatLine) -> bytes:
    """The line without its newline."""
    return msgspec.json.encode(line)


def _content(raw: Raw) -> RawMessage:
    text: object = msgspec.json.decode(raw)
    if not isinstance(text, str | list):
        raise WrongShape("content: expected text or blocks")
    return RawMessage(content=text if isinstance(text, str) else blocks_of(raw))


def _user(fields: RawFields) -> Body:
    line, _ = struct_of(FlatUser, fields)
    links = chain_fields(fields)
    if line.metadata is not None:
        links["session_id"] = links["session_id"] or line.metadata.session_id
        links["entrypoint"] = links["entrypoint"] or line.metadata.source
    return User(message=RawMessage(_content(line.content).content, "user"), **links)


def _assistant(fields: RawFields) -> Body:
    line, _ = struct_of(FlatAssistant, fields)
    message = ApiMessage(
        content=_content(line.content).content,
        role="assistant",
        model=line.model,
        stop_reason=line.stop_reason,
        usage=_usage(line.usage),
    )
    return Assistant(message=message, **chain_fields(fields))


def _usage(usage: FlatUsage | None) -> Usage | None:
    if usage is None:
        return None
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_creation_input_tokens=usage.cache_creation_tokens,
        cache_read_input_tokens=usage.cache_read_tokens,
    )


def _tool_call(fields: RawFields) -> Body:
    line, _ = struct_of(FlatToolCall, fields)
    return ToolCallBody(
        name=line.tool,
        call_id=line.tool_call_id,
        input=line.arguments,
        **chain_fields(fields),
    )


def _tool_result(fields: RawFields) -> Body:
    line, _ = struct_of(FlatToolResult, fields)
    return ToolResultBody(
        name=line.tool,
        call_id=line.tool_call_id,
        content=line.result,
        error=line.error,
        duration_ms=line.duration_ms,
        **chain_fields(fields),
    )


_READERS = {
    "user": _user,
    "assistant": _assistant,
    "tool_call": _tool_call,
    "tool_result": _tool_result,
}
