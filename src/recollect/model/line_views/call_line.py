"""Which calls a line makes, and whether a line of results says anything else: from its bytes where they are as usual."""

from __future__ import annotations

import re

from recollect.model.line_views.tool_calls import CALL, RESULT, CallBlock, call_line

_CALL_WORD = b'"tool_use"'
# As the client writes it; a text cannot hold these bytes, its quotes are escaped.
_USUAL = re.compile(rb'"type"[ ]?:[ ]?"tool_use"[ ]?,[ ]?"id"[ ]?:[ ]?"([^"\\]+)"')
_REASON = re.compile(rb'"stop_reason"[ ]?:[ ]?"tool_use"')
_RESULT_WORD = b'"type":"tool_result"'


def call_ids(data: bytes) -> tuple[str, ...]:
    """The ids of the tool calls in a line of the model."""
    found = _USUAL.findall(data)
    if len(found) + len(_REASON.findall(data)) == data.count(_CALL_WORD):
        return tuple(name.decode("utf-8", "replace") for name in found)
    return tuple(one.id for one in _blocks(data) if one.type == CALL and one.id)


def has_more_than_results(data: bytes) -> bool:
    """Whether a line with results has blocks of another type beside them."""
    if data.count(b'"type"') == data.count(_RESULT_WORD) + 1:  # the one beside is that of the line itself
        return False
    return any(one.type != RESULT for one in _blocks(data))


def _blocks(data: bytes) -> list[CallBlock]:
    seen = call_line(data)
    return [] if seen is None else seen.message.content
