"""What is expected in the files of Codex: their names, and the types of the fields that are used."""

from __future__ import annotations

import re

from recollect.agents import lines as entry
from recollect.agents.blocks import in_patch
from recollect.agents.lines import LineFields
from recollect.agents.loose import (
    COUNT,
    MOMENT,
    Fields,
    FittedRecord,
    Shape,
    Whole,
    fitted,
    parsed,
)
from recollect.model.lines.json_text import loose_value

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


_BARE_META, _BARE_ITEM = _META | _ITEM, _LINE | _ITEM
_ENVELOPES = {kind: _LINE | {"payload": inner} for kind, inner in _PAYLOADS.items()}
_UNKNOWN: dict[str, Shape] = _LINE | {"payload": {}}


def fitted_line(raw: bytes) -> FittedRecord:
    """A line with what it is expected to hold; in the bare era that is an item, or what a session began with."""
    said = parsed(raw)
    kind = said.get("type") if isinstance(said, dict) else None
    payload = said.get("payload") if isinstance(said, dict) else None
    if payload is None:
        return fitted(said, _BARE_META if kind is None else _BARE_ITEM)
    return fitted(said, _ENVELOPES.get(kind, _UNKNOWN) if isinstance(kind, str) else _UNKNOWN)


def meta_of(line: LineFields) -> Fields:
    """What a session says of itself in its first line; nothing where this is another one."""
    if line.get("type") == "session_meta":
        return line.get("payload") or {}
    return line if "type" not in line and "id" in line else {}


_EXIT = re.compile(r"(?:Process exited with code|Exit code:) (\d+)|\"exit_code\": ?(\d+)")
INJECTED = (
    "<environment_context>",
    "# AGENTS.md instructions",
    "<user_instructions>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<user_action>",
    "<skill>",
)


def parts_of(item: Fields, name: str = "content") -> list[Fields]:
    """The parts of a message; one that is only a text is one part."""
    content = item.get(name) or []
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


def block_of(part: Fields) -> LineFields | None:
    """A text or a picture; None for an empty text, and for what is not known its type."""
    text, url = part.get("text"), part.get("image_url")
    if text is not None:
        return {"type": "text", "text": text} if text else None
    if url is None:
        return {"type": "text", "text": f"[{part.get('type')}]"}
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        media = head.removeprefix("data:").removesuffix(";base64")
        return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}
    return {"type": "image", "source": {"type": "url", "url": url}}


def result_blocks(output: object) -> object:
    """What a tool returned, where it is more than a text."""
    if isinstance(output, list):
        return [block for part in output if (block := block_of(part)) is not None]
    return "" if output is None else entry.encode(output).decode()


def edits_of(given: object) -> list[LineFields]:
    """The files of a patch: a tool of its own, an argument of one, or a text that a shell passes on."""
    said: Fields = given if isinstance(given, dict) else {}
    words = next((said[name] for name in ("input", "patch", "command", "cmd") if name in said), "")
    texts = [str(word) for word in words] if isinstance(words, list) else [str(words)]
    place = said.get("workdir")
    return in_patch("\n".join(texts), place if isinstance(place, str) else "")


def was_refused(output: object) -> bool:
    """Whether a patch did not fit: that is said in words."""
    return isinstance(output, str) and ("verification failed" in output or output in ("aborted", "rejected"))


def input_of(item: Fields) -> object:
    """What a call was given: an object, or its text by the name of the field."""
    for name in ("arguments", "input", "action"):
        given = item.get(name)
        if isinstance(given, str):
            value = loose_value(given.encode()) if name == "arguments" else None
            return value if isinstance(value, dict) else {name: given}
        if isinstance(given, dict):
            return given
    return {}


def agent_in(output: object) -> object:
    """The thread that a call began, as its result names it."""
    value = loose_value(output.encode()) if isinstance(output, str) else None
    return value.get("agent_id") if isinstance(value, dict) else None


def has_failed(output: object) -> bool:
    """Whether a command ended with another status than 0: that is said in words, too."""
    head = output[:2000] if isinstance(output, str) else ""
    result = _EXIT.search(head) if "xit" in head else None  # a plain search is many times as fast
    return result is not None and (result[1] or result[2]) != "0"


def is_injected(item: Fields) -> bool:
    """Whether a message in the user's name is context that the client put there."""
    return any(str(part.get("text") or "").lstrip().startswith(INJECTED) for part in parts_of(item))
