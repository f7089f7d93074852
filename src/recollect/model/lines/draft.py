"""Content to be written, before it has an id, a time and a place in a conversation.

A ``Draft`` is content alone; a ``Stamp`` adds everything else. The two become lines of bytes, without
newlines, in the dialect of the target log. There is no clock and no randomness here: the caller supplies the
stamp, so the same draft and stamp always give the same bytes and a repeated append can be recognised.

``claude_line`` promises that clients 2.0.76, 2.1.197 and 2.1.325 load the line: every field that they fail
without is always written (``model``, the four token counts, ``message.id``, a content list for answers). A
draft for which this promise cannot be kept is refused with ``UsageError`` before any byte is stored, and
every line is first read back by our own codec.

``flat_lines`` writes all content. Bookkeeping that the flat dialect cannot hold is left out: response ids,
``toolUseResult``, the lifetime of cache writes, the marks of meta and sub-agent lines. A system note is
content, not bookkeeping, so it is refused there. To turn whole logs into another dialect with a list of
losses, use ``convert``.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from recollect.model.lines.blocks import (
    Block,
    DocumentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    block_list,
    decode_block,
)
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Damage, Line, brief_repr
from recollect.model.lines.dialects import FORMAT_VERSION
from recollect.model.lines.entry import Entry, Kind
from recollect.model.lines.ids import derived_id, derived_uuid, is_uuid
from recollect.model.lines.json_text import encoded, given, json_of, refusal

Content = str | Sequence[Block | Mapping[str, object]]

_MILLISECOND = dt.timedelta(milliseconds=1)
_SURROGATE = re.compile("[\ud800-\udfff]")
_CHAIN_TYPES = frozenset(
    ["user", "assistant", "system", "attachment", "progress", "tool_call", "tool_use", "tool_result"]
)
_TIMED_METADATA = frozenset([Kind.PR_LINK, Kind.QUEUE_OPERATION])
_SET_BY_THE_STAMP = ("type", "uuid", "parentUuid", "sessionId", "session_id")
_SOURCES = ("cli", "api", "agent")
_LONGEST_MS = 10**10
_LEVELS = ("info", "notice", "warning", "error", "suggestion")
_ONLY_ANSWERED = (ToolUseBlock, ThinkingBlock, RedactedThinkingBlock)
_ONLY_ASKED = (ToolResultBlock, ImageBlock, DocumentBlock)


class Draft(Struct, frozen=True, kw_only=True):
    """Content to be written. Create one with the functions below."""

    __repr__ = brief_repr


class UserDraft(Draft, frozen=True, kw_only=True):
    """A prompt, or the results of calls."""

    content: str | tuple[Block, ...]
    is_meta: bool = False
    tool: str = ""
    tool_use_result: Raw | UnsetType = UNSET
    source: str | None = None
    duration_ms: float | None = None


class AssistantDraft(Draft, frozen=True, kw_only=True):
    """An answer, or one line of it."""

    content: tuple[Block, ...]
    model: str
    usage: Usage | None = None
    message_id: str | None = None
    request_id: str | None = None
    stop_reason: str | None = None


class SystemDraft(Draft, frozen=True, kw_only=True):
    """A note of the client: part of the conversation, visible to people but not to the model."""

    content: str
    level: str = "info"


class MetadataDraft(Draft, frozen=True, kw_only=True):
    """A line about the session as a whole."""

    type_name: str
    fields: dict[str, Raw]


class Stamp(Struct, frozen=True, kw_only=True):
    """Ids, time and context. ``parent_uuid`` is the entry this one follows, None for a first one."""

    uuid: str
    parent_uuid: str | None
    session_id: str
    timestamp: dt.datetime
    cwd: str
    version: str
    git_branch: str = ""
    is_sidechain: bool = False
    agent_id: str | None = None


# ---- drafts ----------------------------------------------------------------------------------------------


def user(content: Content, *, is_meta: bool = False, source: str | None = None) -> UserDraft:
    """A prompt. ``is_meta`` marks text the user did not type: sent to the model, hidden from people.

    ``source`` is where it came from: "cli", "api" or "agent"; only the flat dialect stores it.
    """
    if source is not None and source not in _SOURCES:
        raise refusal(f"user: the source {source!r} is not known", f"use one of {', '.join(_SOURCES)}")
    said = content if isinstance(content, str) else _blocks("user", content)
    _refuse_empty("user", said)
    if not isinstance(said, str):
        _refuse_blocks("user", said, _ONLY_ANSWERED)
    return UserDraft(content=said, is_meta=is_meta, source=source)


def assistant(
    content: Content,
    *,
    model: str,
    usage: Usage | None = None,
    message_id: str | None = None,
    request_id: str | None = None,
    stop_reason: str | UnsetType | None = UNSET,
) -> AssistantDraft:
    """An answer of ``model``.

    Lines of one response share ``message_id`` and repeat ``usage``; it is counted once. Without ``usage`` the
    counts are written as 0, as the client does for answers it makes up itself. ``stop_reason`` follows from
    the content if not given.
    """
    said: tuple[Block, ...] = (
        (TextBlock(content),) if isinstance(content, str) else _blocks("assistant", content)
    )
    _refuse_empty("assistant", said)
    _refuse_blocks("assistant", said, _ONLY_ASKED)
    if not model:
        raise refusal("assistant: model is empty", "name the model that answered, or '<synthetic>'")
    if isinstance(stop_reason, UnsetType):
        stop_reason = "tool_use" if any(isinstance(block, ToolUseBlock) for block in said) else "end_turn"
    return AssistantDraft(
        content=said,
        model=model,
        usage=usage,
        message_id=message_id,
        request_id=request_id,
        stop_reason=stop_reason,
    )


def tool_result(
    tool_use_id: str,
    content: Content = "",
    is_error: bool = False,
    tool_use_result: object = None,
    *,
    tool: str = "",
    duration_ms: float | None = None,
) -> UserDraft:
    """The result of a call. ``tool`` is its name, ``duration_ms`` how long it ran; only the flat dialect stores both."""
    _refuse_nameless("tool_result", tool_use_id=tool_use_id)
    if duration_ms is not None and not 0 <= duration_ms < _LONGEST_MS:
        raise refusal(f"tool_result: {duration_ms} ms is no duration", "give milliseconds, 0 or more")
    body = (
        json_of("tool_result", content)
        if isinstance(content, str)
        else block_list(_blocks("tool_result", content))
    )
    block = ToolResultBlock(tool_use_id, body, True if is_error else None)
    rich = UNSET if tool_use_result is None else json_of("toolUseResult", tool_use_result)
    return UserDraft(content=(block,), tool=tool, tool_use_result=rich, duration_ms=duration_ms)


def system(content: str, *, level: str = "info") -> SystemDraft:
    """A note for people, not sent to the model. The flat dialect cannot hold it."""
    _refuse_empty("system", content)
    if level not in _LEVELS:
        raise refusal(f"system: clients do not know the level {level!r}", f"use one of {', '.join(_LEVELS)}")
    return SystemDraft(content=content, level=level)


def custom_title(title: str) -> MetadataDraft:
    """The user's title for the session; "" clears it."""
    return metadata(Kind.CUSTOM_TITLE, customTitle=title)


