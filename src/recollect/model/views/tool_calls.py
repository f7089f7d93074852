"""The calls a line asks for and the results it brings, inputs and results undecoded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from recollect.model.lines.entry import Entry, ToolCallBody
from recollect.model.lines.json_text import content_of
from recollect.model.views.facts import LineFacts
from recollect.model.views.links import REFUSED, SessionView, links_of, raw_of, text_of

CALL, RESULT = "tool_use", "tool_result"
_SPOKEN = ("user", "assistant")
# Types of lines that are calls themselves, in other dialects.
_ALONE = ("tool_use", "tool_call")


class CallBlock(Struct, frozen=True, gc=False):
    """A block of content, with the fields of calls and results."""

    type: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""
    is_error: bool | None = None
    content: Raw = Raw(b"null")


class CallMessage(Struct, frozen=True, gc=False):
    """Content that is blocks; text alone holds no calls."""

    content: list[CallBlock]


class CallLine(Struct, rename="camel", frozen=True, gc=False):
    """Blocks, and where and when they were written."""

    message: CallMessage
    type: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    session_id: str | None = None
    tool_use_result: Raw | None = None  # what the client itself kept of a result

    @property
    def calls(self) -> list[CallBlock]:
        """What is asked for; a call without a name is none."""
        is_said = self.type in _SPOKEN or self.type in _ALONE
        return [one for one in self.message.content if one.type == CALL and one.name] if is_said else []

    @property
    def results(self) -> list[CallBlock]:
        """What calls gave back."""
        return [one for one in self.message.content if one.type == RESULT] if self.type in _SPOKEN else []


def _of_entry(entry: Entry) -> CallLine:

    body, links = entry.body, links_of(entry)
    content = content_of(entry.fields())
    blocks = [_block(one) for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    if isinstance(body, ToolCallBody):
        blocks = [CallBlock(CALL, body.call_id or "", body.name, body.input)]
    kept = entry.fields().get("toolUseResult")
    return CallLine(
        CallMessage(blocks),
        links["type"],
        links["timestamp"],
        links["cwd"],
        links["session_id"],
        None if kept is None else raw_of(kept),
    )


def _block(fields: dict[str, Any]) -> CallBlock:
    is_error = fields.get("is_error")
    return CallBlock(
        text_of(fields, "type") or "",
        text_of(fields, "id") or "",
        text_of(fields, "name") or "",
        raw_of(fields.get("input", {})),
        text_of(fields, "tool_use_id") or "",
        is_error if isinstance(is_error, bool) else None,
        raw_of(fields.get("content")),
    )


call_line = SessionView(CallLine, _of_entry)


def call_ids(data: bytes) -> tuple[str, ...]:
    """The ids of the tool calls in a line of the model."""
    return tuple(one.id for one in _blocks(data) if one.type == CALL and one.id)


def has_more_than_results(data: bytes) -> bool:
    """Whether a line with results has blocks of another type beside them."""
    return any(one.type != RESULT for one in _blocks(data))


def _blocks(data: bytes) -> list[CallBlock]:
    seen = call_line(data)
    return [] if seen is None else seen.message.content


# `git commit`, also with options of git before the word: `git -C there commit -m …`.
_COMMIT = r"\bgit(?:\s+(?:-[Cc]\s+\S+|--?[\w-]+(?:=\S+)?))*\s+commit(?![\w-])"
_SHELLS = ("Bash", "PowerShell")
AGENT_TOOLS = ("Task", "Agent")
# How a mirrored line of another agent begins (agents/lines.py), which no client of Claude writes, and how a result in it
# lists what it changed (agents/blocks.py). In a text the quotes would be escaped.
_MIRRORED, _LISTS = b'{"type":"user","uuid":', b'"changedFiles":'
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


class CallEvent(Struct, frozen=True, gc=False):
    """A call, or a result (``tool`` is None). ``kind`` is the type of a sub-agent that is called."""

    id: str
    at: int | None
    tool: str | None = None
    kind: str | None = None
    is_commit: bool = False
    is_error: bool = False


class _NarrowInput(Struct, gc=False):
    command: str | None = None
    subagent_type: str | None = None


_input = msgspec.json.Decoder(_NarrowInput)
_block_list = msgspec.json.Decoder(list[CallBlock])


def commits(command: str) -> bool:
    """Whether a command of a shell makes a commit."""
    # The pattern is compiled where it is first needed: few commands have the word.
    return "commit" in command and re.search(_COMMIT, command) is not None


def lists_changes(data: bytes) -> bool:
    """Whether a line of results lists changes of files. Lines of Claude are not searched: most of their bytes are results."""
    return data.startswith(_MIRRORED) and _LISTS in data


def call_events(facts: LineFacts, data: bytes) -> Iterator[CallEvent]:
    """The calls and results of a line, in their order."""
    for block in _blocks_of(facts, data):
        if block.type == RESULT and block.tool_use_id:
            yield CallEvent(block.tool_use_id, facts.at, is_error=block.is_error is True)
        elif block.type in _CALLS and block.id and block.name:
            yield _call(block.id, facts.at, block.name, block.input)


def _blocks_of(facts: LineFacts, data: bytes) -> list[CallBlock]:
    if facts.decoded is None:
        line = call_line(data)
        return [] if line is None else [*line.calls, *line.results]
    content = UNSET if facts.decoded.message is None else facts.decoded.message.content
    if isinstance(content, UnsetType) or not bytes(content).startswith(b"["):
        return []
    try:
        return _block_list.decode(content)
    except REFUSED:
        return _blocks(data)


def _call(name: str, at: int | None, tool: str, given: Raw | bytes) -> CallEvent:
    if tool in _SHELLS and b"commit" in bytes(given):
        return CallEvent(name, at, tool, None, commits(_narrow(given).command or ""))
    if tool in AGENT_TOOLS:
        return CallEvent(name, at, tool, _narrow(given).subagent_type)
    return CallEvent(name, at, tool)


def _narrow(given: Raw | bytes) -> _NarrowInput:
    try:
        return _input.decode(given)
    except REFUSED:
        return _NarrowInput()
