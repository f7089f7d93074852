"""Kimi CLI: the events of each session, those of its sub-agents among them; its title stands beside.

Arguments of a call go on in later events: it is told when they are whole, or when the step ends. The directory is told only by
its MD5, which a list of all directories explains; the model is told nowhere. Sessions without events (the first versions) are not read.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.growth import Unit, content, whole_document
from recollect.agents.lines import LineFields, Voice
from recollect.agents.loose import COUNT, NUMBER, Fields, Shape, parsed
from recollect.agents.mirror import AgentMirror
from recollect.agents.records import Begun, LineDialect, Talk, millis, unknown
from recollect.model.lines.json_text import loose_value
from recollect.system.peek import ReadProblems

_PART: Shape = {"type": str, "text": str}
_COUNTS = {
    "input": "input_other",
    "cache_read": "input_cache_read",
    "cache_write": "input_cache_creation",
    "output": "output",
}
_SHOWN: Shape = dict.fromkeys(("type", "path", "old_text", "new_text"), str)
_PAYLOAD: dict[str, Shape] = {
    **dict.fromkeys(("type", "text", "think", "id", "arguments_part", "tool_call_id", "message_id"), str),
    "user_input": (str, [_PART]),
    "function": {"name": str, "arguments": str},
    "return_value": {"is_error": bool, "output": (str, [_PART]), "message": str, "display": [_SHOWN]},
    "token_usage": dict.fromkeys(_COUNTS.values(), COUNT),
    **dict.fromkeys(("task_tool_call_id", "parent_tool_call_id"), str),
}
_EVENT: Shape = {"type": str, "payload": _PAYLOAD}
_RECORD: dict[str, Shape] = {
    "type": str,
    "timestamp": NUMBER,
    "message": {"type": str, "payload": {**_PAYLOAD, "event": _EVENT}},
}
_WIRE, _STATE = "wire.jsonl", "state.json"
_DEPTH = 3  # of a file of a session, below the home
# What comes between the parts of a call, and does not end it.
_AMID = ("ToolResult", "ApprovalRequest", "ApprovalResponse", "ApprovalRequestResolved", "QuestionRequest")
_SILENT = (
    *_AMID,
    "TurnEnd",
    "StepBegin",
    "StepInterrupted",
    "StepRetry",
    "CompactionEnd",
    "QuestionResponse",
)


def begin(unit: Unit, first: Fields) -> Begun:
    """A directory is a session; the one above it is named after the MD5 of where the session works."""
    place = unit.path.parent
    listed = place.parents[2] / "kimi.json"
    said = parsed(content(listed)) if listed.is_file() else None
    rows = said.get("work_dirs") if isinstance(said, dict) else None
    known = [row.get("path") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    cwd = next((path for path in known if isinstance(path, str) and _md5(path) == place.parent.name), "")
    return Begun(session=place.name, cwd=cwd, key=place.parent.name)


def _md5(path: str) -> str:
    return hashlib.md5(path.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What an event means. Those of a sub-agent are lines of its own, beside one that keeps the record."""
    message, voice = record.get("message") or {}, state.voice
    voice.at = millis(record.get("timestamp")) or voice.at
    if record.get("type") == "metadata":
        return []
    payload = message.get("payload") or {}
    if message.get("type") != "SubagentEvent":
        return _event(message.get("type"), payload, state, voice, state.memory)
    call = payload.get("task_tool_call_id") or payload.get("parent_tool_call_id") or ""
    agent, inner = entry.mark_of(call.encode("utf-8", "replace")), payload.get("event") or {}
    meta = {"toolUseId": call, "agentType": state.memory.get("tasks", {}).get(call)}
    known = state.memory.setdefault("agents", {}).setdefault(agent, {"meta": meta})
    own = Voice(session=voice.session, agent=agent, cwd=voice.cwd, at=voice.at, seed=f"{state.name}/{agent}")
    own.leaf = known.get("leaf")
    made = _event(inner.get("type"), inner.get("payload") or {}, state, own, known)
    known["leaf"] = own.leaf
    return [entry.record(voice), *made]


def _event(
    kind: object, payload: Fields, state: Talk, voice: Voice, memory: dict[str, Any]
) -> list[LineFields]:
    """An event of the session or of one of its sub-agents; ``memory`` is what is known of that one."""
    if kind == "ToolCallPart":
        if memory.get("open"):
            memory["open"]["arguments"] += payload.get("arguments_part") or ""
        return _called(voice, memory, is_over=False)
    ended = [] if kind in _AMID else _called(voice, memory, is_over=True)
    return [*ended, *_told(kind, payload, state, voice, memory)]


