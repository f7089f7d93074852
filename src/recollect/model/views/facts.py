"""What the index keeps of one line, taken in one pass: place in the chain, texts by kind, usage.

One narrow decoder reads all of it at once and skips the rest; the copy of a tool's
result under ``toolUseResult``, file snapshots and recorded requests repeat what stands
elsewhere and are not texts of their own. A line the narrow decoder refuses is read again
by the codec, so that other dialects and odd shapes are found as well.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct, UnsetType, structs

from recollect.model.cost.line_usage import (
    AGENT_PROGRESS,
    FOREIGN_USAGE,
    ResponseUsage,
    believable_total,
    is_believable,
    is_billed,
    response_usage,
    said_by,
)
from recollect.model.lines.blocks import Tokens
from recollect.model.lines.entry import (
    METADATA,
    AiTitle,
    Assistant,
    Attachment,
    CustomTitle,
    Entry,
    Kind,
    Progress,
    Summary,
    System,
    Tag,
    ToolCallBody,
    ToolResultBody,
    UnknownShapeBody,
    User,
)
from recollect.model.lines.ids import milliseconds_of
from recollect.model.lines.json_text import content_of, loose_value
from recollect.model.views.fact_line import (
    AGENT_TOOLS,
    REFUSED,
    RESULT,
    CallBlock,
    FactLine,
    FactMessage,
    fact_line,
    is_of_other_dialect,
    line_of,
    narrow_line,
    raw_of,
    readable_entry,
    text_of,
)

# The columns of the full-text table, in this order.
TEXT_KINDS = ("prose", "thinking", "tool_input", "tool_result", "title", "other")
PROSE, THINKING, TOOL_INPUT, TOOL_RESULT, TITLE, OTHER = range(6)

# Repeats of other lines (a sub-agent's news, sent requests, snapshots, waiting prompts) or plain switches.
WITHOUT_TEXT: frozenset[str] = frozenset(
    METADATA - {Kind.PR_LINK, Kind.FRAME_LINK, Kind.CONTINUED_IN, Kind.BRIDGE_SESSION, Kind.FOREIGN_USAGE}
) | {"progress", "file-history-snapshot", "file-history-delta"}


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


_LATEST = 1 << 50  # milliseconds; what is later is no time
_SPEAKS = ("user", "assistant", "system")
# Within blocks: names of things, and what is text to no one.
_LABELS = frozenset(
    ("type", "id", "tool_use_id", "media_type", "signature", "encrypted_content", "encrypted_index")
)


def facts_of(data: bytes) -> LineFacts | None:
    """What the index keeps of a line; None where it is blank or cannot be read at all."""
    line = narrow_line(data)
    if line is None or (line.session_id is None and is_of_other_dialect(data)):
        return facts_by_codec(data)
    kind = line.type
    if line.message is None and kind not in ("attachment", "progress"):
        if kind == "system" and not isinstance(line.content, UnsetType):
            return _facts(line, one_text(OTHER, joined(strings_in(line.content))))
        if kind == "cost-state":
            return structs.replace(_facts(line, None), recorded=recorded_total(data))
        return _facts(line, None) if kind in WITHOUT_TEXT else facts_by_codec(data)
    if kind == "attachment" and not isinstance(line.attachment, UnsetType):
        return _facts(line, one_text(OTHER, joined(strings_in(line.attachment))))
    if kind == "progress":
        return _facts(line, None, progress_usage(line.data))
    if kind == FOREIGN_USAGE and line.message is not None:
        return _facts(line, None, _usage_of(line, line.message, None))
    if kind not in _SPEAKS:
        return _facts(line, None) if kind in WITHOUT_TEXT else facts_by_codec(data)
    return _spoken_line(line, data)


def usage_facts(data: bytes) -> LineFacts | None:
    """As ``facts_of`` for a reader of usage only; lines that cannot bear on money are passed over unread."""
    if b'"usage"' not in data and b'"cost-state"' not in data and b'"costUSD"' not in data:
        return None
    return facts_of(data)


def _spoken_line(line: FactLine, data: bytes) -> LineFacts | None:
    message = line.message
    assert message is not None  # noqa: S101 - for the type checker: callers check it
    content = None if isinstance(message.content, UnsetType) else loose_value(message.content)
    if content is None and line.type != "system":
        # An answer whose content is gone was paid for all the same. A system line has its text elsewhere.
        return _facts(line, None, _usage_of(line, message, None))
    if not isinstance(content, str) and not (
        isinstance(content, list) and all(isinstance(block, dict) for block in content)
    ):
        return facts_by_codec(data)
    texts, tool = of_any_content(content, OTHER if line.type == "system" else PROSE)
    return _facts(line, texts, _usage_of(line, message, tool))


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
        line.is_forked,
        line.is_meta is True,
        line.cwd,
        line.git_branch,
        line.version,
        texts,
        response,
        decoded=line,
    )


def _usage_of(line: FactLine, message: FactMessage, tool: str | None) -> ResponseUsage | None:
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
        fields = msgspec.json.decode(data, type=dict[str, Raw])
    except REFUSED:
        return None
    inner = narrow_line(bytes(fields.get("message", b"null")))
    if inner is None or inner.message is None:
        return None
    said = _usage_of(inner, inner.message, None)
    return None if said is None else said_by(said, AGENT_PROGRESS)


def recorded_total(data: bytes) -> RecordedTotal | None:
    """The client's own running total, as a ``cost-state`` line has it."""
    try:
        fields = msgspec.json.decode(data, type=dict[str, Raw])
        usage = msgspec.json.decode(fields.get("modelUsage", b"null"), type=dict[str, dict[str, Raw]] | None)
    except REFUSED:
        return None
    by_model = {
        model: (text, _tokens_of(said))
        for model, said in (usage or {}).items()
        if (text := believable_total(bytes(said.get("costUSD", b"")))) is not None
    }
    started = _count(fields, "startTime")
    return RecordedTotal(
        by_model,
        believable_total(bytes(fields.get("totalCostUSD", b""))),
        started if 0 < started < _LATEST else None,
    )


