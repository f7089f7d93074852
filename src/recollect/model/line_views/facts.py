"""What the index keeps of one line, taken in one pass: place in the chain, texts by kind, usage.

One narrow decoder reads all of it at once and skips the rest; the copy of a tool's
result under ``toolUseResult``, file snapshots and recorded requests repeat what stands
elsewhere and are not texts of their own. A line the narrow decoder refuses is read again
by the codec, so that other dialects and odd shapes are found as well.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from recollect.model.cost.copies import AGENT_PROGRESS
from recollect.model.cost.line_usage import (
    FOREIGN_USAGE,
    ResponseUsage,
    believable_total,
    is_believable,
    is_billed,
    response_usage,
    said_by,
)
from recollect.model.cost.usage import Tokens, Usage
from recollect.model.json.text import content_of, loose_object, loose_value
from recollect.model.line_views.links import LineLinks
from recollect.model.line_views.view import REFUSED, is_of_other_dialect
from recollect.model.moments import milliseconds_of

# The columns of the full-text table, in this order.
TEXT_KINDS = ("prose", "thinking", "tool_input", "tool_result", "title", "other")
PROSE, THINKING, TOOL_INPUT, TOOL_RESULT, TITLE, OTHER = range(6)

# Repeats of other lines (a sub-agent's news, sent requests, snapshots, waiting prompts) or plain switches.
WITHOUT_TEXT = frozenset(
    (
        "progress",
        "file-history-snapshot",
        "file-history-delta",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "last-prompt",
        "agent-name",
        "queue-operation",
        "cost-state",
        "tools-used",
        "mode",
        "permission-mode",
        "content-replacement",
        "atis-latch",
        "agent-color",
        "agent-setting",
        "foreign-source",
        "foreign-record",
    )
)


class RecordedTotal(Struct, frozen=True, gc=False):
    """The client's own running total of a session, by model: dollars as written, and tokens.

    ``started``: when the session began, in milliseconds since 1970; a fork takes it along with the total.
    """

    by_model: dict[str, tuple[str, Tokens]]
    total: str | None
    started: int | None = None


LineTexts = tuple[str | None, str | None, str | None, str | None, str | None, str | None]


_LINKS = frozenset(("user", "assistant", "system", "attachment", "progress", "tool_call", "tool_result"))


class LineFacts(Struct, frozen=True, gc=False):
    """Everything the index wants from one line."""

    type: str
    uuid: str | None = None
    parent: str | None = None
    at: int | None = None  # milliseconds since 1970, UTC
    session: str | None = None
    agent: str | None = None
    is_sidechain: bool = False
    is_forked: bool = False
    is_meta: bool = False
    cwd: str | None = None
    branch: str | None = None
    version: str | None = None
    texts: LineTexts | None = None
    response: ResponseUsage | None = None
    recorded: RecordedTotal | None = None
    decoded: FactLine | None = None  # the line itself, where the narrow decoder took it

    @property
    def is_link(self) -> bool:
        """Whether it is a link of a conversation. Of what we do not know, only what has an id is."""
        return self.uuid is not None or self.type in _LINKS


class _FactBlock(Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    name: str | None = None
    id: object = None  # of any type: an odd one must not make the line odd
    tool_use_id: object = None
    is_error: object = None
    input: Raw | UnsetType = UNSET
    content: str | list[_FactBlock] | None = None
    source: Raw | UnsetType = UNSET
    citations: Raw | UnsetType = UNSET


class _FactSource(Struct, gc=False):
    type: str | None = None


class _FactMessage(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    content: str | list[_FactBlock] | None = None


class FactLine(LineLinks, frozen=True, rename="camel", gc=False):
    """The fields of a line, those of ``graph_line`` among them: a line is decoded once for the index."""

    git_branch: str | None = None
    version: str | None = None
    request_id: str | None = None
    model: str | None = None
    forked_from: Raw | UnsetType = UNSET
    message: _FactMessage | None = None
    content: Raw | UnsetType = UNSET
    attachment: Raw | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    cost_usd: Raw | UnsetType = field(default=UNSET, name="costUSD")
    duration_ms: float | int | None = None
    subtype: str | None = None
    is_compact_summary: bool | None = None
    compact_metadata: Raw | UnsetType = UNSET
    leaf_uuid: str | None = None
    explicit: bool | None = None


class _AgentProgress(Struct, rename="camel", gc=False):
    type: str | None = None
    message: FactLine | None = None


class _ModelCost(Struct, gc=False):
    cost_usd: Raw | UnsetType = field(default=UNSET, name="costUSD")


class _ModelCounts(Struct, rename="camel", gc=False):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_creation_ephemeral_1h: int = field(default=0, name="cacheCreationEphemeral1hInputTokens")
    web_search_requests: int = 0

    def tokens(self) -> Tokens:
        hour = min(self.cache_creation_ephemeral_1h, self.cache_creation_input_tokens)
        counts = (
            self.input_tokens,
            self.output_tokens,
            self.cache_creation_input_tokens - hour,
            hour,
            self.cache_read_input_tokens,
            self.web_search_requests,
        )
        return Tokens(*counts) if all(map(is_believable, counts)) else Tokens()


class _CostStateCounts(Struct, rename="camel", gc=False):
    model_usage: dict[str, _ModelCounts] = {}
    start_time: int | None = None


class _CostStateLine(Struct, rename="camel", gc=False):
    timestamp: str | None = None
    model_usage: dict[str, _ModelCost] | None = None
    total_cost_usd: Raw | UnsetType = field(default=UNSET, name="totalCostUSD")


_line = msgspec.json.Decoder(FactLine)
_source = msgspec.json.Decoder(_FactSource)
_news = msgspec.json.Decoder(_AgentProgress)
_cost_state = msgspec.json.Decoder(_CostStateLine)
_cost_state_counts = msgspec.json.Decoder(_CostStateCounts)
_NOTHING = _ModelCounts()
_LATEST = 1 << 50  # milliseconds; what is later is no time
_SPEAKS = ("user", "assistant", "system")
# Within blocks: names of things, and what is text to no one.
_LABELS = frozenset(
    ("type", "id", "tool_use_id", "media_type", "signature", "encrypted_content", "encrypted_index")
)


def facts_of(data: bytes) -> LineFacts | None:
    """What the index keeps of a line; None where it is blank or cannot be read at all."""
    try:
        line = _line.decode(data)
    except REFUSED:
        return _by_codec(data)
    if line.session_id is None and is_of_other_dialect(data):
        return _by_codec(data)
    kind = line.type
    if line.message is None and kind not in ("attachment", "progress"):
        if kind == "system" and not isinstance(line.content, UnsetType):
            return _facts(line, one_text(OTHER, joined(strings_in(line.content))))
        if kind == "cost-state":
            return msgspec.structs.replace(_facts(line, None), recorded=recorded_total(data))
        return _facts(line, None) if kind in WITHOUT_TEXT else _by_codec(data)
    if kind == "attachment" and not isinstance(line.attachment, UnsetType):
        return _facts(line, one_text(OTHER, joined(strings_in(line.attachment))))
    if kind == "progress":
        return _facts(line, None, progress_usage(line.data))
    if kind == FOREIGN_USAGE and line.message is not None:
        return _facts(line, None, _usage_of(line, line.message, None))
    if kind not in _SPEAKS:
        return _facts(line, None) if kind in WITHOUT_TEXT else _by_codec(data)
    return _spoken_line(line, data)


def usage_facts(data: bytes) -> LineFacts | None:
    """As ``facts_of`` for a reader of usage only; lines that cannot bear on money are passed over unread."""
    if b'"usage"' not in data and b'"cost-state"' not in data and b'"costUSD"' not in data:
        return None
    return facts_of(data)


def _spoken_line(line: FactLine, data: bytes) -> LineFacts | None:
    message = line.message
    assert message is not None  # noqa: S101 - for the type checker: callers check it
    content = message.content
    if content is None:
        # A system line has its text elsewhere. An answer whose content is gone was paid for all the same.
        return (
            _by_codec(data) if line.type == "system" else _facts(line, None, _usage_of(line, message, None))
        )
    if isinstance(content, str):
        texts: LineTexts | None = one_text(OTHER if line.type == "system" else PROSE, content)
        return _facts(line, texts, _usage_of(line, message, None))
    if len(content) == 1:
        # One block a line is what clients write; the general way costs twice as much.
        block = content[0]
        kind = block.type
        if kind == "text" and isinstance(block.citations, UnsetType):
            return _facts(line, one_text(PROSE, block.text), _usage_of(line, message, None))
        if kind == "tool_result" and isinstance(block.content, str):
            return _facts(line, one_text(TOOL_RESULT, block.content), _usage_of(line, message, None))
        if kind == "thinking":
            return _facts(line, one_text(THINKING, block.thinking), _usage_of(line, message, None))
    if all(map(_is_plain, content)):
        texts, tool = _of_plain_blocks(content)
    else:
        texts, tool = of_any_content(
            content_of(loose_object(data)), OTHER if line.type == "system" else PROSE
        )
    return _facts(line, texts, _usage_of(line, message, tool))


def _is_plain(block: _FactBlock) -> bool:
    """Whether what was decoded is all that the block says; one of any other kind is read as plain JSON."""
    kind, content = block.type, block.content
    if kind == "tool_result":
        return not isinstance(content, list) or all(
            part.type in ("text", "image") and _is_plain(part) for part in content
        )
    if kind == "image":
        return isinstance(block.source, UnsetType) or _is_encoded(block.source)
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        return not isinstance(block.input, UnsetType)
    return kind in ("text", "thinking", "redacted_thinking") and isinstance(block.citations, UnsetType)


def _is_encoded(source: Raw) -> bool:
    try:
        return _source.decode(source).type == "base64"
    except REFUSED:
        return False


def _of_plain_blocks(content: list[_FactBlock]) -> tuple[LineTexts | None, str | None]:
    tool = None
    found: list[list[str]] = [[], [], [], [], [], []]
    for block in content:
        name = _take(block, found)
        tool = tool or name
    return _columns(found), tool


def _columns(found: list[list[str]]) -> LineTexts | None:
    prose, thinking, tool_input, tool_result, title, other = found
    if not (prose or thinking or tool_input or tool_result or title or other):
        return None
    return (
        "\n".join(prose) or None,
        "\n".join(thinking) or None,
        "\n".join(tool_input) or None,
        "\n".join(tool_result) or None,
        "\n".join(title) or None,
        "\n".join(other) or None,
    )


def _take(block: _FactBlock, found: list[list[str]]) -> str | None:
    """Sort a block's texts into their kinds; the name of the tool where it is a call."""
    kind = block.type
    if kind == "text":
        if block.text:
            found[PROSE].append(block.text)
    elif kind == "thinking":
        if block.thinking:
            found[THINKING].append(block.thinking)
    elif kind == "tool_result":
        parts = block.content if isinstance(block.content, list) else [block.content]
        found[TOOL_RESULT].extend(
            text for part in parts if (text := part.text if isinstance(part, _FactBlock) else part)
        )
    elif not isinstance(block.input, UnsetType):
        name = block.name or ""
        found[TOOL_INPUT].append("\n".join((name, *strings_in(block.input))))
        return name or None
    return None


