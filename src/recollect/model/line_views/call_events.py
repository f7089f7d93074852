"""What a line says of tool calls, for counting: calls with their tool, results with their outcome."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct, UnsetType

from recollect.model.line_views.tool_calls import call_line
from recollect.model.line_views.view import REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recollect.model.line_views.facts import LineFacts

# `git commit`, also with options of git before the word: `git -C there commit -m …`.
_COMMIT = r"\bgit(?:\s+(?:-[Cc]\s+\S+|--?[\w-]+(?:=\S+)?))*\s+commit(?![\w-])"
_SHELLS = ("Bash", "PowerShell")
AGENT_TOOLS = ("Task", "Agent")
# How a mirrored line of another agent begins (storage/foreign/lines.py), which no client of Claude writes, and how a result in it
# lists what it changed (storage/foreign/edits.py). In a text the quotes would be escaped.
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


def commits(command: str) -> bool:
    """Whether a command of a shell makes a commit."""
    # The pattern is compiled where it is first needed: few commands have the word.
    return "commit" in command and re.search(_COMMIT, command) is not None


def lists_changes(data: bytes) -> bool:
    """Whether a line of results lists changes of files. Lines of Claude are not searched: most of their bytes are results."""
    return data.startswith(_MIRRORED) and _LISTS in data


def call_events(facts: LineFacts, data: bytes) -> Iterator[CallEvent]:
    """The calls and results of a line, in their order."""
    if facts.decoded is None:
        yield from _of_odd_line(data, facts.at)
        return
    message = facts.decoded.message
    if message is None or not isinstance(message.content, list):
        return
    for block in message.content:
        if block.type == "tool_result":
            if isinstance(block.tool_use_id, str):
                yield CallEvent(block.tool_use_id, facts.at, is_error=block.is_error is True)
        elif block.type in _CALLS and isinstance(block.id, str) and block.name:
            given = b"" if isinstance(block.input, UnsetType) else block.input
            yield _call(block.id, facts.at, block.name, given)


def _of_odd_line(data: bytes, at: int | None) -> Iterator[CallEvent]:
    line = call_line(data)
    if line is None:
        return
    for call in line.calls:
        if call.id:
            yield _call(call.id, at, call.name, call.input)
    for result in line.results:
        if result.tool_use_id:
            yield CallEvent(result.tool_use_id, at, is_error=result.is_error is True)


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
