"""Continue, of editors and of its command line: a document for each session, rewritten at every step.

No message has a time: the first prompt has that of the session, all others the one at which they were seen. What was used is one
total of a session, and in old versions nothing. A session that was restored is stored again under another id: two sessions here, too.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.growth import Unit, content
from recollect.agents.lines import LineFields
from recollect.agents.loose import COUNT, Fields, Shape, parsed
from recollect.agents.records import Begun, DocumentDialect, Talk, local_path, millis, unknown
from recollect.model.lines.json_text import loose_value
from recollect.system.peek import ReadProblems

_USAGE: Shape = {
    **dict.fromkeys(("promptTokens", "completionTokens"), COUNT),
    "promptTokensDetails": dict.fromkeys(("cachedTokens", "cacheWriteTokens"), COUNT),
}
_CALL: Shape = {"id": str, "function": {"name": str, "arguments": str}}
_ITEMS: Shape = [dict.fromkeys(("name", "content"), str)]
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(
        ("sessionId", "title", "workspaceDirectory", "chatModelTitle", "conversationSummary"), str
    ),
    "usage": _USAGE,
    "message": {
        **dict.fromkeys(("role", "toolCallId"), str),
        "content": (str, [{"type": str, "text": str, "imageUrl": {"url": str}}]),
        "toolCalls": [_CALL],
        "usage": _USAGE,
    },
    "contextItems": _ITEMS,
    "promptLogs": [{"modelTitle": str}],
    "reasoning": {"text": str},
    "toolCallStates": [
        {"toolCallId": str, "toolCall": _CALL, "status": str, "parsedArgs": {}, "output": _ITEMS}
    ],
    "toolCallState": {
        "toolCallId": str,
        "toolCall": _CALL,
        "status": str,
        "parsedArgs": {},
        "output": _ITEMS,
    },
}
_LIST = "sessions.json"
_UNNAMED = ("New Session", "Untitled Session")
_OVER = ("done", "errored", "canceled")


def records(document: object) -> list[object]:
    """What the session is, then its history."""
    if not isinstance(document, dict) or not isinstance(document.get("history"), list):
        return []
    return [{name: value for name, value in document.items() if name != "history"}, *document["history"]]


def begin(unit: Unit, first: Fields) -> Begun:
    """The file is named after its session; a list beside it tells when it began."""
    listed = unit.path.with_name(_LIST)
    rows = parsed(content(listed)) if listed.is_file() else None
    mine = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    at = next((row.get("dateCreated") for row in mine if row.get("sessionId") == unit.path.stem), None)
    at = int(at) if isinstance(at, str) and at.isdecimal() else at
    cwd = local_path(first.get("workspaceDirectory") or "")
    return Begun(session=unit.path.stem, cwd=cwd, key=unit.path.stem, at=millis(at))


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a part of the document means."""
    voice, message = state.voice, record.get("message")
    if "sessionId" in record:
        return _head(record, state)
    if message is None:
        return unknown("item", state)
    role = message.get("role")
    made: list[LineFields] = []
    if role == "user":
        beside = "\n".join(
            f"{one.get('name')}\n{one.get('content')}" for one in record.get("contextItems") or ()
        )
        made = [entry.user(voice, beside, isMeta=True)] if beside else []
        made.append(entry.user(voice, _content(message.get("content"))))
        voice.at = state.memory.get("changed") or voice.at
    elif role in ("assistant", "thinking"):
        made = _answer(record, message, state)
    elif role == "tool" and message.get("toolCallId") not in state.memory.get("results", ()):
        made = [entry.result(voice, message.get("toolCallId") or "", _content(message.get("content")))]
    elif role == "system":
        made = [entry.user(voice, _content(message.get("content")), isMeta=True)]
    elif role != "tool":
        made = unknown(f"message:{role}", state)
    summary = record.get("conversationSummary")
    return [*made, *entry.compaction(voice, summary)] if summary else made


def _head(record: Fields, state: Talk) -> list[LineFields]:
    voice, title = state.voice, record.get("title")
    state.memory["model"] = model = record.get("chatModelTitle")
    made: list[LineFields] = []
    if title and title not in _UNNAMED:
        made.append(entry.titled(voice.session, title) | {entry.IS_MIRRORED: True})
    state.memory["total"] = bool(record.get("usage"))
    # One call for all of a session, of which the largest counts.
    return [*made, *_used(record.get("usage"), model, entry.key_of("continue", voice.session), state)]