def tag(name: str) -> MetadataDraft:
    """The user's tag for the session; "" clears it."""
    return metadata(Kind.TAG, tag=name)


def metadata(type_name: str, /, **fields: object) -> MetadataDraft:
    """Any other line about the session, with its fields under their names on disk.

    Data of other programs belongs here too, under a type of its own: clients ignore unknown types that are
    not links of the conversation.
    """
    if not type_name or type_name in _CHAIN_TYPES:
        raise refusal(
            f"metadata: {type_name!r} is part of a conversation", "use user, assistant, tool_result, system"
        )
    taken = [name for name in _SET_BY_THE_STAMP if name in fields]
    if taken:
        raise refusal(f"{type_name}: {taken[0]} is set by recollect", "leave it out")
    return MetadataDraft(
        type_name=str(type_name),
        fields={name: json_of(f"{type_name}.{name}", value) for name, value in fields.items()},
    )


# ---- blocks ----------------------------------------------------------------------------------------------


def text(words: str) -> TextBlock:
    """A block of plain text."""
    return TextBlock(words)


def thinking(words: str, signature: str | None = None) -> ThinkingBlock:
    """Reasoning. The API only takes it back with the signature it came with."""
    return ThinkingBlock(words, signature)


def tool_use(call_id: str, name: str, arguments: Mapping[str, object]) -> ToolUseBlock:
    """A tool call requested by the model."""
    _refuse_nameless("tool_use", id=call_id, name=name)
    return ToolUseBlock(call_id, name, json_of(f"input of {name}", dict(arguments)))


