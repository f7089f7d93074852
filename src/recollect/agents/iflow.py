"""iFlow CLI: Claude Code's lines with the results of Gemini CLI, one file for each session.

While it streams, the client writes a call up to three times, in answers that are no branches of each other: the order of the file is
the conversation, and a call counts once. Tokens are written as 0 by the versions that are known: no usage, then.
"""

from __future__ import annotations

import re
from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.growth import Unit
from recollect.agents.lines import LineFields
from recollect.agents.loose import COUNT, MOMENT, Fields, Shape
from recollect.agents.records import Begun, LineDialect, Talk, unknown

_BLOCK: Shape = {
    **dict.fromkeys(("type", "text", "id", "name", "tool_use_id"), str),
    "input": {},
    "content": ({"responseParts": ({}, [{}]), "resultDisplay": ({}, str)}, str, [{}]),
}
_COUNTS = {
    "input": "input_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "output": "output_tokens",
}
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("type", "sessionId", "cwd", "gitBranch"), str),
    "timestamp": MOMENT,
    "message": {
        **dict.fromkeys(("id", "model"), str),
        "content": (str, [_BLOCK]),
        "usage": dict.fromkeys(_COUNTS.values(), COUNT),
    },
    "toolUseResult": {"status": str},
}
_THOUGHT = re.compile(r"<think>\n?(.*?)\n?</think>", re.DOTALL)
_COMMAND = "slash-command"  # what stands for the model where the client answers by itself


def begin(unit: Unit, first: Fields) -> Begun:
    """A file is named after its session."""
    return Begun(session=unit.path.stem, cwd=first.get("cwd") or "", key=unit.path.parent.name)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a line means."""
    kind, voice, message = record.get("type"), state.voice, record.get("message") or {}
    voice.at = record.get("timestamp") or voice.at
    voice.cwd, voice.branch = record.get("cwd") or voice.cwd, record.get("gitBranch") or voice.branch
    content = message.get("content") or []
    if kind == "assistant":
        return _answer(message, content, state)
    if kind != "user":
        return unknown(kind, state)
    if isinstance(content, str):
        return [entry.user(voice, content)]
    status = (record.get("toolUseResult") or {}).get("status")
    results = [block for block in content if block.get("type") == "tool_result"]
    typed = [{"type": "text", "text": block["text"]} for block in content if block.get("text")]
    made = [_result(block, status not in (None, "success"), state) for block in results]
    return [*made, entry.user(voice, typed)] if typed else made


def _answer(message: dict[str, Any], content: str | list[dict[str, Any]], state: Talk) -> list[LineFields]:
    made: list[LineFields] = []
    calls: dict[str, Any] = state.memory.setdefault("calls", {})
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if block.get("type") == "text":
            said = block.get("text") or ""
            made += [blocks.thinking(thought) for thought in _THOUGHT.findall(said)]
            text = _THOUGHT.sub("", said).strip()
            made += [{"type": "text", "text": text}] if text else []
        elif block.get("type") == "tool_use" and block.get("id") not in calls:
            given = block.get("input") or {}
            calls[block.get("id") or ""] = (
                given if block.get("name") in ("multi_edit", "replace", "write_file") else None
            )
            made.append(blocks.tool_use(block.get("id"), block.get("name"), given))
    if message.get("model") == _COMMAND:
        told = "\n".join(block.get("text") or "" for block in made)
        return [entry.note(state.voice, "local_command", told)] if made else []
    line = [entry.assistant(state.voice, message.get("model"), *made)] if made else []
    used = message.get("usage") or {}
    counts = {name: used.get(said) or 0 for name, said in _COUNTS.items()}
    if not any(counts.values()):
        return line
    # The answers of one step begin with the same id.
    key = entry.key_of("iflow", state.voice.session, str(message.get("id")).partition("-tool-")[0])
    return [*line, entry.usage(state.voice, key, message.get("model"), counts)]


def _result(block: dict[str, Any], failed: bool, state: Talk) -> LineFields:
    call, said = block.get("tool_use_id") or "", block.get("content")
    if not isinstance(said, dict):
        return entry.result(state.voice, call, said or "", is_error=failed)
    parts, shown = blocks.results(said.get("responseParts")), said.get("resultDisplay")
    text = "\n".join(str(part["content"]) for part in parts)
    failed = failed or any(part.get("is_error") for part in parts)
    line = entry.result(state.voice, call, text or (shown if isinstance(shown, str) else ""), is_error=failed)
    given = state.memory.get("calls", {}).get(call)
    if failed or not isinstance(given, dict):
        return line
    state.memory["calls"][call] = None
    path, diff = given.get("file_path"), shown.get("fileDiff") if isinstance(shown, dict) else None
    if "content" in given:
        return blocks.with_changes(line, blocks.written(path, given["content"], diff=diff))
    asked = given["edits"] if isinstance(given.get("edits"), list) else [given]
    steps = [(one.get("old_string"), one.get("new_string"), False) for one in asked if isinstance(one, dict)]
    return blocks.with_changes(line, blocks.replaced(path, steps, diff=diff))


DIALECT = LineDialect((("projects", ".jsonl"),), _RECORD, begin, lines)
