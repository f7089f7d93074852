"""Which calls a line makes, and whether a line of results says anything else: from its bytes where they are as usual."""

from __future__ import annotations

import re

import msgspec
from msgspec import UNSET, Struct, UnsetType

_CALL = b'"tool_use"'
# As the client writes it; a text cannot hold these bytes, its quotes are escaped.
_USUAL = re.compile(rb'"type"[ ]?:[ ]?"tool_use"[ ]?,[ ]?"id"[ ]?:[ ]?"([^"\\]+)"')
_REASON = re.compile(rb'"stop_reason"[ ]?:[ ]?"tool_use"')
_RESULT = b'"type":"tool_result"'


class _NamedCallBlock(Struct):
    type: str | UnsetType = UNSET
    id: str | UnsetType | None = UNSET


class _NamedCallMessage(Struct):
    content: list[_NamedCallBlock] | str | UnsetType | None = UNSET


class _NamedCallLine(Struct):
    message: _NamedCallMessage | UnsetType = UNSET


_line = msgspec.json.Decoder(_NamedCallLine)


def call_ids(data: bytes) -> tuple[str, ...]:
    """The ids of the tool calls in a line of the model."""
    found = _USUAL.findall(data)
    if len(found) + len(_REASON.findall(data)) == data.count(_CALL):
        return tuple(name.decode("utf-8", "replace") for name in found)
    return tuple(one.id for one in _blocks(data) if one.type == "tool_use" and isinstance(one.id, str))


def has_more_than_results(data: bytes) -> bool:
    """Whether a line with results has blocks of another type beside them."""
    if data.count(b'"type"') == data.count(_RESULT) + 1:  # the one beside is that of the line itself
        return False
    return any(one.type != "tool_result" for one in _blocks(data))


def _blocks(data: bytes) -> list[_NamedCallBlock]:
    try:
        message = _line.decode(data).message
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    content = message.content if isinstance(message, _NamedCallMessage) else None
    return content if isinstance(content, list) else []
