"""Todo lists of other agents: what their planning tools were last called with, as the lists of a Claude home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recollect.storage.foreign.lines import LineFields
from recollect.storage.session_files import SUBAGENTS, TODO_MARK

# Which argument of the tool holds the list: Codex, Gemini, OpenCode, Qwen.
_TOOLS = {"update_plan": "plan", "write_todos": "todos", "todowrite": "todos", "todo_write": "todos"}
_TEXTS = ("content", "step", "description")


def listed(line: LineFields) -> list[LineFields]:
    """The list that a line sets; none where it sets none."""
    if line.get("type") != "assistant":
        return []
    found: list[LineFields] = []
    for block in line["message"]["content"]:
        given = block.get("input")
        key = _TOOLS.get(str(block.get("name")).lower()) if block.get("type") == "tool_use" else None
        if key is not None and isinstance(given, dict):
            found = list(_items(given.get(key))) or found
    return found


def file_name(log: Path) -> str:
    """The file of a log's list, below the directory of all of them."""
    if log.parent.name != SUBAGENTS:
        return f"{log.stem}{TODO_MARK}{log.stem}.json"
    return f"{log.parent.parent.name}{TODO_MARK}{log.stem.removeprefix('agent-')}.json"


def _items(given: object) -> Iterator[LineFields]:
    for item in given if isinstance(given, list) else ():
        text = (
            next((item[name] for name in _TEXTS if item.get(name)), None) if isinstance(item, dict) else None
        )
        if not isinstance(text, str):
            continue
        status = item.get("status")
        found: LineFields = {"content": text, "status": status if isinstance(status, str) else "pending"}
        yield found | {name: item[name] for name in ("id", "priority") if isinstance(item.get(name), str)}
