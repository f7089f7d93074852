"""Antigravity (CLI, IDE, app): a log of steps for each conversation, whole or cut for the model's own use.

No tokens, and no ids of calls: results follow the answer in the order of its calls. The model is named when a prompt changes it.
Conversations of which the client wrote no log are in a store that cannot be read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.growth import Unit
from recollect.agents.lines import LineFields
from recollect.agents.loose import COUNT, MOMENT, Fields, Shape, parsed
from recollect.agents.records import Begun, LineDialect, Talk, unknown
from recollect.system.peek import ReadProblems

_WHOLE, _CUT = "transcript_full.jsonl", "transcript.jsonl"
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("source", "type", "status", "content", "thinking", "error"), str),
    "step_index": COUNT,
    "created_at": MOMENT,
    "tool_calls": [{"name": str, "args": {}}],
}
_TYPED = re.compile(r"<USER_REQUEST>\n?(.*?)\n?</USER_REQUEST>", re.DOTALL)
_MODEL = re.compile(r"`Model Selection` from .*? to `?(.+?)`?\. ")
_SILENT = ("CONVERSATION_HISTORY", "KNOWLEDGE_ARTIFACTS")
_FAILED = ("ERROR", "CANCELED")


def begin(unit: Unit, first: Fields) -> Begun:
    """The conversation is the directory; where it worked, only its commands tell."""
    session = unit.path.parents[2].name
    return Begun(session=session, key=session)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a step means."""
    voice, memory, content = state.voice, state.memory, record.get("content") or ""
    kind, source = record.get("type"), record.get("source")
    voice.at = record.get("created_at") or voice.at
    if kind == "USER_INPUT":
        typed, model = _TYPED.search(content), _MODEL.search(content)
        memory["model"] = model[1] if model else memory.get("model")
        return [entry.user(voice, typed[1]) if typed else entry.user(voice, content, isMeta=True)]
    if kind == "PLANNER_RESPONSE":
        return _answer(record, content, state)
    if source == "MODEL":
        return [_result(record, content, state)]
    if kind == "SYSTEM_MESSAGE" or source == "USER_EXPLICIT":
        return [entry.user(voice, content, isMeta=True)]
    if kind == "ERROR_MESSAGE":
        return [entry.note(voice, "error", record.get("error") or content, "error")]
    return [] if kind in _SILENT else unknown(kind, state)


def _answer(record: Fields, content: str, state: Talk) -> list[LineFields]:
    said = [blocks.thinking(record["thinking"])] if record.get("thinking") else []
    said += [{"type": "text", "text": content}] if content else []
    calls = []
    for number, call in enumerate(record.get("tool_calls") or ()):
        given = _given(call.get("args") or {})
        state.voice.cwd = state.voice.cwd or str(given.get("Cwd") or "")
        calls.append(blocks.tool_use(f"step{record.get('step_index')}-{number}", call.get("name"), given))
    state.memory["calls"] = calls
    return [entry.assistant(state.voice, state.memory.get("model"), *said, *calls)] if said or calls else []


def _given(args: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call; in a log that is cut each is JSON in a text, or what is left of it."""
    if not all(isinstance(value, str) for value in args.values()):
        return args
    values = {name: parsed(value.encode()) for name, value in args.items()}
    is_text = any(isinstance(value, str) for value in values.values())
    return (
        {name: args[name] if value is None else value for name, value in values.items()} if is_text else args
    )


def _result(record: Fields, content: str, state: Talk) -> LineFields:
    """The result of the next call; one that no call waits for is a note."""
    calls = state.memory.get("calls") or []
    if not calls:
        return entry.note(state.voice, str(record.get("type")).lower(), content or record.get("error") or "")
    call, state.memory["calls"] = calls[0], calls[1:]
    failed = record.get("status") in _FAILED
    line = entry.result(state.voice, call["id"], content, is_error=failed)
    return line if failed else blocks.with_changes(line, _changed(call["name"], call["input"]))


def _changed(name: str, given: dict[str, Any]) -> list[LineFields]:
    """What an edit was called with."""
    path = str(given.get("TargetFile") or "").removeprefix("file://")
    if name == "write_to_file":
        return blocks.written(path, given.get("CodeContent"))
    if name == "replace_file_content":
        return blocks.replaced(path, [(given.get("TargetContent"), given.get("ReplacementContent"), False)])
    chunks = given.get("ReplacementChunks") if name == "multi_replace_file_content" else None
    steps = [one for one in chunks if isinstance(one, dict)] if isinstance(chunks, list) else []
    return blocks.replaced(
        path,
        [
            (one.get("TargetContent"), one.get("ReplacementContent"), one.get("AllowMultiple"))
            for one in steps
        ],
    )


class _Antigravity(LineDialect):
    """Where a whole log stands, the cut one beside it is the same."""

    def units(self, home: Path, problems: ReadProblems | None = None) -> list[Unit]:
        every = super().units(home, problems)
        whole = {unit.path.parent for unit in every if unit.path.name == _WHOLE}
        return [unit for unit in every if unit.path.name == _WHOLE or unit.path.parent not in whole]


_LOGS = "brain/*/.system_generated/logs"
DIALECT = _Antigravity(((_LOGS, _WHOLE), (_LOGS, _CUT)), _RECORD, begin, lines)
