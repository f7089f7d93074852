"""Factory Droid: a file of messages for each session, and beside it a document with what the session used so far.

The total is told for the session and not by call: what it has grown by is a call of the time at which that was seen. Whether the
total of a session contains its sub-agents', which have documents of their own, is not told.
"""

from __future__ import annotations

from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.growth import Unit, content, whole_document
from recollect.agents.lines import LineFields, Voice
from recollect.agents.loose import COUNT, MOMENT, Fields, Shape, fitted, parsed
from recollect.agents.mirror import AgentMirror
from recollect.agents.mirror_files import Placed
from recollect.agents.records import Begun, LineDialect, Talk, unknown

_BLOCK: Shape = {
    **dict.fromkeys(("type", "text", "thinking", "id", "name", "tool_use_id"), str),
    "input": {},
    "content": (str, [{}]),
    "is_error": bool,
    "source": {},
}
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("type", "id", "parentId", "title", "sessionTitle", "cwd", "summaryText"), str),
    **dict.fromkeys(("callingSessionId", "callingToolUseId", "decompSessionType"), str),
    "timestamp": MOMENT,
    "message": {"role": str, "content": (str, [_BLOCK])},
    "anchorMessage": {"id": str},
}
_SETTINGS = ".settings.json"
_USED = {
    "input": "inputTokens",
    "cache_read": "cacheReadTokens",
    "cache_write": "cacheCreationTokens",
    "output": "outputTokens",
    "reasoning": "thinkingTokens",
}
_TOLD: dict[str, Shape] = {"model": str, "tokenUsage": dict.fromkeys(_USED.values(), COUNT)}
_TOTAL = "usedSoFar"  # beside a call: what the session had used when it was seen


def begin(unit: Unit, first: Fields) -> Begun:
    """The first line names the session, its directory, and of a sub-agent the call that sent it."""
    about = {"toolUseId": first.get("callingToolUseId"), "agentType": first.get("decompSessionType")}
    return Begun(
        session=first.get("id") or unit.path.stem,
        cwd=first.get("cwd") or "",
        owner=first.get("callingSessionId"),
        key=unit.path.parent.name,
        meta=about,
    )


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a record means."""
    kind, voice = record.get("type"), state.voice
    voice.at = record.get("timestamp") or voice.at
    if kind == "session_start":
        title = record.get("sessionTitle")
        return [entry.titled(voice.session, title) | {entry.IS_MIRRORED: True}] if title else []
    uuids: dict[object, str | None] = state.memory.setdefault("uuids", {})
    if kind == "message":
        voice.leaf = uuids.get(record.get("parentId"), voice.leaf) if record.get("parentId") else voice.leaf
        message = record.get("message") or {}
        made = _answer(message, state) if message.get("role") == "assistant" else _said(message, state)
        uuids[record.get("id")] = voice.leaf
        return made
    if kind == "compaction_state":
        first = uuids.get((record.get("anchorMessage") or {}).get("id"))
        kept = None if first is None or voice.leaf is None else (first, voice.leaf)
        return entry.compaction(voice, record.get("summaryText") or "", kept=kept)
    return [] if kind in ("todo_state", "session_end") else unknown(kind, state)


def _content(message: dict[str, Any]) -> list[dict[str, Any]]:
    said = message.get("content") or []
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def _answer(message: dict[str, Any], state: Talk) -> list[LineFields]:
    made: list[LineFields] = []
    for block in _content(message):
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            made.append({"type": "text", "text": block["text"]})
        elif kind == "thinking" and block.get("thinking"):
            made.append(blocks.thinking(block["thinking"]))
        elif kind == "tool_use":
            made.append(blocks.tool_use(block.get("id"), block.get("name"), block.get("input")))
            if block.get("name") in ("Edit", "MultiEdit", "Create", "ApplyPatch"):
                state.memory.setdefault("calls", {})[block.get("id")] = block.get("input")
    return [entry.assistant(state.voice, None, *made)] if made else []


def _said(message: dict[str, Any], state: Talk) -> list[LineFields]:
    """Results, reminders that the client puts before a prompt, and the prompt."""
    made: list[LineFields] = []
    typed: list[LineFields] = []
    for block in _content(message):
        text = block.get("text") or ""
        if block.get("type") == "tool_result":
            made.append(_result(block, state))
        elif text.lstrip().startswith("<system-reminder>"):
            made.append(entry.user(state.voice, text, isMeta=True))
        elif text or block.get("type") == "image":
            typed.append({name: block[name] for name in ("type", "text", "source") if name in block})
    return [*made, entry.user(state.voice, typed)] if typed else made


def _result(block: dict[str, Any], state: Talk) -> LineFields:
    call, failed = block.get("tool_use_id") or "", block.get("is_error") is True
    line = entry.result(state.voice, call, block.get("content") or "", is_error=failed)
    given = state.memory.get("calls", {}).pop(call, None)
    return blocks.with_changes(line, [] if failed or given is None else _changed(given, state.voice.cwd))


def _changed(given: dict[str, Any], cwd: str) -> list[LineFields]:
    """What an edit changed, by what it was called with."""
    if "content" in given:
        return blocks.written(given.get("file_path"), given["content"], created=True)
    if "file_path" not in given:
        return blocks.in_patch(str(given.get("input") or ""), cwd)
    steps = given["changes"] if isinstance(given.get("changes"), list) else [given]
    edits = [(one.get("old_str"), one.get("new_str"), one.get("change_all")) for one in steps]
    return blocks.replaced(given["file_path"], edits)


class _Droid(LineDialect):
    """Messages, and the totals beside them."""

    def mirror(self, unit: Unit, state: Talk, into: AgentMirror) -> None:
        """Translate what a session has gained, or has used."""
        if not unit.path.name.endswith(_SETTINGS):
            super().mirror(unit, state, into)
            return
        talk = unit.path.with_name(unit.path.name.removesuffix(_SETTINGS) + ".jsonl")
        if not talk.exists():
            return
        first, _ = fitted(parsed(content(talk).split(b"\n", 1)[0]), _RECORD)
        begun = begin(unit._replace(path=talk), first)
        place = into.placed(begun.name)
        state.growth.is_torn = place is None  # it says nothing yet: the next pass looks again
        if place is None:
            return
        for data in whole_document(unit, state.growth):
            self._count(unit, data, begun, place, into)
            into.keep_beside(place, unit, data, state.growth.generation)

    def _count(self, unit: Unit, data: bytes, begun: Begun, place: Placed, into: AgentMirror) -> None:
        """What was used since the last total."""
        told, _ = fitted(parsed(data), _TOLD)
        used = {name: (told.get("tokenUsage") or {}).get(said) or 0 for name, said in _USED.items()}
        log = into.log(place)
        before = [line[_TOTAL] for line in into.lines(log) if _TOTAL in line]
        grown = {name: count - before[-1].get(name, 0) for name, count in used.items()} if before else used
        if min(grown.values()) < 0:  # the client began to count again
            grown = used
        if any(grown.values()):
            voice = Voice(session=place.session, agent=place.agent, cwd=begun.cwd)
            voice.at = entry.moment(unit.stamp[1] / 1e6)
            key = entry.key_of("droid", begun.session, used)
            about = {"output_tokens_details": {"thinking_tokens": grown["reasoning"]}}
            into.append(log, [entry.usage(voice, key, told.get("model"), grown, **about) | {_TOTAL: used}])


DIALECT = _Droid((("sessions", ".jsonl"), ("sessions", _SETTINGS)), _RECORD, begin, lines)
