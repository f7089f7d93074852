"""The ``claude`` dialect: what Claude Code 0.2 to 2.1 and later write.

One tagged-union decoder reads almost every line in a single pass. The few lines
it refuses (a type, block or field it does not know) go through the lenient path,
which never fails for well-formed JSON objects.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from recollect.model.damage import Notice
from recollect.model.dialects.lenient import (
    RawFields,
    WrongShape,
    raw_fields,
    struct_of,
    text_field,
    unknown_shape,
)
from recollect.model.entry import TAGGED, Assistant, Body, ChainBody, Summary, UnknownBody

Decoded = tuple[Body, tuple[Notice, ...]]

_line = msgspec.json.Decoder(functools.reduce(operator.or_, TAGGED))
_by_type: dict[str, type[Body]] = {str(body.__struct_config__.tag): body for body in TAGGED}


class _OtherSummary(Struct, rename="camel"):
    """A summary as another writer stores it: the condensed conversation in a ``content`` object."""

    summary: str
    message_count: int | None = None
    summarized_until: str | None = None


_other_summary = msgspec.json.Decoder(_OtherSummary)


def decode(text: bytes) -> Decoded:
    """Decode one well-formed line.

    Raises ``msgspec.ValidationError`` for JSON that is not an object and ``msgspec.DecodeError`` or
    ``UnicodeDecodeError`` for what is not JSON.
    """
    try:
        body: Body = _line.decode(text)
    except msgspec.ValidationError:
        return decode_leniently(raw_fields(text))
    return (_with_model(body) if type(body) is Assistant else body), ()


def decode_leniently(fields: RawFields) -> Decoded:
    """Decode one object field by field; never raises."""
    type_name = text_field(fields, "type") or ""
    if type_name == "summary":
        return _summary(fields)
    kind: Any = _by_type.get(type_name)
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