def image(data: bytes, media_type: str) -> ImageBlock:
    """A picture, from the bytes of its file."""
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode("ascii")}
    return ImageBlock(json_of("image", source))


# ---- lines -----------------------------------------------------------------------------------------------


def claude_line(draft: Draft, stamp: Stamp) -> bytes:
    """The draft as one line of the claude dialect, without its newline."""
    match draft:
        case UserDraft():
            fields = _user_fields(draft, stamp)
        case AssistantDraft():
            fields = _assistant_fields(draft, stamp)
        case SystemDraft():
            fields = {
                **_context(stamp),
                "type": "system",
                "uuid": stamp.uuid,
                "timestamp": iso_time(stamp.timestamp),
            }
            fields |= {
                "subtype": "informational",
                "content": draft.content,
                "isMeta": False,
                "level": draft.level,
            }
        case MetadataDraft():
            # ``type`` comes first: list tools find a tag only in lines that begin with ``{"type":"tag"``.
            fields = {"type": draft.type_name, **draft.fields, "sessionId": stamp.session_id}
            if draft.type_name in _TIMED_METADATA:
                fields.setdefault("timestamp", iso_time(stamp.timestamp))
        case _:
            raise TypeError(f"{type(draft).__name__} is not a draft")
    return _read_back(encoded(fields))


def claude_lines(draft: Draft, stamp: Stamp) -> list[bytes]:
    """The draft as the client lays it out: one line per block, each the child of the one before.

    Clients also load several blocks on one line, but 2.0.76 then writes that line and all following ones a
    second time, block by block, with other ids. The first line has the stamp's id and time; each further one
    a derived id and one millisecond more. Use id and time of the last line for what comes next.
    """
    first, lines = stamp.uuid, []
    for piece in _one_block_each(draft, stamp):
        lines.append(claude_line(piece, stamp))
        stamp = msgspec.structs.replace(
            stamp,
            uuid=derived_uuid(first, len(lines)),
            parent_uuid=stamp.uuid,
            timestamp=stamp.timestamp + _MILLISECOND,
        )
    return lines


def flat_lines(draft: Draft, stamp: Stamp) -> list[bytes]:
    """The draft in the flat dialect: the message first, then one line for each call or result.

    The first line has the stamp's id, each further one a derived id. Text alone is written as text; with
    other blocks, the list is written unchanged. The dialect has no metadata: titles and tags keep their own
    form.
    """
    if isinstance(draft, MetadataDraft):
        return [claude_line(draft, stamp)]
    _check_chain(stamp)
    match draft:
        case UserDraft():
            lines = _flat_user(draft, stamp)
        case AssistantDraft():
            lines = _flat_assistant(draft, stamp)
        case SystemDraft():
            raise refusal(
                "system: the flat dialect cannot hold a note of the client",
                "leave it out, or keep the session in a store with layout='claude'",
            )
        case _:
            raise TypeError(f"{type(draft).__name__} is not a draft")
    return [
        _read_back(
            encoded(
                msgspec.structs.replace(
                    line,
                    uuid=derived_uuid(stamp.uuid, n) if n else stamp.uuid,
                    format_version=FORMAT_VERSION,
                )
            )
        )
        for n, line in enumerate(lines)
    ]


def iso_time(moment: dt.datetime) -> str:
    """A moment as the clients write it: UTC, milliseconds, ``Z``. A time without a zone counts as UTC."""
    utc = moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)
    return utc.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


# ---- claude ----------------------------------------------------------------------------------------------


def _one_block_each(draft: Draft, stamp: Stamp) -> list[Draft]:
    content = draft.content if isinstance(draft, UserDraft | AssistantDraft) else ""
    if isinstance(content, str) or len(content) < 2:
        return [draft]
    if isinstance(draft, AssistantDraft):
        seed = draft.message_id or draft.request_id or stamp.uuid
        draft = msgspec.structs.replace(draft, message_id=draft.message_id or derived_id("msg_", seed))
    return [msgspec.structs.replace(draft, content=(block,)) for block in content]


