"""Cursor's agent, of its command line and its editor: what was said and called, in the order of the file.

Neither times nor models, tokens or results are written: a line has the time at which its file was seen to have it, and an edit
counts as done. Its directory is told only by the name of the project and the paths that it was called with.
"""

from __future__ import annotations

import re
from pathlib import PureWindowsPath
from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.growth import Unit
from recollect.agents.lines import LineFields
from recollect.agents.loose import Fields, Shape
from recollect.agents.mirror import AgentMirror
from recollect.agents.records import Begun, LineDialect, Talk, unknown

_BLOCK: Shape = {**dict.fromkeys(("type", "text", "name"), str), "input": ({}, str)}
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("role", "type", "status", "error"), str),
    "message": {"content": ([_BLOCK], str)},
}
_TYPED = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
_PATHS = ("working_directory", "path", "target_directory")
_SUBAGENTS, _TRANSCRIPTS = "subagents", "agent-transcripts"


def begin(unit: Unit, first: Fields) -> Begun:
    """A file is named after its chat; a sub-agent's lies below that of the chat."""
    names = unit.path.parts
    project = names[names.index(_TRANSCRIPTS) - 1] if _TRANSCRIPTS in names else ""
    owner = unit.path.parents[1].name if unit.path.parent.name == _SUBAGENTS else None
    # As the project of the directory is called in our own homes, which one name gives too.
    return Begun(session=unit.path.stem, owner=owner, key=f"/{project}")


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a line means."""
    role, voice = record.get("role"), state.voice
    said = (record.get("message") or {}).get("content") or []
    content: list[dict[str, Any]] = [{"type": "text", "text": said}] if isinstance(said, str) else said
    if role == "user":
        return _prompt("\n".join(block.get("text") or "" for block in content), state)
    if role == "assistant":
        return _answer(content, state)
    if record.get("type") != "turn_ended":
        return unknown(role or record.get("type"), state)
    if record.get("status") in ("error", "aborted"):
        return [entry.note(voice, "error", record.get("error") or record["status"], "error")]
    return []


def _prompt(text: str, state: Talk) -> list[LineFields]:
    """What was typed, behind what the client puts before it."""
    typed = _TYPED.findall(text)
    beside = _TYPED.sub("", text).strip() if typed else ""
    before = [entry.user(state.voice, beside, isMeta=True)] if beside else []
    return [*before, entry.user(state.voice, typed[-1] if typed else text)]


def _answer(content: list[dict[str, Any]], state: Talk) -> list[LineFields]:
    """Calls have no ids: they are numbered."""
    made: list[LineFields] = []
    changed: dict[str, list[LineFields]] = {}
    for block in content:
        if block.get("type") == "text" and block.get("text"):
            made.append({"type": "text", "text": block["text"]})
        elif block.get("type") == "tool_use":
            given = block.get("input")
            given = {"input": given} if isinstance(given, str) else given or {}
            state.memory["calls"] = number = state.memory.get("calls", 0) + 1
            _find_directory(given, state)
            made.append(blocks.tool_use(f"call_{number}", block.get("name"), given))
            changed[f"call_{number}"] = _changed(str(block.get("name")), given, state.voice.cwd)
    if not made:
        return []
    answer = entry.assistant(state.voice, None, *made)
    done = [(call, files) for call, files in changed.items() if files]
    return [
        answer,
        *(blocks.with_changes(entry.result(state.voice, call, ""), files) for call, files in done),
    ]


def _changed(name: str, given: dict[str, Any], cwd: str) -> list[LineFields]:
    path = given.get("path")
    if name == "ApplyPatch":
        return blocks.in_patch(str(given.get("input") or ""), cwd)
    if name == "StrReplace":
        return blocks.replaced(
            path, [(given.get("old_string"), given.get("new_string"), given.get("replace_all"))]
        )
    if name == "Delete" and isinstance(path, str):
        return [{"filePath": path, "type": "delete"}]
    return blocks.written(path, given.get("contents")) if name == "Write" else []


def _find_directory(given: dict[str, Any], state: Talk) -> None:
    """The directory of which the project's name was made, where a call names a path in it."""
    if state.voice.cwd:
        return
    wanted = state.memory.get("project")
    for text in (given.get(name) for name in _PATHS):
        path = PureWindowsPath(text) if isinstance(text, str) else PureWindowsPath()
        for above in reversed((path, *path.parents)):
            if wanted and re.sub(r"[^a-z0-9]+", "-", str(above).lower()).strip("-") == wanted:
                state.voice.cwd = str(text)[: len(str(above))]
                return


class _CursorAgent(LineDialect):
    """Files without times."""

    def mirror(self, unit: Unit, state: Talk, into: AgentMirror) -> None:
        """What is new was said since the last pass."""
        state.voice.at = entry.moment(unit.stamp[1] / 1e6)
        super().mirror(unit, state, into)

    def _start(self, state: Talk, begun: Begun, changed: float, into: AgentMirror) -> None:
        super()._start(state, begun, changed, into)
        state.memory["project"] = re.sub(r"[^a-z0-9]+", "-", begun.key.lower()).strip("-")


DIALECT = _CursorAgent(((f"projects/*/{_TRANSCRIPTS}", ".jsonl"),), _RECORD, begin, lines)
