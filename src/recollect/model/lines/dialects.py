"""Decode a body field by field, when the fast decoder refused the line as a whole.

The client ignores fields it does not need, so a line with one odd field is still part of the conversation.
Here a bad optional field is left out and reported; only a bad or missing *required* field gives an unknown
shape.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from recollect.model.lines.blocks import Block, TextBlock, Usage, blocks_of, decode_block
from recollect.model.lines.damage import Notice
from recollect.model.lines.entry import (
    METADATA,
    TAGGED,
    ApiMessage,
    Assistant,
    Body,
    ChainBody,
    Dialect,
    Metadata,
    RawMessage,
    Summary,
    System,
    ToolCallBody,
    ToolResultBody,
    UnknownBody,
    UnknownShapeBody,
    User,
)

RawFields = Mapping[str, Raw]
S = TypeVar("S", bound=Struct)
_fields = msgspec.json.Decoder(dict[str, Raw])
_text = msgspec.json.Decoder(str)
_parts = msgspec.json.Decoder(str | list[Raw])


class WrongShape(ValueError):
    """A required field is missing or has the wrong type. Never leaves this package."""


def raw_fields(raw: bytes | Raw) -> RawFields:
    """The members of an object, values undecoded. Raises ``msgspec.ValidationError`` for other JSON."""
    return _fields.decode(raw)


def text_field(fields: RawFields, name: str) -> str | None:
    """A member that is text, or None."""
    try:
        return _text.decode(fields[name]) if name in fields else None
    except msgspec.ValidationError:
        return None


def struct_of(kind: type[S], fields: RawFields) -> tuple[S, bool]:
    """Build ``kind`` from the fields that fit; also returns whether one was left out.

    Raises ``WrongShape`` where a required field does not fit.
    """
    values: dict[str, object] = {}
    complete = True
    for name, key, required, decoder in _plan(kind):
        if key not in fields:
            if required:
                raise WrongShape(f"{key} is missing")
            continue
        try:
            values[name] = decoder(fields[key])
        except (msgspec.ValidationError, WrongShape) as problem:
            if required:
                raise WrongShape(f"{key}: {problem}") from None
            complete = False
    return kind(**values), complete


def chain_fields(fields: RawFields) -> dict[str, Any]:
    """The link fields of a line, by their names in ``ChainBody``; they are the same in every dialect."""
    links, _ = struct_of(ChainBody, fields)
    return msgspec.structs.asdict(links)


def unknown_shape(type_name: str, fields: RawFields, problem: str) -> UnknownShapeBody:
    """What is known about a line whose contents do not match its type."""
    return UnknownShapeBody(type_name=type_name, problem=problem, **chain_fields(fields))


@functools.cache
def _plan(kind: type[Struct]) -> tuple[tuple[str, str, bool, Any], ...]:
    return tuple((f.name, f.encode_name, f.required, _decoder(f.type)) for f in msgspec.structs.fields(kind))


def _decoder(of: Any) -> Any:
    """The decoder of one field: messages block by block, everything else strictly."""
    if of in (RawMessage, ApiMessage):
        return functools.partial(_message, of)
    if of == RawMessage | None:
        return functools.partial(_message, RawMessage)
    return msgspec.json.Decoder(of).decode


def _message(kind: type[RawMessage], raw: Raw) -> RawMessage:
    try:
        fields = dict(raw_fields(raw))
        content = _content(fields.pop("content", Raw(b"null")))
    except msgspec.ValidationError as problem:
        raise WrongShape(str(problem)) from None
    values: dict[str, Any] = {"content": content}
    for name, key, _, decoder in _plan(kind):
        if key in fields:
            try:
                values[name] = decoder(fields[key])
            except msgspec.ValidationError:
                continue  # an odd model name or usage does not invalidate the message
    return kind(**values)


def _content(raw: Raw) -> str | list[Block]:
    parts = _parts.decode(raw)
    return parts if isinstance(parts, str) else [decode_block(part) for part in parts]


Decoded = tuple[Body, tuple[Notice, ...]]

_by_type: dict[str, type[Body]] = {str(body.__struct_config__.tag): body for body in TAGGED}


class _OtherSummary(Struct, rename="camel"):
    """A summary as another writer stores it: the condensed conversation in a ``content`` object."""

    summary: str
    message_count: int | None = None
    summarized_until: str | None = None


_other_summary = msgspec.json.Decoder(_OtherSummary)


@functools.cache
def _line() -> msgspec.json.Decoder[Any]:
    """Of a line of any known type; it takes as long to make as to read a thousand lines."""
    return msgspec.json.Decoder(functools.reduce(operator.or_, TAGGED))


def decode(text: bytes) -> Decoded:
    """Decode one well-formed line.

    Raises ``msgspec.ValidationError`` for JSON that is not an object and ``msgspec.DecodeError`` or
    ``UnicodeDecodeError`` for what is not JSON.
    """
    try:
        body: Body = _line().decode(text)
    except msgspec.ValidationError:
        return decode_leniently(raw_fields(text))
    return (_with_model(body) if type(body) is Assistant else body), ()


def decode_leniently(fields: RawFields) -> Decoded:
    """Decode one object field by field; never raises."""
    type_name = text_field(fields, "type") or ""
    if type_name == "summary":
        return _summary(fields)
    kind: Any = _by_type.get(type_name)
    if type_name in METADATA:
        about, complete = struct_of(Body, fields)
        return Metadata(type_name=type_name, **msgspec.structs.asdict(about)), _notices(complete)
    if kind is None:
        links, complete = struct_of(ChainBody, fields)
        unknown = UnknownBody(type_name=type_name, **msgspec.structs.asdict(links))
        return unknown, _notices(complete)
    try:
        body, complete = struct_of(kind, fields)
    except WrongShape as problem:
        return unknown_shape(type_name, fields, str(problem)), ()
    return (_with_model(body) if isinstance(body, Assistant) else body), _notices(complete)


def _with_model(body: Assistant) -> Assistant:
    """An answer whose model stands beside its message."""
    if body.model is None or body.message.model is not None:
        return body
    return replace(body, message=replace(body.message, model=body.model))


def _summary(fields: RawFields) -> Decoded:
    try:
        if "summary" in fields or "content" not in fields:
            body, complete = struct_of(Summary, fields)
            return body, _notices(complete)
        other = _other_summary.decode(fields["content"])
    except (WrongShape, msgspec.ValidationError) as problem:
        return unknown_shape("summary", fields, str(problem)), ()
    return Summary(
        summary=other.summary,
        leaf_uuid=other.summarized_until,
        message_count=other.message_count,
        session_id=text_field(fields, "sessionId"),
        timestamp=text_field(fields, "timestamp"),
    ), ()


def _notices(complete: bool) -> tuple[Notice, ...]:
    return () if complete else (Notice.FIELD_SHAPE,)


_TOOL_EVENTS = ("tool_use", "tool_result")
_EVENTS = ("user", "assistant", "system", *_TOOL_EVENTS)


def has_event_shape(fields: RawFields) -> bool:
    """Whether a line is written in this dialect."""
    type_name = text_field(fields, "type")
    if type_name in _TOOL_EVENTS and "tool_use_id" in fields:
        return True
    foreign = "sessionId" in fields or "parentUuid" in fields
    return type_name in _EVENTS and "session_id" in fields and not foreign


def event_body(fields: RawFields) -> Body | None:
    """The meaning of the event; None where its contents do not match its type."""
    try:
        return _EVENT_READERS[text_field(fields, "type") or ""](fields)
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
    call = ToolCallBody(
        name=_needed(fields, "name"), call_id=text_field(fields, "tool_use_id"), **_origin(fields)
    )
    return replace(call, input=fields["input"]) if "input" in fields else call


def _event_result(fields: RawFields) -> Body:
    content = fields.get("content", UNSET)
    return ToolResultBody(
        call_id=_needed(fields, "tool_use_id"),
        content=content,
        error=_error_text(content) if bytes(fields.get("is_error", b"")) == b"true" else None,
        **_origin(fields),
    )


def _needed(fields: RawFields, name: str) -> str:
    text = text_field(fields, name)
    if text is None:
        raise WrongShape(f"{name} is missing or no text")
    return text


def _error_text(content: Raw | UnsetType) -> str:
    return "\n".join(block.text for block in blocks_of(content) if isinstance(block, TextBlock))


_EVENT_READERS = {
    "user": lambda fields: _message_body(User, fields),
    "assistant": lambda fields: _message_body(Assistant, fields),
    "system": lambda fields: _message_body(System, fields),
    "tool_use": _tool_use,
    "tool_result": _event_result,
}


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


class FlatLine(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A line of any type: a prompt, an answer, a call, or its result or error."""

    type: str
    tool: str | None = None
    content: Raw | UnsetType = UNSET
    arguments: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: str | None = None
    timestamp: str | None = None
    metadata: FlatMetadata | None = None
    usage: FlatUsage | None = None
    model: str | None = None
    stop_reason: str | None = field(default=None, name="stopReason")
    duration_ms: float | int | None = None
    tool_call_id: str | None = field(default=None, name="toolCallId")
    uuid: str | None = None
    format_version: int | None = field(default=None, name="formatVersion")