def _context(stamp: Stamp) -> dict[str, Any]:
    """The fields every link of a conversation starts with, in the client's order."""
    _check_chain(stamp)
    fields: dict[str, Any] = {
        "parentUuid": stamp.parent_uuid,
        "isSidechain": stamp.is_sidechain,
        "userType": "external",
        # Directory and branch may hold bytes that are not UTF-8. They are only descriptive: losing a
        # character of them is better than losing the entry.
        "cwd": _SURROGATE.sub("\ufffd", stamp.cwd),
        "sessionId": stamp.session_id,
        "version": stamp.version,
        "gitBranch": _SURROGATE.sub("\ufffd", stamp.git_branch),
    }
    if stamp.agent_id is not None:
        fields["agentId"] = stamp.agent_id
    return fields


def _user_fields(draft: UserDraft, stamp: Stamp) -> dict[str, Any]:
    fields = _context(stamp)
    content = draft.content if isinstance(draft.content, str) else block_list(draft.content)
    fields |= {"type": "user", "message": {"role": "user", "content": content}}
    if draft.is_meta:
        fields["isMeta"] = True
    fields |= {"uuid": stamp.uuid, "timestamp": iso_time(stamp.timestamp)}
    if not isinstance(draft.tool_use_result, UnsetType):
        fields["toolUseResult"] = draft.tool_use_result
    return fields


def _assistant_fields(draft: AssistantDraft, stamp: Stamp) -> dict[str, Any]:
    # One seed for both ids: lines that share either belong to one response and are counted once.
    seed = draft.message_id or draft.request_id or stamp.uuid
    message = {
        "id": draft.message_id or derived_id("msg_", seed),
        "type": "message",
        "role": "assistant",
        "model": draft.model,
        "content": block_list(draft.content),
        "stop_reason": draft.stop_reason,
        "stop_sequence": None,
        "usage": _usage_fields(draft.usage or Usage()),
    }
    fields = _context(stamp)
    fields |= {"type": "assistant", "message": message}
    fields["requestId"] = draft.request_id or derived_id("req_", seed)
    return fields | {"uuid": stamp.uuid, "timestamp": iso_time(stamp.timestamp)}


def _usage_fields(usage: Usage) -> dict[str, Any]:
    counts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    fields: dict[str, Any] = {name: getattr(usage, name) or 0 for name in counts}
    return fields | {name: value for name, value in given(usage).items() if name not in counts}