def _tokens_of(said: dict[str, Raw]) -> Tokens:
    """Cache writes that are not said to live an hour live five minutes."""
    writes = _count(said, "cacheCreationInputTokens")
    hour = min(_count(said, "cacheCreationEphemeral1hInputTokens"), writes)
    counts = (
        _count(said, "inputTokens"),
        _count(said, "outputTokens"),
        writes - hour,
        hour,
        _count(said, "cacheReadInputTokens"),
        _count(said, "webSearchRequests"),
    )
    return Tokens(*counts) if all(map(is_believable, counts)) else Tokens()


def _count(fields: dict[str, Raw], name: str) -> int:
    try:
        return msgspec.json.decode(fields.get(name, b"0"), type=int)
    except REFUSED:
        return 0


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


def facts_by_codec(data: bytes) -> LineFacts | None:
    """What the index keeps of a line of any dialect or shape; None where it is blank or cannot be read."""
    entry = readable_entry(data)
    if entry is None:
        return None
    entry = _with_content(entry)
    body, kind = entry.body, str(entry.kind)
    if isinstance(body, UnknownShapeBody) and body.type_name in WITHOUT_TEXT:
        kind = body.type_name
    texts, usage = None if kind in WITHOUT_TEXT else _entry_texts(entry), None
    line = structs.replace(line_of(entry), type=kind)
    if isinstance(body, Progress):
        usage = progress_usage(body.data)
    elif isinstance(body, Assistant):
        called = texts[TOOL_INPUT] if texts else None
        message = body.message
        spoken = FactMessage(message.id, message.model, message.stop_reason, message.usage)
        usage = _usage_of(line, spoken, called.partition("\n")[0] if called else None)
    recorded = recorded_total(entry.raw) if kind == "cost-state" else None
    return structs.replace(_facts(line, texts, usage), recorded=recorded, decoded=None)


