"""GitHub Copilot CLI: a log of events for each session; sub-agents stand in the log of their session.

What a process used is told when it ends, by model; a process that was killed tells only the output of its answers, so its
cost is unknown. A compaction is not part of those totals.
"""

from __future__ import annotations

from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.growth import Unit
from recollect.agents.lines import LineFields
from recollect.agents.loose import COUNT, MOMENT, Fields, Shape
from recollect.agents.records import Begun, LineDialect, Talk, unknown

_USAGE: Shape = dict.fromkeys(
    ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"), COUNT
)
_DATA: dict[str, Shape] = {
    **dict.fromkeys(
        ("sessionId", "copilotVersion", "selectedModel", "content", "newModel", "model", "reasoningText"), str
    ),
    **dict.fromkeys(
        ("toolCallId", "toolName", "message", "summaryContent", "agentName", "parentToolCallId"), str
    ),
    "context": {"cwd": str, "branch": str, "repository": str},
    "toolRequests": [{"toolCallId": str, "name": str, "arguments": ({}, str)}],
    "success": bool,
    "result": {"content": str, "detailedContent": str},
    "error": {"message": str},
    "modelMetrics": {},
    "compactionTokensUsed": {},
}
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("type", "id", "parentId"), str),
    "timestamp": MOMENT,
    "data": _DATA,
}
_SILENT = (
    *("assistant.turn_start", "assistant.turn_end", "tool.execution_start", "session.compaction_start"),
    *(
        "session.mode_changed",
        "session.info",
        "session.task_complete",
        "system.message",
        "hook.start",
        "hook.end",
    ),
    *(
        "permission.requested",
        "permission.completed",
        "subagent.started",
        "subagent.completed",
        "subagent.failed",
    ),
    *("session.plan_changed", "skill.invoked", "system.notification", "session.workspace_file_changed"),
)


def begin(unit: Unit, first: Fields) -> Begun:
    """The directory of the log is the session; the first event names where it worked."""
    context = (first.get("data") or {}).get("context") or {}
    name = unit.path.parent.name if unit.path.stem == "events" else unit.path.stem
    return Begun(session=name, cwd=context.get("cwd") or "", key=name)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What an event means."""
    kind, data, voice, memory = record.get("type"), record.get("data") or {}, state.voice, state.memory
    voice.at = record.get("timestamp") or voice.at
    if kind in ("session.start", "session.resume"):
        context = data.get("context") or {}
        voice.cwd, voice.branch = context.get("cwd") or voice.cwd, context.get("branch") or voice.branch
        voice.version = data.get("copilotVersion") or voice.version
        memory["model"] = data.get("selectedModel") or memory.get("model")
        return []
    if kind == "session.model_change":
        memory["model"] = data.get("newModel") or memory.get("model")
        return []
    if kind == "user.message":
        text = data.get("content") or ""
        return [entry.user(voice, text)] if text.strip() else []
    if kind == "assistant.message":
        return _answer(data, state)
    if kind == "tool.execution_complete":
        return _result(data, state)
    if kind == "session.compaction_complete":
        return _compaction(record, data, state)
    if kind == "session.shutdown":
        return _used(record, data.get("modelMetrics") or {}, state)
    if kind in ("session.error", "session.warning", "abort"):
        text = data.get("message") or data.get("reason") or str(kind)
        return [entry.note(voice, str(kind).replace(".", "_"), str(text), "error")]
    return [] if kind in _SILENT else unknown(kind, state)


def _answer(data: dict[str, Any], state: Talk) -> list[LineFields]:
    content: list[LineFields] = []
    if data.get("reasoningText"):
        content.append(blocks.thinking(data["reasoningText"]))
    if (data.get("content") or "").strip():
        content.append({"type": "text", "text": data["content"]})
    for call in data.get("toolRequests") or ():
        given = call.get("arguments")
        given = {"input": given} if isinstance(given, str) else given
        content.append(blocks.tool_use(call.get("toolCallId"), call.get("name"), given))
        if call.get("name") in ("edit", "create", "apply_patch"):
            state.memory.setdefault("calls", {})[call.get("toolCallId")] = given
    if not content:
        return []
    line = entry.assistant(state.voice, data.get("model") or state.memory.get("model"), *content)
    sender = data.get("parentToolCallId")
    return [line | {entry.FROM_AGENT: sender} if sender else line]


def _result(data: dict[str, Any], state: Talk) -> list[LineFields]:
    call, done = data.get("toolCallId") or "", data.get("success") is not False
    said = data.get("result") or {}
    text = said.get("content") if done else (data.get("error") or {}).get("message")
    line = entry.result(state.voice, call, text or "", is_error=not done)
    given = (state.memory.get("calls") or {}).pop(call, None)
    return [blocks.with_changes(line, _changed(given, said, state.voice.cwd) if done else [])]


def _changed(given: object, said: dict[str, Any], cwd: str) -> list[LineFields]:
    """What an edit changed, by what it was called with."""
    if not isinstance(given, dict):
        return []
    diff = said.get("detailedContent")
    if "file_text" in given:
        return blocks.written(given.get("path"), given["file_text"], created=True)
    if "new_str" in given:
        return blocks.replaced(
            given.get("path"), [(given.get("old_str"), given["new_str"], False)], diff=diff
        )
    return blocks.in_patch(str(given.get("input") or ""), cwd)


def _compaction(record: Fields, data: dict[str, Any], state: Talk) -> list[LineFields]:
    made = entry.compaction(state.voice, data.get("summaryContent") or "")
    used = data.get("compactionTokensUsed") or {}
    counts = {name: used.get(name) for name in ("input", "output", "cachedInput")}
    if not isinstance(counts["input"], int) or not isinstance(counts["output"], int):
        return made
    cached = counts["cachedInput"] if isinstance(counts["cachedInput"], int) else 0
    key = entry.key_of("copilot", state.voice.session, record.get("id"))
    disjoint = {"input": max(counts["input"] - cached, 0), "cache_read": cached, "output": counts["output"]}
    return [*made, entry.usage(state.voice, key, state.memory.get("model"), disjoint)]


def _used(record: Fields, metrics: dict[str, Any], state: Talk) -> list[LineFields]:
    """What a process used, by model. Its input holds what was read from and written to the cache."""
    result = []
    for model, said in metrics.items():
        used = said.get("usage") if isinstance(said, dict) else None
        if not isinstance(used, dict):
            continue
        count = {name: value if isinstance(value, int) else 0 for name, value in used.items()}
        read, written = count.get("cacheReadTokens", 0), count.get("cacheWriteTokens", 0)
        counts = {
            "input": max(count.get("inputTokens", 0) - read - written, 0),
            "cache_read": read,
            "cache_write": written,
            "output": count.get("outputTokens", 0),
        }
        if any(counts.values()):
            key = entry.key_of("copilot", state.voice.session, record.get("id"), model)
            about = {"output_tokens_details": {"thinking_tokens": count.get("reasoningTokens", 0)}}
            result.append(entry.usage(state.voice, key, model, counts, **about))
    return result


DIALECT = LineDialect((("session-state", ".jsonl"),), _RECORD, begin, lines)