class FlatLine(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A line of the flat dialect: a prompt, an answer, a call, or its result or error."""

    type: str
    tool: str | None = None
    content: Raw | UnsetType = UNSET
    arguments: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: str | None = None
    timestamp: str | None = None
    metadata: dict[str, str] | None = None
    usage: dict[str, int] | None = None
    model: str | None = None
    stop_reason: str | None = field(default=None, name="stopReason")
    duration_ms: float | int | None = None
    tool_call_id: str | None = field(default=None, name="toolCallId")
    uuid: str | None = None
    format_version: int | None = field(default=None, name="formatVersion")


# ---- flat ------------------------------------------------------------------------------------------------


def _flat_user(draft: UserDraft, stamp: Stamp) -> list[FlatLine]:
    time = iso_time(stamp.timestamp)
    blocks = (draft.content,) if isinstance(draft.content, str) else draft.content
    lines = [
        msgspec.structs.replace(flat_result(block, draft.tool), timestamp=time, duration_ms=draft.duration_ms)
        for block in blocks
        if isinstance(block, ToolResultBlock)
    ]
    said = tuple(block for block in blocks if not isinstance(block, ToolResultBlock))
    if said:
        content = json_of("user", draft.content) if isinstance(draft.content, str) else _flat_content(said)
        source = {} if draft.source is None else {"source": draft.source}
        origin = {**source, "sessionId": stamp.session_id}
        lines.append(FlatLine(type="user", content=content, timestamp=time, metadata=origin))
    return lines


def _flat_assistant(draft: AssistantDraft, stamp: Stamp) -> list[FlatLine]:
    time = iso_time(stamp.timestamp)
    calls = [block for block in draft.content if isinstance(block, ToolUseBlock)]
    said = tuple(block for block in draft.content if not isinstance(block, ToolUseBlock))
    lines: list[FlatLine] = []
    if said or draft.usage is not None:
        answer = FlatLine(
            type="assistant",
            content=_flat_content(said),
            timestamp=time,
            usage=flat_usage(draft.usage),
            model=draft.model,
            stop_reason=draft.stop_reason,
        )
        lines.append(answer)
    return [*lines, *(msgspec.structs.replace(flat_call(call), timestamp=time) for call in calls)]


def flat_usage(usage: Usage | None) -> dict[str, int]:
    """The four counts under the names of the flat dialect."""
    usage = usage or Usage()
    return {
        "input_tokens": usage.input_tokens or 0,
        "output_tokens": usage.output_tokens or 0,
        "cache_creation_tokens": usage.cache_creation_input_tokens or 0,
        "cache_read_tokens": usage.cache_read_input_tokens or 0,
    }


def flat_call(block: ToolUseBlock) -> FlatLine:
    return FlatLine(type="tool_call", tool=block.name, arguments=block.input, tool_call_id=block.id or None)


def flat_result(block: ToolResultBlock, tool: str) -> FlatLine:
    """A result on a line of its own. ``tool`` is written even when empty: it identifies the dialect."""
    result: Raw | UnsetType = Raw(b'""') if isinstance(block.content, UnsetType) else block.content
    error = None
    if block.is_error:
        error = block.text()
        if all(isinstance(part, TextBlock) for part in block.blocks()):
            result = UNSET  # the text is complete; only a picture justifies writing it twice
    return FlatLine(type="tool_result", tool=tool, result=result, error=error, tool_call_id=block.tool_use_id)


def _flat_content(blocks: tuple[Any, ...]) -> Raw:
    if len(blocks) > 1 or not all(isinstance(block, TextBlock) for block in blocks):
        return block_list(blocks)
    return json_of("content", "".join(block.text for block in blocks if isinstance(block, TextBlock)))


# ---- what is refused -------------------------------------------------------------------------------------


def _blocks(what: str, content: object) -> tuple[Block, ...]:
    """Blocks as they are, and mappings in Messages API form; anything else is refused, naming its position."""
    if not isinstance(content, Sequence):
        raise refusal(f"{what}: {type(content).__name__} is not content", "give text, or a list of blocks")
    return tuple(_block(what, number, item) for number, item in enumerate(content))


def _block(what: str, number: int, item: object) -> Block:
    if isinstance(item, Mapping):
        return decode_block(json_of(f"{what}: item {number}", dict(item)))
    if isinstance(item, Block):
        return item
    raise refusal(
        f"{what}: item {number} is {type(item).__name__}, not a block",
        "use text(…), tool_use(…) or a mapping",
    )


def _refuse_empty(what: str, content: str | tuple[Block, ...]) -> None:
    if not content or (not isinstance(content, str) and TextBlock("") in content):
        raise refusal(f"{what}: it is empty", "clients show '(no content)' for it; leave it out")


def _refuse_blocks(what: str, blocks: tuple[Block, ...], wrong: tuple[type, ...]) -> None:
    for block in blocks:
        if isinstance(block, wrong):
            name = type(block).__name__
            raise refusal(
                f"{what}: cannot hold a {name}", "the API refuses it there; put it into the other role"
            )


def _refuse_nameless(what: str, **names: str) -> None:
    for name, value in names.items():
        if not value:
            raise refusal(f"{what}: {name} is empty", "it connects a call with its result; give one")


def _check_chain(stamp: Stamp) -> None:
    if not is_uuid(stamp.uuid):
        raise refusal(f"uuid {stamp.uuid!r} is not a lower-case UUID", "make one with uuid.uuid4()")
    if stamp.parent_uuid == stamp.uuid:
        raise refusal(
            f"entry {stamp.uuid} would follow itself", "client 2.0.76 hangs on that; name its parent"
        )
    if stamp.parent_uuid == "":
        raise refusal("parent_uuid is empty", "use None for the first entry of a conversation")


def _read_back(line: bytes) -> bytes:
    """The line, once our own codec has read it."""
    # JSON strings never hold a bare newline, so one here is between the tokens of JSON that the caller
    # supplied.
    with contextlib.suppress(msgspec.DecodeError):
        line = msgspec.json.format(line, indent=-1) if b"\n" in line else line
    found = decode(Line(line))
    if isinstance(found, Damage):
        raise refusal(
            f"the line could not be read back: {found.code}, {found.detail}", "give simpler content"
        )
    if not isinstance(found, Entry) or found.kind is Kind.UNKNOWN_SHAPE:
        problem = getattr(found.body, "problem", "") if isinstance(found, Entry) else "blank"
        raise refusal(f"the line would not match its type: {problem}", "give that field")
    return line