def of_any_content(content: object, column: int) -> tuple[LineTexts | None, str | None]:
    """Texts of content in any shape: what is not known to be of another kind is ``other``."""
    if isinstance(content, str):
        return one_text(column, content), None
    tool = None
    found: list[list[str]] = [[], [], [], [], [], []]
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, dict):
            name = _take_any(block, found)
            tool = tool or name
        elif isinstance(block, str) and block:
            found[column].append(block)
    return _columns(found), tool


def _take_any(block: dict[str, object], found: list[list[str]]) -> str | None:
    kind, name = block.get("type"), block.get("name")
    if "input" in block:
        name = name if isinstance(name, str) else ""
        found[TOOL_INPUT].append("\n".join((name, *strings_of(block["input"]))))
        return name or None
    if kind == "redacted_thinking":
        return None
    column = OTHER
    for own, spoken in ((PROSE, "text"), (THINKING, "thinking")):
        text = block.get(spoken)
        if kind == spoken and isinstance(text, str):
            found[own].extend([text] if text else [])
            block = {key: value for key, value in block.items() if key != spoken}
    if isinstance(kind, str) and kind.endswith("tool_result"):
        column = TOOL_RESULT
    found[column].extend(strings_of(block, _LABELS))
    return None


def strings_in(raw: Raw | bytes) -> Iterator[str]:
    """Every text inside a JSON value, in order; encoded pictures are no text."""
    return strings_of(loose_value(raw))


