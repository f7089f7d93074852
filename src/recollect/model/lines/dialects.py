"""Decode a body field by field, when the fast decoder refused the line as a whole.

The client ignores fields it does not need, so a line with one odd field is still part of the conversation.
Here a bad optional field is left out and reported; only a bad or missing *required* field gives an unknown
shape.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, UnsetType
from msgspec.structs import replace

from recollect.model.lines.blocks import Block, TextBlock, blocks_of, decode_block
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
        # Another writer stores the condensed conversation in a ``content`` object.
        other = dict(raw_fields(fields["content"]))
        names = {"summarizedUntil": "leafUuid"}
        own = {name: fields[name] for name in ("sessionId", "timestamp") if name in fields}
        return struct_of(Summary, {names.get(name, name): raw for name, raw in other.items()} | own)[0], ()
    except (WrongShape, msgspec.ValidationError) as problem:
        return unknown_shape("summary", fields, str(problem)), ()


def _notices(complete: bool) -> tuple[Notice, ...]:
    return () if complete else (Notice.FIELD_SHAPE,)


_TOOL_EVENTS = ("tool_use", "tool_result")
_EVENTS = ("user", "assistant", "system", *_TOOL_EVENTS)
_SPOKEN = ("user", "assistant")
FORMAT_VERSION = 1
# What the fields of a call and of a result are called, by dialect and type.
_NAMES: dict[tuple[Dialect, str], tuple[type[Body], dict[str, str]]] = {
    (Dialect.EVENTS, "tool_use"): (ToolCallBody, {"callId": "tool_use_id"}),
    (Dialect.EVENTS, "tool_result"): (ToolResultBody, {"callId": "tool_use_id"}),
    (Dialect.FLAT, "tool_call"): (
        ToolCallBody,
        {"name": "tool", "callId": "toolCallId", "input": "arguments"},
    ),
    (Dialect.FLAT, "tool_result"): (
        ToolResultBody,
        {"name": "tool", "callId": "toolCallId", "content": "result", "durationMs": "duration_ms"},
    ),
}
_MESSAGE_NAMES = {"content": "content", "model": "model", "stop_reason": "stopReason"}
_USAGE_NAMES = {
    "cache_creation_tokens": "cache_creation_input_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
}
_MESSAGES: dict[str, type[Body]] = {"user": User, "assistant": Assistant, "system": System}


def _dialect_of(fields: RawFields) -> Dialect:
    type_name = text_field(fields, "type")
    is_own = "sessionId" in fields or "parentUuid" in fields
    if (type_name in _TOOL_EVENTS and "tool_use_id" in fields) or (
        type_name in _EVENTS and "session_id" in fields and not is_own
    ):
        return Dialect.EVENTS
    if type_name in _SPOKEN:
        return Dialect.FLAT if "content" in fields and "message" not in fields else Dialect.CLAUDE
    is_flat = type_name in ("tool_call", "tool_result") and "tool" in fields
    return Dialect.FLAT if is_flat else Dialect.CLAUDE


def _read_in(dialect: Dialect, fields: RawFields) -> Body | None:
    """The meaning of a line in another dialect; None where its contents do not match its type."""
    type_name = text_field(fields, "type") or ""
    try:
        if dialect is Dialect.FLAT and _version(fields) > FORMAT_VERSION:
            return None
        kind, names = _NAMES.get((dialect, type_name)) or (_MESSAGES[type_name], {})
        own = {name: fields[theirs] for name, theirs in names.items() if theirs in fields}
        if dialect is Dialect.FLAT and type_name in _SPOKEN:
            own["message"] = _flat_message(type_name, fields)
        rest = {name: raw for name, raw in fields.items() if name not in own and name not in names}
        body = cast("ChainBody", struct_of(kind, own | rest)[0])
    except (WrongShape, msgspec.ValidationError):
        return None
    if dialect is Dialect.FLAT:
        session, source = _origin(fields)
        return replace(body, session_id=body.session_id or session, entrypoint=body.entrypoint or source)
    if isinstance(body, ToolResultBody):
        if body.call_id is None:
            return None
        is_error = bytes(fields.get("is_error", b"")) == b"true"
        body = replace(body, name=None, error=_error_text(body.content) if is_error else None)
    return replace(body, session_id=body.session_id or text_field(fields, "session_id"))


def _origin(fields: RawFields) -> tuple[str | None, str | None]:
    """The session of a flat prompt, and where it came from."""
    try:
        about = raw_fields(fields.get("metadata", Raw(b"{}")))
    except msgspec.ValidationError:
        return None, None
    return text_field(about, "sessionId"), text_field(about, "source")


def _version(fields: RawFields) -> int:
    raw = fields.get("formatVersion")
    version = 1 if raw is None else msgspec.json.decode(raw)
    if not isinstance(version, int) or isinstance(version, bool):
        raise WrongShape("formatVersion: expected a number")
    return version


def _flat_message(role: str, fields: RawFields) -> Raw:
    names = _MESSAGE_NAMES if role == "assistant" else {"content": "content"}
    message: dict[str, Any] = {name: fields[theirs] for name, theirs in names.items() if theirs in fields}
    if role == "assistant" and "usage" in fields:
        try:
            counts = raw_fields(fields["usage"])
            message["usage"] = {_USAGE_NAMES.get(name, name): count for name, count in counts.items()}
        except msgspec.ValidationError:
            pass  # an answer without counts
    return Raw(msgspec.json.encode({**message, "role": role}))


def _error_text(content: Raw | UnsetType) -> str:
    return "\n".join(block.text for block in blocks_of(content) if isinstance(block, TextBlock))


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
    dialect = _dialect_of(fields)
    return dialect, (None if dialect is Dialect.CLAUDE else _read_in(dialect, fields)) or body
