"""Compares two lists of messages where ours has stand-ins for notes that the client words itself.

A stand-in matches any text of the client in its place that holds what people or tools supplied to the note.
"""

from __future__ import annotations

import json
import re
from typing import Any

from recollect.model.conversation.client_words import STAND_IN
from tests.oracle.what_is_sent import Messages

_STAND_IN = re.compile(re.escape(STAND_IN) + r"(?P<kind>\w+)\](?: (?P<data>\{[^\n]*\}))?")
# By kind: the fields that people or tools supplied.
SUPPLIED = {
    "deferred_tools_delta": ("addedLines", "removedNames"),
    "diagnostics": ("files",),
    "edited_text_file": ("filename", "snippet"),
    "file": ("filename",),
    "mcp_instructions_delta": ("addedBlocks",),
    "selected_lines_in_ide": ("content",),
    "plan_file_reference": ("planContent",),
}


def is_allowed(ours: Messages | None, allowed: list[Messages | None]) -> bool:
    """Whether our list is one of these, apart from the words of notes."""
    if ours in allowed:
        return True
    return ours is not None and any(one is not None and _matches(ours, one) for one in allowed)


def _matches(ours: Messages, theirs: Messages) -> bool:
    if [one["role"] for one in ours] != [one["role"] for one in theirs]:
        return False
    return all(
        mine == other or _is_same_but_notes(mine, other) for mine, other in zip(ours, theirs, strict=True)
    )


def _is_same_but_notes(mine: dict[str, Any], other: dict[str, Any]) -> bool:
    ours, theirs = _flat(mine["content"]), _flat(other["content"])
    pattern, position = "", 0
    for found in _STAND_IN.finditer(ours):
        pattern += re.escape(ours[position : found.start()]) + "(.*?)"
        position = found.end()
    pattern += re.escape(ours[position:])
    told = re.fullmatch(pattern, theirs, re.DOTALL) if position else None
    if told is None:
        return False
    notes = zip(_STAND_IN.finditer(ours), told.groups(), strict=True)
    return all(text.strip() in words for note, words in notes for text in _supplied(note))


def _supplied(note: re.Match[str]) -> list[str]:
    data = json.loads(note["data"]) if note["data"] else {}
    return [text for name in SUPPLIED.get(note["kind"], ()) for text in _texts(data.get(name))]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else []


def _flat(content: list[dict[str, Any]]) -> str:
    """Blocks as one text: those of the API that hold text as it is, all others as JSON."""
    parts = []
    for block in content:
        if block.get("type") == "text":
            parts.append(block["text"])
        elif block.get("type") == "tool_result" and isinstance(block.get("content"), str):
            rest = {name: value for name, value in block.items() if name != "content"}
            parts += [json.dumps(rest, sort_keys=True), block["content"]]
        elif block.get("type") == "tool_result" and isinstance(block.get("content"), list):
            rest = {name: value for name, value in block.items() if name != "content"}
            parts += [json.dumps(rest, sort_keys=True), _flat(block["content"])]
        else:
            parts.append(json.dumps(block, sort_keys=True))
    return "\n".join(part.rstrip("\n") for part in parts)
