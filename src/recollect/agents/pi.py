"""Pi, and what writes the same files: a tree of records, of which the last one ends the conversation.

A fork copies records with their ids and times into a file of its own; they are older than the file, which marks them.
"""

from __future__ import annotations

from pathlib import PureWindowsPath
from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.growth import Unit
from recollect.agents.lines import LineFields
from recollect.agents.loose import ANY, COUNT, MOMENT, Fields, Shape
from recollect.agents.records import Begun, LineDialect, Talk, unknown
from recollect.model.lines.ids import derived_uuid, is_uuid

_USAGE: Shape = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "reasoning"), COUNT)
_BLOCK: Shape = {
    **dict.fromkeys(("type", "text", "thinking", "id", "name", "data", "mimeType"), str),
    "arguments": {},
}
_MESSAGE: Shape = {
    **dict.fromkeys(
        ("role", "provider", "model", "responseModel", "responseId", "toolCallId", "toolName"), str
    ),
    **dict.fromkeys(("command", "output", "errorMessage", "stopReason", "summary"), str),
    "content": (str, [_BLOCK]),
    "usage": _USAGE,
    "isError": bool,
    "details": {"patch": str},
    "provenance": {"kind": str},
}
RECORD: dict[str, Shape] = {
    **dict.fromkeys(
        ("type", "id", "parentId", "cwd", "parentSession", "name", "summary", "firstKeptEntryId"), str
    ),
    "timestamp": MOMENT,
    "message": _MESSAGE,
    "content": (str, [_BLOCK]),
    "usage": _USAGE,
    "fromId": ANY,
}
_SILENT = ("model_change", "thinking_level_change", "custom", "label")
_EDITS = ("edit", "write")


