"""Qwen Code 0.24: nearly the logs of Claude Code, with ids and parents of their own, and content in Google's parts.

Telemetry lines hold every model call, side calls too; what answers say of usage repeats some of them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.blocks import Item, MirroredThread, as_messages
from recollect.agents.growth import (
    Unit,
    UnitState,
    files_below,
    holds_none,
    new_lines,
    whole_document,
)
from recollect.agents.lines import LineFields, Voice
from recollect.agents.loose import (
    COUNT,
    MOMENT,
    Shape,
    Whole,
    fitted,
    parsed,
    translated,
)
from recollect.agents.mirror import AgentMirror
from recollect.model.conversation.graph import ERROR_NOTE
from recollect.model.lines.damage import UNREADABLE
from recollect.model.lines.ids import derived_uuid
from recollect.store.session_files import META
from recollect.system.peek import ReadProblems

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
    "message": {"parts": blocks.PARTS},
    "toolCallResult": {"status": str, "resultDisplay": (str, {}, [])},
    "systemPayload": {
        "customTitle": str,
        "title": str,
        "compressedHistory": [{"parts": blocks.PARTS}],
        "info": {"triggerReason": str},
        "uiEvent": {
            **dict.fromkeys(("event.name", "response_id", "model", "error_message"), str),
            **{f"{name}_token_count": COUNT for name in _COUNTS},
        },
    },
}


class _LineVoice(Voice, kw_only=True):
    is_odd: bool = False  # a remark follows, which is known by the id that the line would have


class State(UnitState, kw_only=True):
    """A chat that was read."""

    name: str = ""


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    """The chats of every project, then the logs of their sub-agents, each before what stands beside it."""
    below = files_below(home, "projects/*/subagents", (".jsonl", META), problems)
    return [
        *files_below(home, "projects/*/chats", (".jsonl",), problems),
        *(unit._replace(holds=holds_none) if unit.key.endswith(META) else unit for unit in below),
    ]


def resumed(thread: MirroredThread) -> list[Item]:
    """Without thoughts; the reminders that the client puts before prompts are stored nowhere."""
    return as_messages(thread.entries())


def mirror(unit: Unit, state: State, into: AgentMirror) -> None:
    """Translate what a chat has gained."""
    if unit.path.name.endswith(META):
        _note_agent(unit, state, into)
        return
    lines, is_restarted, _ = new_lines(unit, state.growth)
    said = [fitted(parsed(raw), _LINE) for raw in lines]
    if not said:
        return
    if not state.name:
        state.name = _placed(unit, [one.fields for one in said], into)
    place = into.placed(state.name)
    assert place is not None  # noqa: S101 - for the type checker: it was placed when its first line was read
    log = into.log(place)
    result: list[LineFields] = []
    at = entry.moment(unit.stamp[1] / 1e6)  # a line without a time is as old as the one before it
    for raw, (line, odd) in zip(lines, said, strict=True):
        at = line.get("timestamp") or at
        voice = _LineVoice(
            session=place.session,
            agent=place.agent,
            cwd=line.get("cwd") or "",
            branch=line.get("gitBranch"),
            version=line.get("version"),
            at=at,
            is_odd=bool(odd),
        )
        entries = translated("qwen", voice, odd, partial(_translated, line, voice))
        result += entry.with_original(entries, raw)
    into.append_read(log, result, (unit.source, state.growth.generation), voice, is_restarted=is_restarted)


def _placed(unit: Unit, said: list[LineFields], into: AgentMirror) -> str:
    """Where a chat belongs, by its path and its first line."""
    cwd = next((str(line["cwd"]) for line in said if line.get("cwd")), "")
    if unit.path.parent.name == "chats":
        into.place(unit.path.stem, cwd)
        return unit.path.stem
    agent = unit.path.stem.removeprefix("agent-")
    into.place(agent, cwd, session=unit.path.parent.name, agent=agent[:64])
    return agent


def _note_agent(unit: Unit, state: State, into: AgentMirror) -> None:
    """What stands beside the log of a sub-agent, rewritten by the client when the agent ends."""
    session, agent = unit.path.parent.name, unit.path.name.removesuffix(META).removeprefix("agent-")
    is_known = into.placed(agent) or into.placed(session)  # else it is what is left of a deleted session
    for data in whole_document(unit, state.growth) if is_known else ():
        place = into.place(agent, "", session=session, agent=agent[:64])
        meta = fitted(parsed(data), dict.fromkeys(_WANTED, str)).fields
        into.note_agent(place, {key: meta.get(key) for key in _WANTED})
        into.keep_beside(place, unit, data, state.growth.generation)


def _translated(line: LineFields, voice: _LineVoice) -> list[LineFields]:
    kind, content = line.get("type"), (line.get("message") or {}).get("parts")
    if kind in ("user", "tool_result"):
        answers = blocks.results(content)
        is_meta = line.get("provenance") not in (None, "real_user") and not answers
        body: LineFields = {"message": {"role": "user", "content": answers or blocks.blocks(content)}}
        link = _link(line, voice, "user", body | ({"isMeta": True} if is_meta else {}))
        done = line.get("toolCallResult") or {}
        changed = blocks.shown(done.get("resultDisplay")) if done.get("status") == "success" else []
        return [blocks.with_changes(link, changed)]
    if kind == "assistant":
        answer = {"role": "assistant", "model": line.get("model"), "content": blocks.blocks(content)}
        return [_link(line, voice, "assistant", {"message": answer | {"id": f"msg_{line.get('uuid')}"}})]
    if kind != "system":
        return [entry.record(voice, f"qwen:{kind}" if line else f"qwen{UNREADABLE}")]
    if line.get("subtype") == _COMPRESSED:
        return _compression(line, voice)
    return _system(line, voice)


def _system(line: LineFields, voice: _LineVoice) -> list[LineFields]:
    subtype, said = line.get("subtype"), line.get("systemPayload") or {}
    event: LineFields = (said.get("uiEvent") if subtype == _TELEMETRY else None) or {}
    note = {"subtype": subtype, "content": "", "level": "info"}
    if event.get("event.name") == _FAILURE:
        text = event.get("error_message") or "error"
        note = {"subtype": ERROR_NOTE, "content": text, "level": "error"}
    result = [_link(line, voice, "system", note)]
    if event.get("event.name") == _CALL:
        result += _call(event, voice, line)
    title = said.get("customTitle", said.get("title"))
    if subtype == _TITLE and title is not None:
        result.append(entry.titled(voice.session, title) | {entry.IS_MIRRORED: True})
    return result


def _compression(line: LineFields, voice: _LineVoice) -> list[LineFields]:
    """The cut is a line of ours; the summary has the id that later lines follow."""
    said = line.get("systemPayload") or {}
    kept = [block for one in said.get("compressedHistory") or () for block in blocks.blocks(one.get("parts"))]
    cut = {**line, "uuid": derived_uuid(str(line.get("uuid")), 0)}
    trigger = (said.get("info") or {}).get("triggerReason") or "auto"
    body: LineFields = {
        "subtype": entry.COMPACTED,
        "content": "Conversation compacted",
        "compactMetadata": {"trigger": trigger},
    }
    above = {"parentUuid": None, "logicalParentUuid": line.get("parentUuid")}
    summary = {"message": {"role": "user", "content": kept}, "isCompactSummary": True}
    after = _link({**line, "parentUuid": cut["uuid"]}, voice, "user", summary)
    return [_link(cut, voice, "system", body) | above, after]


def _call(event: dict[str, Any], voice: _LineVoice, line: LineFields) -> list[LineFields]:
    whole, cached, output, thought = (event.get(f"{name}_token_count") or 0 for name in _COUNTS)
    if not whole + output:
        return []  # a stream that was cut: nothing is known of it
    counts = {"input": max(whole - cached, 0), "cache_read": cached, "output": output}
    key = entry.key_of("qwen", event.get("response_id") or line.get("uuid"))
    about = {"output_tokens_details": {"thinking_tokens": thought}}
    return [entry.usage(voice, key, event.get("model"), counts, **about) | _origin(line)]


def _link(line: LineFields, voice: _LineVoice, kind: str, body: LineFields) -> LineFields:
    """A link with the ids it has in the client's own log."""
    uuid = line.get("uuid") or ""
    if not uuid or voice.is_odd:
        voice.leaf = None
        voice.leaf = entry.link_id(voice, kind, body)
        uuid = uuid or voice.leaf
    return entry.named_link(voice, kind, uuid, line.get("parentUuid"), body) | _origin(line)


def _origin(line: LineFields) -> LineFields:
    origin = line.get("forkedFrom")
    return {} if origin is None else {"forkedFrom": origin}