def _entry_texts(entry: Entry) -> LineTexts | None:
    body = entry.body
    match body:
        case User() | Assistant():
            return of_any_content(content_of(entry.fields()), PROSE)[0]
        case System(message=None):
            told = None if isinstance(body.content, UnsetType) else joined(strings_in(body.content))
            return one_text(OTHER, told)
        case System():
            return of_any_content(content_of(entry.fields()), OTHER)[0]
        case Attachment():
            return one_text(OTHER, joined(strings_in(body.attachment)))
        case ToolCallBody():
            return one_text(TOOL_INPUT, "\n".join((body.name, *strings_in(body.input))))
        case ToolResultBody():
            told = "" if isinstance(body.content, UnsetType) else "\n".join(strings_in(body.content))
            # One dialect has the words of a failure in the content, the other beside it.
            error = body.error if body.error and body.error not in told else None
            return one_text(TOOL_RESULT, "\n".join(part for part in (told, error) if part))
        case CustomTitle(custom_title=text) | AiTitle(ai_title=text) | Summary(summary=text) | Tag(tag=text):
            return one_text(TITLE, text)
    if entry.kind is Kind.PR_LINK:
        parts = (text_of(entry.fields(), name) for name in ("prRepository", "prUrl"))
        return one_text(OTHER, " ".join(filter(None, parts)))
    rest = {name: value for name, value in entry.fields().items() if name not in _LINK_FIELDS}
    return one_text(OTHER, joined(strings_of(rest)))


_LINK_FIELDS = frozenset(
    ("type", "uuid", "parentUuid", "timestamp", "sessionId", "version", "userType", "cwd", "gitBranch")
)


def _with_content(entry: Entry) -> Entry:
    """A message without content is one that says nothing, and keeps its usage."""
    body, fields = entry.body, entry.fields()
    message = fields.get("message")
    is_spoken = isinstance(body, UnknownShapeBody) and body.type_name in ("user", "assistant")
    if not is_spoken or not isinstance(message, dict) or message.get("content") is not None:
        return entry
    return readable_entry(bytes(raw_of({**fields, "message": {**message, "content": ""}}))) or entry


# `git commit`, also with options of git before the word: `git -C there commit -m …`.
_COMMIT = r"\bgit(?:\s+(?:-[Cc]\s+\S+|--?[\w-]+(?:=\S+)?))*\s+commit(?![\w-])"
_SHELLS = ("Bash", "PowerShell")
# How a mirrored line of another agent begins (agents/lines.py), which no client of Claude writes, and how a result in it
# lists what it changed (agents/blocks.py). In a text the quotes would be escaped.
_MIRRORED, _LISTS = b'{"type":"user","uuid":', b'"changedFiles":'
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


def commits(command: str) -> bool:
    """Whether a command of a shell makes a commit."""
    # The pattern is compiled where it is first needed: few commands have the word.
    return "commit" in command and re.search(_COMMIT, command) is not None


def lists_changes(data: bytes) -> bool:
    """Whether a line of results lists changes of files. Lines of Claude are not searched: most of their bytes are results."""
    return data.startswith(_MIRRORED) and _LISTS in data


def call_events(facts: LineFacts, data: bytes) -> Iterator[tuple[CallBlock, str | None, bool]]:
    """The calls and results of a line, in their order: each with the type of the sub-agent it calls, and whether it commits."""
    line = facts.decoded or fact_line(data)
    for block in () if line is None else line.blocks:
        if block.type == RESULT and block.tool_use_id:
            yield block, None, False
        elif block.type in _CALLS and block.id and block.name:
            yield block, *_purpose(block)


def _purpose(call: CallBlock) -> tuple[str | None, bool]:
    if call.name in _SHELLS and b"commit" in bytes(call.input):
        return None, commits(text_of(loose_value(call.input), "command") or "")
    return text_of(loose_value(call.input), "subagent_type") if call.name in AGENT_TOOLS else None, False
