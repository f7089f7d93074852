"""What is expected in the files of Codex: their names, and the types of the fields that are used."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Raw, Struct

from recollect.storage.foreign.lines import LineFields
from recollect.storage.foreign.loose import (
    COUNT,
    MOMENT,
    Fields,
    FittedRecord,
    Shape,
    ShapedRecords,
    Whole,
    is_too_deep,
    parsed,
)

ROLLOUT = re.compile(
    r"rollout-(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)-([0-9a-fA-F-]{36})(?:_([0-9a-fA-F-]{36}))?\.jsonl(\.zst)?\Z"
)
COUNTS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
)
_CONTENT: Shape = [{"type": str, "text": str, "image_url": str}]
_SPAWN: Shape = {
    **dict.fromkeys(("parent_thread_id", "agent_role", "agent_nickname", "agent_path"), str),
    "depth": COUNT,
}
_META: dict[str, Shape] = {
    **dict.fromkeys(("id", "forked_from_id", "cwd", "session_id", "parent_thread_id", "cli_version"), str),
    **dict.fromkeys(("agent_role", "agent_nickname", "thread_source"), str),
    "source": ({"subagent": ({"thread_spawn": _SPAWN}, str)}, str),
    "history_base": {"thread_id": str, "end_ordinal_exclusive": COUNT},
    "git": {"branch": str},
    "timestamp": MOMENT,
}
_ITEM: dict[str, Shape] = {
    **dict.fromkeys(("type", "role", "id", "call_id", "name", "namespace", "author"), str),
    "content": (_CONTENT, str),
    "summary": _CONTENT,
    "arguments": (str, {}),
    "input": (str, {}),
    "action": Whole({"type": str}),
    "output": (str, _CONTENT, {}),
}
_ACTIVITY: dict[str, Shape] = {
    **dict.fromkeys(("type", "event_id", "id", "agent_thread_id", "kind", "tool"), str),
    "receiver_thread_ids": [str],
}
_USAGE: Shape = dict.fromkeys(COUNTS, COUNT)
_EVENT: dict[str, Shape] = {
    **_ACTIVITY,
    **dict.fromkeys(("turn_id", "reason", "message", "text"), str),
    "num_turns": COUNT,
    "error": {"message": str},
    "item": _ACTIVITY,
    "info": {"total_token_usage": _USAGE, "last_token_usage": _USAGE},
    "thread_settings": {"service_tier": str},
}
_PAYLOADS: dict[str, dict[str, Shape]] = {
    "session_meta": _META,
    "response_item": _ITEM,
    "event_msg": _EVENT,
    "turn_context": dict.fromkeys(("turn_id", "model", "cwd"), str),
    "token_usage_record": {"turn_id": str, "response_id": str, "usage": _USAGE},
    "compacted": {"message": str, "replacement_history": [_ITEM]},
    "inter_agent_communication": {"author": str, "content": str},
}
_LINE: dict[str, Shape] = {"timestamp": MOMENT, "type": str, "ordinal": COUNT}


def rollout_of(source: str) -> str | None:
    """The id of the rollout in a file of this name; of a reverted thread its second one."""
    matched = ROLLOUT.match(source.rpartition("/")[2])
    return None if matched is None else (matched[3] or matched[2]).lower()


class _Envelope(Struct, gc=False):
    timestamp: str | None = None
    type: str | None = None
    ordinal: Annotated[int, msgspec.Meta(ge=COUNT.start, lt=COUNT.stop)] | None = None
    payload: Raw = Raw()


_BARE_META, _BARE_ITEM = ShapedRecords(_META | _ITEM), ShapedRecords(_LINE | _ITEM)
_ENVELOPES = {kind: ShapedRecords(_LINE | {"payload": inner}) for kind, inner in _PAYLOADS.items()}
_UNKNOWN = ShapedRecords(_LINE | {"payload": {}})
_INNER = {kind: ShapedRecords(_PAYLOADS[kind]) for kind in _PAYLOADS if kind != "session_meta"}
_envelope = msgspec.json.Decoder(_Envelope)


def fitted_line(raw: bytes) -> FittedRecord:
    """A line with what it is expected to hold; in the bare era that is an item, or what a session began with."""
    said = parsed(raw)
    kind = said.get("type") if isinstance(said, dict) else None
    payload = said.get("payload") if isinstance(said, dict) else None
    if payload is None:
        return (_BARE_META if kind is None else _BARE_ITEM).read(raw, said)
    return (_ENVELOPES.get(kind, _UNKNOWN) if isinstance(kind, str) else _UNKNOWN).read(raw, said)


def used_line(raw: bytes) -> tuple[Fields, list[str]]:
    """As ``fitted_line``, where possible without what no entry is made of: most of it repeats other lines."""
    found = None if is_too_deep(raw) else _used(raw)
    return fitted_line(raw) if found is None else (found, [])


def _used(raw: bytes) -> Fields | None:
    """None for the bare era, the first line of a thread, lines of no known type and all that does not fit."""
    try:
        line = _envelope.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    inner = _INNER.get(line.type or "")
    payload = None if inner is None else inner.decoded(line.payload)
    if payload is None or (line.timestamp is not None and MOMENT.match(line.timestamp) is None):
        return None
    return {
        "timestamp": line.timestamp,
        "type": line.type,
        "payload": payload,
        "ordinal": line.ordinal,
    }


def meta_of(line: LineFields) -> Fields:
    """What a session says of itself in its first line; nothing where this is another one."""
    payload = line.get("payload")
    if line.get("type") == "session_meta" and isinstance(payload, dict):
        return payload
    return line if "type" not in line and "id" in line else {}