def has_flat_shape(fields: RawFields) -> bool:
    """Whether a line is written in this dialect."""
    type_name = text_field(fields, "type")
    if type_name in _SPOKEN:
        return "content" in fields and "message" not in fields
    return type_name in ("tool_call", "tool_result") and "tool" in fields


def flat_body(fields: RawFields) -> Body | None:
    """The meaning of the line; None where its contents do not match its type."""
    reader = _FLAT_READERS[text_field(fields, "type") or ""]
    try:
        if _version(fields) > FORMAT_VERSION:
            return None
        return reader(struct_of(FlatLine, fields)[0], chain_fields(fields))
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


def _flat_content(line: FlatLine) -> str | list[Block]:
    text: object = None if isinstance(line.content, UnsetType) else msgspec.json.decode(line.content)
    if isinstance(text, str):
        return text
    if not isinstance(text, list):
        raise WrongShape("content: expected text or blocks")
    return blocks_of(line.content)


def _user(line: FlatLine, links: dict[str, Any]) -> Body:
    if line.metadata is not None:
        links["session_id"] = links["session_id"] or line.metadata.session_id
        links["entrypoint"] = links["entrypoint"] or line.metadata.source
    return User(message=RawMessage(_flat_content(line), "user"), **links)


def _assistant(line: FlatLine, links: dict[str, Any]) -> Body:
    counts = line.usage
    usage = None
    if counts is not None:
        usage = Usage(
            input_tokens=counts.input_tokens,
            output_tokens=counts.output_tokens,
            cache_creation_input_tokens=counts.cache_creation_tokens,
            cache_read_input_tokens=counts.cache_read_tokens,
        )
    message = ApiMessage(
        content=_flat_content(line),
        role="assistant",
        model=line.model,
        stop_reason=line.stop_reason,
        usage=usage,
    )
    return Assistant(message=message, **links)