def strings_of(value: object, passed_over: frozenset[str] = frozenset()) -> Iterator[str]:
    """Without recursion: the writer of the log decides how deep a value goes."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if value:
                yield value
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        elif isinstance(value, dict):
            is_encoded = value.get("type") == "base64"
            waiting.extend(
                item
                for key, item in reversed(value.items())
                if key not in passed_over and not (is_encoded and key == "data")
            )


def joined(parts: Iterator[str]) -> str | None:
    """Texts as one, a line each; None where there are none."""
    return "\n".join(parts) or None


_BEFORE = tuple((None,) * column for column in range(6))
_AFTER = tuple((None,) * (5 - column) for column in range(6))


def one_text(column: int, text: str | None) -> LineTexts | None:
    """Texts with one column filled; None where there is no text."""
    return (*_BEFORE[column], text, *_AFTER[column]) if text else None  # type: ignore[return-value]  # six by construction


def _facts(line: FactLine, texts: LineTexts | None, response: ResponseUsage | None = None) -> LineFacts:
    return LineFacts(
        line.type or "",
        line.uuid,
        line.parent_uuid,
        milliseconds(line.timestamp),
        line.session_id,
        line.agent_id,
        line.is_sidechain is True,
        not isinstance(line.forked_from, UnsetType) and bytes(line.forked_from) != b"null",
        line.is_meta is True,
        line.cwd,
        line.git_branch,
        line.version,
        texts,
        response,
        None,
        line,
    )


def _usage_of(line: FactLine, message: _FactMessage, tool: str | None) -> ResponseUsage | None:
    model = message.model or line.model
    if message.usage is None or not is_billed(line.type, model):
        return None
    return response_usage(
        message.usage,
        is_sidechain=line.is_sidechain,
        message_id=message.id,
        request_id=line.request_id,
        model=model,
        stop_reason=message.stop_reason,
        tool=tool,
        cost=None if isinstance(line.cost_usd, UnsetType) else bytes(line.cost_usd),
        duration_ms=line.duration_ms,
    )


def progress_usage(data: Raw | UnsetType) -> ResponseUsage | None:
    """A parent repeats some lines of its agents as news; they count only where nothing better is left."""
    if isinstance(data, UnsetType) or b'"usage"' not in bytes(data):
        return None
    try:
        inner = _news.decode(data).message
    except REFUSED:
        return None
    if inner is None or inner.message is None:
        return None
    said = _usage_of(inner, inner.message, None)
    return None if said is None else said_by(said, AGENT_PROGRESS)


def recorded_total(data: bytes) -> RecordedTotal | None:
    """The client's own running total, as a ``cost-state`` line has it."""
    try:
        state = _cost_state.decode(data)
    except REFUSED:
        return None
    try:
        counted = _cost_state_counts.decode(data)
    except REFUSED:
        counted = _CostStateCounts()  # the dollars are said all the same
    by_model = {
        model: (text, counted.model_usage.get(model, _NOTHING).tokens())
        for model, cost in (state.model_usage or {}).items()
        if not isinstance(cost.cost_usd, UnsetType)
        and (text := believable_total(bytes(cost.cost_usd))) is not None
    }
    whole = None
    if not isinstance(state.total_cost_usd, UnsetType):
        whole = believable_total(bytes(state.total_cost_usd))
    started = counted.start_time
    return RecordedTotal(by_model, whole, started if started and 0 < started < _LATEST else None)


def milliseconds(timestamp: str | None) -> int | None:
    """An ISO 8601 time as milliseconds since 1970; one without a zone counts as UTC."""
    if not timestamp:
        return None
    try:
        moment = dt.datetime.fromisoformat(timestamp)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        # Whole milliseconds that have passed: rounding up would carry the last of a day into the next.
        return milliseconds_of(moment)
    except (ValueError, OverflowError):
        return None


def _by_codec(data: bytes) -> LineFacts | None:
    # Imported where such a line is met: the codec's decoders take longer to make than a line to read.
    from recollect.model.line_views.odd_lines import facts_by_codec

    return facts_by_codec(data)
