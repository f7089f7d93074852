"""Qwen Code 0.24: nearly the logs of Claude Code, with ids and parents of their own, and content in Google's parts.

Telemetry lines hold every model call, side calls too; what answers say of usage repeats some of them.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.conversation.node import ERROR_NOTE
from recollect.model.damage import UNREADABLE
from recollect.model.made_ids import derived_uuid
from recollect.storage.foreign import edits, parts
from recollect.storage.foreign import lines as made
from recollect.storage.foreign.growth import (
    Growth,
    Unit,
    holds_none,
    new_lines,
    stamped,
    walked,
    whole_document,
)
from recollect.storage.foreign.lines import LineFields, Voice
from recollect.storage.foreign.loose import (
    COUNT,
    MOMENT,
    Shape,
    ShapedRecords,
    Whole,
    fitted,
    parsed,
    translated,
    whole_number,
)
from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.resumed import Item, MirroredThread, as_messages
from recollect.storage.session_files import META
from recollect.system.peek import ReadProblems

# 2: a line that was rewritten under its own id says what it says now.
TRANSLATION = 2
_COMPRESSED, _TELEMETRY, _TITLE = "chat_compression", "ui_telemetry", "custom_title"
_CALL, _FAILURE = "qwen-code.api_response", "qwen-code.api_error"
_WANTED = (
    "agentType",
    "description",
    "toolUseId",
    "parentAgentId",
)  # of what stands beside the log of a sub-agent
_COUNTS = ("input", "cached_content", "output", "thoughts")
_LINE: dict[str, Shape] = {
    **dict.fromkeys(("type", "uuid", "parentUuid", "cwd", "gitBranch", "version", "model"), str),
    **dict.fromkeys(("subtype", "provenance"), str),
    "timestamp": MOMENT,
    "forkedFrom": Whole({"sessionId": str}),
    "message": {"parts": parts.PARTS},
    "toolCallResult": {"status": str, "resultDisplay": (str, {}, [])},
    "systemPayload": {
        "customTitle": str,
        "title": str,
        "compressedHistory": [{"parts": parts.PARTS}],
        "info": {"triggerReason": str},
        "uiEvent": {
            **dict.fromkeys(("event.name", "response_id", "model", "error_message"), str),
            **{f"{name}_token_count": COUNT for name in _COUNTS},
        },
    },
}


def _is_all(line: LineFields) -> bool:
    """Whether nothing but the named fields is used: of compressed chats and odd parts there is."""
    return "compressedHistory" not in (line.get("systemPayload") or ()) and parts.are_known(
        (line.get("message") or {}).get("parts")
    )


_LINES = ShapedRecords(_LINE, _is_all)


class _LineVoice(Voice, kw_only=True):
    is_odd: bool = False  # a remark follows, which is known by the id that the line would have


class _ChatState(Struct, kw_only=True):
    growth: Growth = msgspec.field(default_factory=Growth)
    name: str = ""


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    """The chats of every project, then the logs of their sub-agents, each before what stands beside it."""
    found: list[Unit | None] = []
    for below, kinds in (("chats", (".jsonl",)), ("subagents", (".jsonl", META))):
        for project in sorted((home / "projects").glob("*")):
            for where, names in walked(project / below, problems):
                found += (
                    stamped(home, f"{where}{os.sep}{name}") for name in sorted(names) if name.endswith(kinds)
                )
    return [
        unit._replace(holds=holds_none) if unit.key.endswith(META) else unit
        for unit in found
        if unit is not None
    ]


def finish(home: Path, into: AgentMirror) -> None:
    """Nothing concerns several sessions."""


def resumed(thread: MirroredThread) -> list[Item]:
    """Without thoughts; the reminders that the client puts before prompts are stored nowhere."""
    return as_messages(thread.entries())


def deletion_warning(home: Path) -> str | None:
    """It deletes nothing by itself."""
    return None


def resume_warning(home: Path, source: str, version: str | None) -> str | None:
    """It resumes all that it lists."""
    return None


def mirror(unit: Unit, saved: bytes | None, into: AgentMirror) -> bytes:
    """Translate what a chat has gained."""
    state = msgspec.msgpack.decode(saved, type=_ChatState) if saved else _ChatState()
    if unit.path.name.endswith(META):
        return _noted(unit, state, into)
    lines, is_restarted = new_lines(unit, state.growth)
    said = [_LINES.named(raw) for raw in lines]
    if not said:
        return msgspec.msgpack.encode(state)
    if not state.name:
        state.name = _placed(unit, [one.fields for one in said], into)
    place = into.placed(state.name)
    assert place is not None  # noqa: S101 - for the type checker: it was placed when its first line was read
    log = into.log(place)
    found: list[LineFields] = []
    at = made.moment(unit.stamp[1] / 1e6)  # a line without a time is as old as the one before it
    for raw, (line, odd) in zip(lines, said, strict=True):
        at = line.get("timestamp") or at
        voice = _LineVoice(
            session=place.session,
            agent=place.agent,
            cwd=str(line.get("cwd") or ""),
            branch=line.get("gitBranch"),
            version=line.get("version"),
            at=at,
            is_odd=bool(odd),
        )
        told = translated("qwen", voice, odd, partial(_translated, line, voice))
        found += made.with_original(told, raw)
    generation = state.growth.generation
    kept = into.only_changed(log, found) if generation else found
    if generation and is_restarted:
        voice.leaf = next((line["uuid"] for line in reversed(found) if "uuid" in line), None)
        kept = into.ended(log, kept, voice)
    into.append(log, kept, (unit.source, generation))
    return msgspec.msgpack.encode(state)


def _placed(unit: Unit, said: list[LineFields], into: AgentMirror) -> str:
    """Where a chat belongs, by its path and its first line."""
    cwd = next((str(line["cwd"]) for line in said if line.get("cwd")), "")
    if unit.path.parent.name == "chats":
        into.place(unit.path.stem, cwd)
        return unit.path.stem
    agent = unit.path.stem.removeprefix("agent-")
    into.place(agent, cwd, session=unit.path.parent.name, agent=agent[:64])
    return agent


def _noted(unit: Unit, state: _ChatState, into: AgentMirror) -> bytes:
    """What stands beside the log of a sub-agent, rewritten by the client when the agent ends."""
    session, agent = unit.path.parent.name, unit.path.name.removesuffix(META).removeprefix("agent-")
    is_known = into.placed(agent) or into.placed(session)  # else it is what is left of a deleted session
    for data in whole_document(unit, state.growth) if is_known else ():
        place = into.place(agent, "", session=session, agent=agent[:64])
        meta = fitted(parsed(data), dict.fromkeys(_WANTED, str)).fields
        into.note_agent(place, {key: meta.get(key) for key in _WANTED})
        into.keep_beside(place, unit, data, state.growth.generation)
    return msgspec.msgpack.encode(state)


def _translated(line: LineFields, voice: _LineVoice) -> list[LineFields]:
    kind, message = line.get("type"), line.get("message")
    told = message.get("parts") if isinstance(message, dict) else None
    if kind in ("user", "tool_result"):
        answers = parts.results(told)
        is_meta = line.get("provenance") not in (None, "real_user") and not answers
        body: LineFields = {"message": {"role": "user", "content": answers or parts.blocks(told)}}
        told_user = _link(line, voice, "user", body | ({"isMeta": True} if is_meta else {}))
        found = [edits.with_changes(told_user, _edits_of(line.get("toolCallResult")))]
    elif kind == "assistant":
        answer = {"role": "assistant", "model": line.get("model"), "content": parts.blocks(told)}
        found = [_link(line, voice, "assistant", {"message": answer | {"id": f"msg_{line.get('uuid')}"}})]
    elif kind == "system":
        found = _system(line, voice)
    else:
        found = [made.record(voice, f"qwen:{kind}" if line else f"qwen{UNREADABLE}")]
    return found


def _edits_of(done: object) -> list[LineFields]:
    return (
        edits.shown(done.get("resultDisplay"))
        if isinstance(done, dict) and done.get("status") == "success"
        else []
    )


def _system(line: LineFields, voice: _LineVoice) -> list[LineFields]:
    subtype, payload = line.get("subtype"), line.get("systemPayload")
    said: dict[str, Any] = payload if isinstance(payload, dict) else {}
    if subtype == _COMPRESSED:
        return _compression(line, voice, said)
    event = said.get("uiEvent") if subtype == _TELEMETRY else None
    event = event if isinstance(event, dict) else {}
    told = {"subtype": subtype, "content": "", "level": "info"}
    if event.get("event.name") == _FAILURE:
        text = str(event.get("error_message") or "error")
        told = {"subtype": ERROR_NOTE, "content": text, "level": "error"}
    found = [_link(line, voice, "system", told)]
    if event.get("event.name") == _CALL:
        found += _call(event, voice, line)
    title = said.get("customTitle", said.get("title"))
    if subtype == _TITLE and isinstance(title, str):
        found.append(made.titled(voice.session, title))
    return found


def _compression(line: LineFields, voice: _LineVoice, said: dict[str, Any]) -> list[LineFields]:
    """The cut is a line of ours; the summary has the id that later lines follow."""
    history = said.get("compressedHistory")
    kept = (
        [block for one in history if isinstance(one, dict) for block in parts.blocks(one.get("parts"))]
        if isinstance(history, list)
        else []
    )
    cut = {
        **line,
        "uuid": derived_uuid(str(line.get("uuid")), 0),
    }
    info = said.get("info")
    trigger = info.get("triggerReason") if isinstance(info, dict) else None
    body: LineFields = {
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "compactMetadata": {"trigger": str(trigger or "auto")},
    }
    boundary = _link(cut, voice, "system", body) | {
        "parentUuid": None,
        "logicalParentUuid": line.get("parentUuid"),
    }
    summary = {"message": {"role": "user", "content": kept}, "isCompactSummary": True}
    return [boundary, _link({**line, "parentUuid": cut["uuid"]}, voice, "user", summary)]


def _call(event: dict[str, Any], voice: _LineVoice, line: LineFields) -> list[LineFields]:
    whole, cached, output, thought = (whole_number(event.get(f"{name}_token_count")) for name in _COUNTS)
    if not whole + output:
        return []  # a stream that was cut: nothing is known of it
    counts = {"input": max(whole - cached, 0), "cache_read": cached, "output": output}
    key = made.key_of("qwen", event.get("response_id") or line.get("uuid"))
    model = event.get("model")
    found = made.usage(
        voice,
        key,
        model if isinstance(model, str) else None,
        counts,
        output_tokens_details={"thinking_tokens": thought},
    )
    return [found | _origin(line)]


def _link(line: LineFields, voice: _LineVoice, kind: str, body: LineFields) -> LineFields:
    """A link with the ids it has in the client's own log."""
    uuid = line.get("uuid") or ""
    if not uuid or voice.is_odd:
        voice.leaf = None
        voice.leaf = made.link_id(voice, kind, body)
        uuid = uuid or voice.leaf
    return made.named_link(voice, kind, uuid, line.get("parentUuid"), body) | _origin(line)


def _origin(line: LineFields) -> LineFields:
    origin = line.get("forkedFrom")
    return {"forkedFrom": origin} if isinstance(origin, dict) else {}