def _tool_call(line: FlatLine, links: dict[str, Any]) -> Body:
    if line.tool is None:
        raise WrongShape("tool is no text")
    call = ToolCallBody(name=line.tool, call_id=line.tool_call_id, **links)
    return call if isinstance(line.arguments, UnsetType) else replace(call, input=line.arguments)


def _tool_result(line: FlatLine, links: dict[str, Any]) -> Body:
    return ToolResultBody(
        name=line.tool,
        call_id=line.tool_call_id,
        content=line.result,
        error=line.error,
        duration_ms=line.duration_ms,
        **links,
    )


_FLAT_READERS = {"user": _user, "assistant": _assistant, "tool_call": _tool_call, "tool_result": _tool_result}


_NAMED, _UNPLACED = (User, Assistant, System), (UnknownBody, UnknownShapeBody)


def settled(text: bytes, body: Body) -> tuple[Dialect, Body]:
    """The dialect of a line and its meaning in that dialect."""
    if isinstance(body, _NAMED):
        # The client always writes sessionId, even if another program's session_id is on the line.
        if body.session_id is not None or b'"session_id"' not in text:
            return Dialect.CLAUDE, body
    elif not isinstance(body, _UNPLACED):
        return Dialect.CLAUDE, body
    fields = raw_fields(text)
    if has_event_shape(fields):
        return Dialect.EVENTS, event_body(fields) or body
    if has_flat_shape(fields):
        return Dialect.FLAT, flat_body(fields) or body
    return Dialect.CLAUDE, body