def begin(unit: Unit, first: Fields) -> Begun:
    """The first line names the session and its directory; a file without one goes by its name."""
    session = first.get("id") if first.get("type") == "session" else None
    named = unit.path.stem.rpartition("_")[2]
    return Begun(session=session or named, cwd=first.get("cwd") or "", key=unit.path.parent.name)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a record means."""
    kind, voice, memory = record.get("type"), state.voice, state.memory
    voice.at = record.get("timestamp") or voice.at
    if kind == "session":
        memory["begun"], memory["parent"] = voice.at, _session_of(record.get("parentSession") or "")
        return []
    if kind == "session_info":
        return [entry.titled(voice.session, record.get("name") or "") | {entry.IS_MIRRORED: True}]
    if kind in _SILENT:
        _follow(record, state)
        return []
    voice.copied_from = memory.get("parent") if str(voice.at) < str(memory.get("begun") or "") else None
    voice.leaf = _uuid(record.get("parentId"), state) if "parentId" in record else voice.leaf
    if kind == "message":
        return _message(record, record.get("message") or {}, state)
    if kind == "compaction":
        first = _uuid(record.get("firstKeptEntryId"), state)
        kept = None if first is None or voice.leaf is None else (first, voice.leaf)
        return _named(entry.compaction(voice, record.get("summary") or "", kept=kept), record, state)
    if kind == "branch_summary":
        return _named([entry.user(voice, record.get("summary") or "", isMeta=True)], record, state)
    if kind == "custom_message":
        return _named([entry.user(voice, _content(record.get("content")), isMeta=True)], record, state)
    return unknown(kind, state)


def _message(record: Fields, message: dict[str, Any], state: Talk) -> list[LineFields]:
    role, voice = message.get("role"), state.voice
    if role == "user":
        return _named([entry.user(voice, _content(message.get("content")))], record, state)
    if role == "assistant":
        return _answer(record, message, state)
    if role == "toolResult":
        call = message.get("toolCallId") or ""
        line = entry.result(
            voice, call, _content(message.get("content")), is_error=message.get("isError") is True
        )
        changed = [] if message.get("isError") else _changed(state.memory.pop(call, None), message)
        return _named([blocks.with_changes(line, changed)], record, state, message)
    if role == "bashExecution":
        text = f"! {message.get('command')}\n{message.get('output') or ''}"
        return _named([entry.user(voice, text, isMeta=True)], record, state)
    if role in ("custom", "hookMessage", "branchSummary", "compactionSummary"):
        said = message.get("summary") or _content(message.get("content"))
        return _named([entry.user(voice, said, isMeta=True)], record, state)
    return unknown(f"message:{role}", state)


def _answer(record: Fields, message: dict[str, Any], state: Talk) -> list[LineFields]:
    content = list(_blocks(message.get("content")))
    for block in content:
        if block["type"] == "tool_use" and block["name"] in _EDITS:
            state.memory[block["id"]] = block["input"]
    line = entry.assistant(state.voice, message.get("responseModel") or message.get("model"), *content)
    if message.get("errorMessage"):
        failed = entry.note(state.voice, "error", message["errorMessage"], "error")
        return _named([line, failed], record, state, message)
    return _named([line], record, state, message)


def _named(
    made: list[LineFields], record: Fields, state: Talk, message: dict[str, Any] | None = None
) -> list[LineFields]:
    """The lines of a record, which is known by the id of its last one; and the model call that it tells of."""
    voice = state.voice
    state.memory.setdefault("uuids", {})[record.get("id")] = voice.leaf
    used = (message or record).get("usage")
    if not isinstance(used, dict) or not any(isinstance(count, int) and count for count in used.values()):
        return made
    source = message or {}
    counts = {
        "input": used.get("input") or 0,
        "output": used.get("output") or 0,
        "cache_read": used.get("cacheRead") or 0,
        "cache_write": used.get("cacheWrite") or 0,
    }
    key = entry.key_of("pi", source.get("responseId") or record.get("id"), record.get("timestamp"), counts)
    about = {"output_tokens_details": {"thinking_tokens": used["reasoning"]}} if used.get("reasoning") else {}
    model = source.get("responseModel") or source.get("model") or state.memory.get("model")
    state.memory["model"] = model
    return [*made, entry.usage(voice, key, model, counts, **about)]


def _uuid(name: object, state: Talk) -> str | None:
    """The id of the entry that a record became."""
    uuid: str | None = state.memory.get("uuids", {}).get(name)
    return uuid


def _follow(record: Fields, state: Talk) -> None:
    """A record that is no entry: what follows it follows what it follows."""
    if record.get("id"):
        parent = _uuid(record.get("parentId"), state)
        state.memory.setdefault("uuids", {})[record["id"]] = parent


def _session_of(path: str) -> str | None:
    """The session whose file a path names."""
    name = PureWindowsPath(path).stem.rpartition("_")[2]
    return derived_uuid(name, 0) if name and not is_uuid(name) else name or None


def _content(content: object) -> object:
    return content if isinstance(content, str) else list(_blocks(content))


def _blocks(content: object) -> list[LineFields]:
    result: list[LineFields] = []
    said: list[dict[str, Any]] = content if isinstance(content, list) else [{"type": "text", "text": content}]
    for block in said:
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            result.append({"type": "text", "text": block["text"]})
        elif kind == "thinking" and block.get("thinking"):
            result.append(blocks.thinking(block["thinking"]))
        elif kind == "toolCall":
            result.append(blocks.tool_use(block.get("id"), block.get("name"), block.get("arguments")))
        elif kind == "image":
            source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
            result.append({"type": "image", "source": source})
    return result


def _changed(given: object, message: dict[str, Any]) -> list[LineFields]:
    """What an edit or a write changed, by what it was called with."""
    if not isinstance(given, dict):
        return []
    path, patch = given.get("path") or given.get("file_path"), (message.get("details") or {}).get("patch")
    if "content" in given:
        return blocks.written(path, given["content"], diff=patch)
    edits = given.get("edits")
    asked = edits if isinstance(edits, list) else [given]
    steps = [(one.get("oldText"), one.get("newText"), False) for one in asked if isinstance(one, dict)]
    return blocks.replaced(path, steps, diff=patch)


DIALECT = LineDialect((("agent/sessions/*", ".jsonl"),), RECORD, begin, lines)