def _told(
    kind: object, payload: Fields, state: Talk, voice: Voice, memory: dict[str, Any]
) -> list[LineFields]:
    if kind in ("TurnBegin", "SteerInput"):
        return [entry.user(voice, _content(payload.get("user_input")))]
    if kind == "ContentPart" and payload.get("type") == "think":
        return [entry.assistant(voice, None, blocks.thinking(payload.get("think") or ""))]
    if kind == "ContentPart" and payload.get("text"):
        return [entry.assistant(voice, None, {"type": "text", "text": payload["text"]})]
    if kind == "ToolCall":
        said = payload.get("function") or {}
        memory["open"] = {
            "id": payload.get("id"),
            "name": said.get("name"),
            "arguments": said.get("arguments") or "",
        }
        return _called(voice, memory, is_over=False)
    if kind == "ToolResult":
        return [_result(payload, voice, memory)]
    if kind == "StatusUpdate":
        return _used(payload, voice)
    if kind == "CompactionBegin":
        return [entry.boundary(voice, {"trigger": "auto"})]
    return [] if kind in _SILENT or kind == "ContentPart" else unknown(kind, state)


def _called(voice: Voice, memory: dict[str, Any], *, is_over: bool) -> list[LineFields]:
    """The call that is open, where its arguments are whole, or will not be."""
    call = memory.get("open")
    given = loose_value(call["arguments"].encode("utf-8", "replace")) if call else None
    if not call or not (is_over or isinstance(given, dict)):
        return []
    memory["open"] = None
    given = given if isinstance(given, dict) else {"input": call["arguments"]}
    if call["name"] in ("Task", "Agent"):
        memory.setdefault("tasks", {})[call["id"]] = given.get("subagent_name")
    if call["name"] == "WriteFile":
        memory.setdefault("writes", {})[call["id"]] = given
    return [entry.assistant(voice, None, blocks.tool_use(call["id"], call["name"], given))]


def _result(payload: Fields, voice: Voice, memory: dict[str, Any]) -> LineFields:
    call, said = payload.get("tool_call_id") or "", payload.get("return_value") or {}
    failed, output = said.get("is_error") is True, said.get("output")
    line = entry.result(voice, call, _content(output or said.get("message")), is_error=failed)
    given = memory.get("writes", {}).pop(call, None)
    if given is not None and given.get("mode") != "append":
        changed = blocks.written(given.get("path"), given.get("content"))
    else:
        diffs = [shown for shown in said.get("display") or () if shown.get("type") == "diff"]
        edits = [(one.get("path"), (one.get("old_text"), one.get("new_text"), False)) for one in diffs]
        changed = [one for path, edit in edits for one in blocks.replaced(path, [edit])]
    return blocks.with_changes(line, [] if failed else changed)


def _content(said: object) -> object:
    if not isinstance(said, list):
        return said or ""
    return [{"type": "text", "text": part["text"]} for part in said if part.get("text")]


def _used(payload: Fields, voice: Voice) -> list[LineFields]:
    used = payload.get("token_usage")
    if not used:
        return []
    counts = {name: used.get(said) or 0 for name, said in _COUNTS.items()}
    key = entry.key_of("kimi", voice.session, voice.agent, payload.get("message_id"), voice.at, counts)
    return [entry.usage(voice, key, None, counts)]


class _Kimi(LineDialect):
    """The events of all sessions, then their titles. Those of a sub-agent stand in its session's; its own file repeats them."""

    def units(self, home: Path, problems: ReadProblems | None = None) -> list[Unit]:
        """The files of sessions, by name."""
        return [unit for unit in super().units(home, problems) if unit.source.count("/") == _DEPTH]

    def mirror(self, unit: Unit, state: Talk, into: AgentMirror) -> None:
        """Translate what a session has gained, or its title."""
        if unit.path.name == _WIRE:
            super().mirror(unit, state, into)
            return
        name = unit.path.parent.name
        place = into.placed(name)
        # Events that say nothing yet: the next pass looks again.
        state.growth.is_torn = place is None and unit.path.with_name(_WIRE).exists()
        for data in whole_document(unit, state.growth) if place is not None else ():
            said = parsed(data)
            title = said.get("custom_title") or said.get("title") if isinstance(said, dict) else None
            if isinstance(title, str) and title:
                into.title(name, title, entry.titled(name, title))


DIALECT = _Kimi((("sessions", _WIRE), ("sessions", _STATE)), _RECORD, begin, lines)
