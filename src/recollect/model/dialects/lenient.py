"""Decode a body field by field, when the fast decoder refused the line as a whole.

The client ignores fields it does not need, so a line with one odd field is still part of the conversation.
Here a bad optional field is left out and reported; only a bad or missing *required* field gives an unknown
shape.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from recollect.model.blocks import Block, decode_block
from recollect.model.entry import ApiMessage, ChainBody, RawMessage, UnknownShapeBody

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
