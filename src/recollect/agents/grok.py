"""Grok Build: a log of updates for each session. Answers are written as they come, in pieces that are put together.

Tokens are told of each prompt when it ends; of a turn that was cancelled, and by clients before July 2026, they are not.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.growth import Unit, content, new_lines
from recollect.agents.lines import LineFields
from recollect.agents.loose import COUNT, NUMBER, Fields, Shape, fitted, parsed
from recollect.agents.mirror import AgentMirror
from recollect.agents.records import Begun, LineDialect, Talk, millis, unknown
from recollect.errors import StorageError

_USAGE: dict[str, Shape] = dict.fromkeys(
    ("inputTokens", "outputTokens", "cachedReadTokens", "cacheCreationTokens", "reasoningTokens"), COUNT
)
_UPDATE: Shape = {
    **dict.fromkeys(("sessionUpdate", "toolCallId", "title", "status", "prompt_id", "stop_reason"), str),
    "content": ({}, [{}], str),
    "rawInput": {},
    "usage": {**_USAGE, "modelUsage": {}},
    "_meta": {"modelId": str, "promptIndex": COUNT, "x.ai/tool": {"name": str}},
}
_RECORD: dict[str, Shape] = {
    "timestamp": NUMBER,
    "method": str,
    "params": {"sessionId": str, "update": _UPDATE, "_meta": {"agentTimestampMs": NUMBER, "promptId": str}},
}
_SUMMARY: dict[str, Shape] = {
    "info": {"id": str, "cwd": str},
    **dict.fromkeys(
        ("generated_title", "session_summary", "parent_session_id", "session_kind", "head_branch"), str
    ),
}
_PIECES = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")
_SILENT = ("plan", "available_commands_update", "current_mode_update", "config_option_update")
_DONE = ("completed", "failed")
# A piece may be followed by more of the same answer.
_SETTLED_SECONDS = 60


def _summary(unit: Unit) -> Fields:
    """What the file beside a log says of its session; nothing where it is missing, or half written."""
    with contextlib.suppress(StorageError):
        return fitted(parsed(content(unit.path.with_name("summary.json"))), _SUMMARY).fields
    return {}


def begin(unit: Unit, first: Fields) -> Begun:
    """The directory of the log is the session."""
    said, session = _summary(unit), unit.path.parent.name
    is_sent = str(said.get("session_kind") or "").startswith("subagent")
    owner = said.get("parent_session_id") if is_sent else None
    cwd = (said.get("info") or {}).get("cwd") or ""
    return Begun(session=session, cwd=cwd, owner=owner, key=unit.path.parent.parent.name)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What an update means, or several pieces."""
    voice, params = state.voice, record.get("params") or {}
    update, about = params.get("update") or {}, params.get("_meta") or {}
    kind, meta = update.get("sessionUpdate"), update.get("_meta") or {}
    voice.at = millis(about.get("agentTimestampMs") or record.get("timestamp")) or voice.at
    state.memory["model"] = meta.get("modelId") or state.memory.get("model")
    if kind in _PIECES:
        text = _text(update)
        if kind == "user_message_chunk":
            return [entry.user(voice, text)]
        block = {"type": "text", "text": text} if kind == "agent_message_chunk" else blocks.thinking(text)
        return [entry.assistant(voice, state.memory["model"], block)]
    if kind == "tool_call":
        name = (meta.get("x.ai/tool") or {}).get("name") or update.get("title")
        call, given = update.get("toolCallId"), update.get("rawInput") or {}
        state.memory[f"call:{call}"] = {"name": name, "input": given}
        return [
            entry.assistant(voice, state.memory["model"], blocks.tool_use(call, name, given)),
            *_result(update, state),
        ]
    if kind == "tool_call_update":
        return _result(update, state)
    if kind == "turn_completed":
        return _used(update, state)
    return [] if kind in _SILENT else unknown(kind, state)


def _text(update: Fields) -> str:
    said = update.get("content")
    return str(said.get("text") or "") if isinstance(said, dict) else ""