def _used(used: dict[str, Any] | None, model: str | None, key: str, state: Talk) -> list[LineFields]:
    """What was used: its prompts hold what was read from and written to the cache."""
    if not used:
        return []
    details = used.get("promptTokensDetails") or {}
    read, written = details.get("cachedTokens") or 0, details.get("cacheWriteTokens") or 0
    counts = {
        "input": max((used.get("promptTokens") or 0) - read - written, 0),
        "cache_read": read,
        "cache_write": written,
        "output": used.get("completionTokens") or 0,
    }
    return [entry.usage(state.voice, key, model, counts)] if any(counts.values()) else []


def _answer(record: Fields, message: dict[str, Any], state: Talk) -> list[LineFields]:
    """Thoughts, text and calls, and what the calls returned."""
    voice, content = state.voice, _content(message.get("content"))
    texts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    said = [block for block in texts if block.get("text")]
    thought = (record.get("reasoning") or {}).get("text")
    made: list[LineFields] = [blocks.thinking(thought)] if thought else []
    if message.get("role") == "thinking":
        said = [blocks.thinking(block["text"]) for block in said]
    told = record.get("toolCallStates") or ([record["toolCallState"]] if record.get("toolCallState") else [])
    given: dict[str, Any] = {one.get("toolCallId") or "": one.get("parsedArgs") for one in told}
    calls = [one.get("toolCall") or {} for one in told] or message.get("toolCalls") or []
    for call in calls:
        name, arguments = call.get("id") or "", (call.get("function") or {}).get("arguments") or ""
        given[name] = given.get(name) or loose_value(arguments.encode("utf-8", "replace"))
        said.append(blocks.tool_use(name, (call.get("function") or {}).get("name"), given[name]))
    models = [one.get("modelTitle") for one in record.get("promptLogs") or ()]
    model = next(filter(None, reversed(models)), state.memory.get("model"))
    result = [entry.assistant(voice, model, *made, *said)] if made or said else []
    over = [one for one in told if one.get("status") in _OVER]
    result += [_result(one, given.get(one.get("toolCallId") or ""), state) for one in over]
    if state.memory.get("total"):
        return result
    return [
        *result,
        *_used(message.get("usage"), model, entry.key_of("continue", voice.session, voice.leaf), state),
    ]


def _result(one: dict[str, Any], given: object, state: Talk) -> LineFields:
    call, done = one.get("toolCallId") or "", one.get("status") == "done"
    state.memory.setdefault("results", []).append(call)
    text = "\n".join(item.get("content") or "" for item in one.get("output") or ())
    line = entry.result(state.voice, call, text, is_error=not done)
    return blocks.with_changes(line, _changed(given, state.voice.cwd) if done else [])


def _changed(given: object, cwd: str) -> list[LineFields]:
    """What an edit changed, by what it was called with; an edit that a model applies tells no texts."""
    path = (given.get("filepath") or given.get("file_path")) if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(path, str):
        return []
    path = str(PurePath(cwd, path))
    if "old_string" in given or isinstance(given.get("edits"), list):
        steps = given["edits"] if isinstance(given.get("edits"), list) else [given]
        edits = [(step.get("old_string"), step.get("new_string"), step.get("replace_all")) for step in steps]
        return blocks.replaced(path, edits)
    return blocks.written(path, given.get("contents", given.get("content")))


def _content(said: object) -> Any:
    if not isinstance(said, list):
        return said or ""
    texts: list[LineFields] = [{"type": "text", "text": part["text"]} for part in said if part.get("text")]
    images = [(part.get("imageUrl") or {}).get("url") for part in said]
    return [*texts, *({"type": "image", "source": {"type": "url", "url": url}} for url in images if url)]


class _Continue(DocumentDialect):
    """The sessions, without the list of them."""

    def units(self, home: Path, problems: ReadProblems | None = None) -> list[Unit]:
        """The documents, by name."""
        return [unit for unit in super().units(home, problems) if unit.path.name != _LIST]


DIALECT = _Continue((("sessions", ".json"),), _RECORD, begin, lines, records)
