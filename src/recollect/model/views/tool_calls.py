"""The calls a line asks for and the results it brings, and what the index keeps of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recollect.model.lines.json_text import loose_value
from recollect.model.views.fact_line import CALL, RESULT, CallBlock, fact_line, text_of
from recollect.model.views.facts import LineFacts


def call_ids(data: bytes) -> tuple[str, ...]:
    """The ids of the tool calls in a line of the model."""
    return tuple(one.id for one in _blocks(data) if one.type == CALL and one.id)


def has_more_than_results(data: bytes) -> bool:
    """Whether a line with results has blocks of another type beside them."""
    return any(one.type != RESULT for one in _blocks(data))


def _blocks(data: bytes) -> list[CallBlock]:
    line = fact_line(data)
    return [] if line is None else line.blocks


# `git commit`, also with options of git before the word: `git -C there commit -m …`.
_COMMIT = r"\bgit(?:\s+(?:-[Cc]\s+\S+|--?[\w-]+(?:=\S+)?))*\s+commit(?![\w-])"
_SHELLS = ("Bash", "PowerShell")
AGENT_TOOLS = ("Task", "Agent")
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
    for block in _blocks(data) if facts.decoded is None else facts.decoded.blocks:
        if block.type == RESULT and block.tool_use_id:
            yield block, None, False
        elif block.type in _CALLS and block.id and block.name:
            yield block, *_purpose(block)


def _purpose(call: CallBlock) -> tuple[str | None, bool]:
    if call.name in _SHELLS and b"commit" in bytes(call.input):
        return None, commits(text_of(loose_value(call.input), "command") or "")
    return text_of(loose_value(call.input), "subagent_type") if call.name in AGENT_TOOLS else None, False