def _result(update: Fields, state: Talk) -> list[LineFields]:
    """The result of a call that ended; what was said before is replaced by it."""
    call, status = update.get("toolCallId") or "", update.get("status")
    sent = state.memory.get(f"call:{call}")
    if sent is None or status not in _DONE:
        return []
    del state.memory[f"call:{call}"]
    parts = update.get("content")
    parts = [one for one in parts if isinstance(one, dict)] if isinstance(parts, list) else []
    text = "\n".join(_text(one) for one in parts if one.get("type") == "content")
    line = entry.result(state.voice, call, text, is_error=status == "failed")
    if status == "failed":
        return [line]
    changed: list[LineFields] = []
    for one in parts:
        if one.get("type") == "diff":
            changed += _changed(one, sent["input"])
    return [blocks.with_changes(line, changed)]


def _changed(diff: Fields, given: Fields) -> list[LineFields]:
    """A part of a file that was replaced, or a whole one."""
    path, old, new = diff.get("path"), diff.get("oldText"), diff.get("newText")
    if "old_string" in given:
        return blocks.replaced(path, [(old, new, False)])
    return blocks.written(path, new, original=old, created=not old)


def _used(update: Fields, state: Talk) -> list[LineFields]:
    """What a prompt used, by model. Input holds what was read from and written to the cache."""
    used: dict[str, Any] = update.get("usage") or {}
    result = []
    for model, said in (used.get("modelUsage") or {state.memory.get("model"): used}).items():
        count = fitted(said, _USAGE).fields
        read, written = count.get("cachedReadTokens") or 0, count.get("cacheCreationTokens") or 0
        counts = {
            "input": max((count.get("inputTokens") or 0) - read - written, 0),
            "cache_read": read,
            "cache_write": written,
            "output": count.get("outputTokens") or 0,
        }
        if any(counts.values()):
            key = entry.key_of("grok", state.voice.session, update.get("prompt_id"), model)
            about = {"output_tokens_details": {"thinking_tokens": count.get("reasoningTokens") or 0}}
            result.append(entry.usage(state.voice, key, model, counts, **about))
    return result


class _Grok(LineDialect):
    """Pieces of one message are one record. The last of a log that still grows is left for the next pass."""

    def _read(self, unit: Unit, state: Talk) -> tuple[list[tuple[bytes, object]], bool]:
        raws, is_restarted, before = new_lines(unit, state.growth)
        groups: list[tuple[bytes, Any]] = []
        last = None
        for raw in raws:
            value = parsed(raw)
            whose = _whose(fitted(value, _RECORD).fields)
            if whose is not None and whose == last:
                said, first = groups[-1]
                first["params"]["update"]["content"]["text"] += _text(value["params"]["update"])  # type: ignore[index]
                groups[-1] = (said + raw, first)
            else:
                groups.append((raw, value))
            last = whose
        if last is not None and abs(time.time() - unit.stamp[1] / 1e9) < _SETTLED_SECONDS:
            raw, _ = groups.pop()
            state.growth.consumed -= len(raw)
            state.growth.checksum = zlib.crc32(b"".join((before, *(said for said, _ in groups))))
            state.growth.is_torn = True
        return list(groups), is_restarted

    def mirror(self, unit: Unit, state: Talk, into: AgentMirror) -> None:
        super().mirror(unit, state, into)
        said = _summary(unit)
        title = said.get("generated_title") or said.get("session_summary")
        if title and state.name and state.memory.get("title") != title:
            state.memory["title"] = title
            line = entry.titled(state.voice.session, title) | {entry.IS_MIRRORED: True}
            into.append(self._log(state, into), [line])


def _whose(record: Fields) -> tuple[object, ...] | None:
    """What the pieces of one message have in common; None for what is no piece of text."""
    params = record.get("params") or {}
    update = params.get("update") or {}
    said, kind = update.get("content"), update.get("sessionUpdate")
    if kind not in _PIECES or not isinstance(said, dict) or not isinstance(said.get("text"), str):
        return None
    return kind, (update.get("_meta") or {}).get("promptIndex"), (params.get("_meta") or {}).get("promptId")


DIALECT = _Grok((("sessions", "updates.jsonl"),), _RECORD, begin, lines)
