"""The usage of a plain answer, read as fast as a decoder can: numbers and short names, no text.

What a line says of usage is decided by ``facts_of``. This view takes the short way for lines it need not decide
about; any other line it leaves to ``facts_of``, so that both come to the same rows
(``tests/services/cost/test_scan.py`` compares them). What makes a line an odd one is said by the types, as far as
types can: the decoder checks them for next to nothing.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from recollect.model.line_views.view import REFUSED

# Lines of these kinds never count usage, whatever their results say of it.
_SILENT = ("user", "system", "attachment")
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_BLOCKS = (*_CALLS, "text", "thinking", "redacted_thinking")
# A count beyond belief makes a line an odd one.
_Count = Annotated[int, Meta(ge=0, le=10_000_000)]
# No value is of this type: a line that has the field at all is an odd one.
_Never = Annotated[int, Meta(ge=1, le=0)]


class _CacheCounts(Struct, frozen=True, gc=False):
    ephemeral_5m_input_tokens: _Count | None = None
    ephemeral_1h_input_tokens: _Count | None = None


class _SearchCounts(Struct, frozen=True, gc=False):
    web_search_requests: _Count | None = None


class _OwnIteration(Struct, frozen=True, gc=False):
    """A call of the model itself; an advisor's is another response."""

    type: Literal["message"] | None = None


class UsageCounts(Struct, frozen=True, gc=False):
    """Token counts, none of them beyond belief."""

    input_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    cache_creation: _CacheCounts | None = None
    server_tool_use: _SearchCounts | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    iterations: list[_OwnIteration] | None = None
    speed: str | None = None


class _ToolUseView(Struct, frozen=True, gc=False):
    type: str | None = None
    name: str | None = None
    input: Raw | UnsetType = UNSET


class AnswerMessage(Struct, frozen=True, gc=False):
    """An answer of the API, without its texts."""

    model: str | None = None
    id: str | None = None
    content: list[_ToolUseView] | None = None
    stop_reason: str | None = None
    usage: UsageCounts | None = None


class _Origin(Struct, frozen=True, gc=False):
    """Where a fork took the line from: that it says so is enough."""


class AnswerLine(Struct, frozen=True, rename="camel", gc=False):
    """A line of an answer. Links are not all needed, but a line with one of another type is an odd one."""

    parent_uuid: str | None = None
    is_sidechain: bool | None = None
    message: AnswerMessage | None = None
    request_id: str | None = None
    type: str | None = None
    uuid: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    session_id: str | None = None
    version: str | None = None
    git_branch: str | None = None
    agent_id: str | None = None
    is_meta: bool | None = None
    model: str | None = None
    forked_from: _Origin | UnsetType = UNSET
    cost_usd: Raw | UnsetType = field(default=UNSET, name="costUSD")
    duration_ms: _Never | UnsetType = UNSET


class _CheckedLine(AnswerLine, frozen=True, rename="camel", gc=False):
    """With the other fields whose types ``facts_of`` checks: few lines are read so."""

    subtype: str | None = None
    is_compact_summary: bool | None = None
    leaf_uuid: str | None = None
    explicit: bool | None = None


class _ProgressLine(_CheckedLine, frozen=True, rename="camel", gc=False):
    data: Raw | UnsetType = UNSET


class _AnswerProgress(Struct, frozen=True, gc=False):
    type: str | None = None
    message: _CheckedLine | None = None


class OddLine(Exception):
    """The line is no plain answer: ``facts_of`` says what it means."""


_USAGE = b'"usage"'
_decode = msgspec.json.Decoder(AnswerLine).decode
_decode_progress = msgspec.json.Decoder(_ProgressLine).decode
_decode_news = msgspec.json.Decoder(_AnswerProgress).decode


def plain_answer(data: bytes, with_records: bool) -> AnswerLine | None:
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
    if message.content is None or (with_records and line.cost_usd is not UNSET):
        raise OddLine
    return line


def agents_answer(data: bytes, with_records: bool) -> AnswerLine | None:
    """An answer of an agent that its parent's log repeats as progress, with the time and place of the line itself.

    None where the line never counts.
    """
    try:
        line = _decode_progress(data)
        if line.type != "progress" or line.session_id is None or isinstance(line.data, UnsetType):
            raise OddLine
        news = _decode_news(line.data).message if _USAGE in bytes(line.data) else None
    except REFUSED:
        raise OddLine from None
    if news is None or news.message is None or news.message.usage is None or news.type in _SILENT:
        return None
    if news.type != "assistant" or (with_records and news.cost_usd is not UNSET):
        raise OddLine
    return msgspec.structs.replace(line, message=news.message, model=news.model, request_id=news.request_id)


def first_tool(content: list[_ToolUseView]) -> str | None:
    """The first tool called, where all blocks are of kinds that are known here."""
    found = None
    for call in content:
        if (call.type in _CALLS) is (call.input is UNSET) or call.type not in _BLOCKS:
            raise OddLine
        found = found or call.name
    return found
