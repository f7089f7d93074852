"""The usage of a plain answer, read as fast as a decoder can: numbers and short names, no text.

What a line says of usage is decided by ``facts_of``. This view takes the short way for lines it need not decide
about; any other line it leaves to ``facts_of``, so that both come to the same rows
(``tests/services/cost/test_scan.py`` compares them).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from recollect.model.cost.usage import ADVISOR
from recollect.model.line_views.links import LineLinks
from recollect.model.line_views.view import REFUSED

# Lines of these kinds never count usage, whatever their results say of it.
_SILENT = ("user", "system", "attachment")
_LIST, _OBJECT = b"[{"
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_BLOCKS = (*_CALLS, "text", "thinking", "redacted_thinking")
# A count beyond belief makes a line an odd one.
_Count = Annotated[int, Meta(ge=0, le=10_000_000)]


class _CacheCounts(Struct, frozen=True, gc=False):
    ephemeral_5m_input_tokens: _Count | None = None
    ephemeral_1h_input_tokens: _Count | None = None


class _SearchCounts(Struct, frozen=True, gc=False):
    web_search_requests: _Count | None = None


class UsageCounts(Struct, frozen=True, gc=False):
    """Token counts, none of them beyond belief."""

    input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None
    cache_creation: _CacheCounts | None = None
    server_tool_use: _SearchCounts | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    iterations: Raw | UnsetType = UNSET


class AnswerMessage(Struct, frozen=True, gc=False):
    """An answer of the API, its content undecoded."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: UsageCounts | None = None
    content: Raw | UnsetType = UNSET


class AnswerLine(LineLinks, frozen=True, rename="camel", gc=False):
    """A line of an answer. Links are not all needed, but a line with one of another type is an odd one."""

    git_branch: str | None = None
    version: str | None = None
    request_id: str | None = None
    model: str | None = None
    forked_from: Raw | UnsetType = UNSET
    message: AnswerMessage | None = None
    cost_usd: Raw | UnsetType = field(default=UNSET, name="costUSD")
    duration_ms: Raw | UnsetType = UNSET


class _ToolUseView(Struct, gc=False):
    type: str | None = None
    name: str | None = None
    input: Raw | UnsetType = UNSET


class OddLine(Exception):
    """The line is no plain answer: ``facts_of`` says what it means."""


_decode = msgspec.json.Decoder(AnswerLine).decode
_calls = msgspec.json.Decoder(list[_ToolUseView]).decode


def plain_answer(data: bytes, *, with_records: bool) -> AnswerLine | None:
    """A line with usage; None where it never counts. ``with_records``: what a client recorded is wanted too."""
    try:
        line = _decode(data)
    except REFUSED:
        raise OddLine from None
    message = line.message
    if line.type != "assistant" or message is None:
        if line.type in _SILENT:
            return None
        raise OddLine
    if message.usage is None:
        return None
    content = message.content
    if (
        content is not UNSET
        and memoryview(content)[0] == _LIST
        and line.duration_ms is UNSET
        and (line.forked_from is UNSET or memoryview(line.forked_from)[0] == _OBJECT)
        and not (with_records and line.cost_usd is not UNSET)
        and (message.usage.iterations is UNSET or ADVISOR not in bytes(message.usage.iterations))
    ):
        return line
    raise OddLine


def first_tool(content: Raw | UnsetType) -> str | None:
    """The first tool called, where all blocks are of kinds that are known here."""
    if content is UNSET or b'"input"' not in bytes(content):
        return None
    found = None
    try:
        calls = _calls(content)
    except REFUSED:
        raise OddLine from None
    for call in calls:
        if (call.type in _CALLS) is (call.input is UNSET) or call.type not in _BLOCKS:
            raise OddLine
        found = found or call.name
    return found
