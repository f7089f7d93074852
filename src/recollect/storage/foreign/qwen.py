"""Qwen Code 0.24: nearly the logs of Claude Code, with ids and parents of their own, and content in Google's parts.

Telemetry lines hold every model call, side calls too; what answers say of usage repeats some of them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.conversation.node import ERROR_NOTE
from recollect.model.made_ids import derived_uuid
from recollect.storage.foreign import edits, parts
from recollect.storage.foreign import lines as made
from recollect.storage.foreign.growth import Growth, Unit, content, new_lines, stamped, walked
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
from recollect.system.peek import ReadProblems

TRANSLATION = 1
_COMPRESSED, _TELEMETRY, _TITLE = "chat_compression", "ui_telemetry", "custom_title"
_CALL, _FAILURE = "qwen-code.api_response", "qwen-code.api_error"
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
    """The chats of every project, then the logs of their sub-agents."""
    found: list[Unit | None] = []
    for below in ("chats", "subagents"):
        for project in sorted((home / "projects").glob("*")):
            for where, names in walked(project / below, problems):
                for name in sorted(names):
                    if name.endswith(".jsonl"):
                        path = Path(where, name)
                        source = path.relative_to(home).as_posix()
                        found.append(stamped(source, path, source))
    return [unit for unit in found if unit is not None]


def finish(home: Path, into: AgentMirror) -> None:
    """Nothing concerns several sessions."""


def resumed(thread: MirroredThread) -> list[Item]:
    """Without thoughts; the reminders that the client puts before prompts are stored nowhere."""
    return as_messages(thread.entries())


def deletion_warning(home: Path) -> str | None:
    """It deletes nothing by itself."""
    return None


def not_resumed(source: str, version: str | None) -> str | None:
    """It resumes all that it lists."""
    return None


def mirror(unit: Unit, saved: bytes | None, into: AgentMirror) -> bytes:
    """Translate what a chat has gained."""
    state = msgspec.msgpack.decode(saved, type=_ChatState) if saved else _ChatState()
    lines, _ = new_lines(unit, state.growth)
    said = [_LINES.named(raw) for raw in lines]
    if not said:
        return msgspec.msgpack.encode(state)
    if not state.name:
        state.name = _placed(unit, [one.fields for one in said], into)
    place = into.placed(state.name)
    assert place is not None  # noqa: S101 - for the type checker: it was placed when its first line was read
    log = into.log(place)
    known = into.known_ids(log) if state.growth.generation else set()
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
    into.append(log, [made.only_new(line, known) for line in found], (unit.source, state.growth.generation))
    return msgspec.msgpack.encode(state)


def _placed(unit: Unit, said: list[LineFields], into: AgentMirror) -> str:
    """Where a chat belongs, by its path and its first line."""
    cwd = next((str(line["cwd"]) for line in said if line.get("cwd")), "")
    if unit.path.parent.name == "chats":
        into.place(unit.path.stem, cwd)
        return unit.path.stem
    session, agent = unit.path.parent.name, unit.path.stem.removeprefix("agent-")
    place = into.place(agent, cwd, session=session, agent=agent[:64])
    beside = unit.path.with_suffix(".meta.json")
    wanted = ("agentType", "description", "toolUseId", "parentAgentId")
    with into.guarding(beside):
        meta = fitted(parsed(content(beside)), dict.fromkeys(wanted, str)).fields if beside.exists() else {}
        into.note_agent(place, {key: meta.get(key) for key in wanted})
    return agent


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
        found = [made.record(voice, f"qwen:{kind}" if line else "qwen:unreadable")]
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
