"""Crush: a database in each project, with the sessions that were held there; the project is their directory.

Tokens are told of the last call only, and the cost of a session is that of its sub-agents, too: no usage is written, and
what a session cost stays unknown.
"""

from __future__ import annotations

from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.databases import Tables
from recollect.agents.growth import Unit
from recollect.agents.lines import LineFields
from recollect.agents.loose import ANY, NUMBER, Fields, Shape, parsed
from recollect.agents.records import Begun, RowDialect, Talk, decoded, millis, unknown

_PART: Shape = {
    "type": str,
    "data": {
        **dict.fromkeys(("text", "thinking", "id", "name", "input", "tool_call_id", "content"), str),
        **dict.fromkeys(("reason", "message", "details", "MIMEType", "Data", "url", "metadata"), str),
        "is_error": bool,
    },
}
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("table", "id", "root", "parent_session_id", "title", "role", "model"), str),
    "parts": [_PART],
    "created_at": NUMBER,
    "is_summary_message": ANY,
}
_TABLES = {
    "sessions": {"id", "parent_session_id", "title", "created_at", "updated_at"},
    "messages": {"id", "session_id", "role", "parts", "model", "created_at", "updated_at"},
}
# Sessions in which a title was made belong to no one.
_LISTED = """
SELECT s.id, s.title, s.updated_at, count(m.id), sum(length(m.parts)), max(m.updated_at)
FROM sessions s LEFT JOIN messages m ON m.session_id = s.id
WHERE s.id NOT LIKE 'title-%' GROUP BY s.id ORDER BY s.parent_session_id IS NOT NULL, s.rowid
"""
_MESSAGE = ("id", "role", "parts", "model", "created_at", "provider", "is_summary_message")
_SESSION = ("id", "parent_session_id", "title", "created_at")


def listed(tables: Tables) -> dict[str, str]:
    """The sessions, those of sub-agents last."""
    return tables.marks("messages", _LISTED)


def rows(tables: Tables, session: str) -> list[Fields]:
    """A session, with the one whose sub-agent's it is, and its messages; nothing where there are none."""
    found = list(tables.rows("sessions", *_SESSION, where="id = ?", bound=(session,)))
    above, seen = found[0].get("parent_session_id") if found else None, {session}
    root = None
    while above and above not in seen:
        seen.add(above)
        root = above
        parents = list(tables.rows("sessions", *_SESSION, where="id = ?", bound=(above,)))
        above = parents[0].get("parent_session_id") if parents else None
    messages = tables.rows("messages", *_MESSAGE, where="session_id = ?", bound=(session,))
    in_order = sorted(messages, key=lambda row: millis(row.get("created_at")) or "")
    heads = [{"table": "sessions", **row, "root": root} for row in found]
    return [*heads, *(decoded(row, "parts") for row in in_order)] if in_order else []


def begin(unit: Unit, first: Fields) -> Begun:
    """The project is the directory that has the database's."""
    place = unit.path.parent
    session = first.get("id") or ""
    sent = {"toolUseId": session.rpartition("$$")[2]}
    cwd = str(place.parent) if place.name == ".crush" else ""
    return Begun(session=session, cwd=cwd, owner=first.get("root"), key=str(place), meta=sent)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a row means."""
    voice, role = state.voice, record.get("role")
    voice.at = millis(record.get("created_at")) or voice.at
    if record.get("table") == "sessions":
        title = record.get("title")
        return [entry.titled(voice.session, title) | {entry.IS_MIRRORED: True}] if title else []
    parts = [(str(part.get("type")), part.get("data") or {}) for part in record.get("parts") or ()]
    if role == "user":
        return [entry.user(voice, _spoken(parts))]
    if role == "assistant":
        return _answer(record, parts, state)
    if role == "tool":
        return [_result(data, state) for kind, data in parts if kind == "tool_result"]
    return unknown(f"message:{role}", state)


def _answer(record: Fields, parts: list[tuple[str, dict[str, Any]]], state: Talk) -> list[LineFields]:
    if record.get("is_summary_message"):
        return entry.compaction(state.voice, "\n".join(data.get("text") or "" for _, data in parts).strip())
    result = [entry.assistant(state.voice, record.get("model"), *_spoken(parts))]
    state.memory |= {data.get("id") or "": data for kind, data in parts if kind in ("tool_call", "tool_use")}
    for kind, data in parts:
        if kind == "finish" and data.get("reason") in ("error", "canceled", "content_filter"):
            said = ": ".join(filter(None, (data.get("message"), data.get("details")))) or data["reason"]
            result.append(entry.note(state.voice, str(data["reason"]), said, "error"))
    return result


def _spoken(parts: list[tuple[str, dict[str, Any]]]) -> list[LineFields]:
    result: list[LineFields] = []
    for kind, data in parts:
        if kind == "text" and data.get("text"):
            result.append({"type": "text", "text": data["text"]})
        elif kind == "reasoning" and data.get("thinking"):
            result.append(blocks.thinking(data["thinking"]))
        elif kind in ("tool_call", "tool_use"):
            result.append(blocks.tool_use(data.get("id"), data.get("name"), _given(data)))
        elif kind == "image_url":
            result.append({"type": "image", "source": {"type": "url", "url": data.get("url")}})
        elif kind == "binary" and str(data.get("MIMEType")).startswith("image/"):
            source = {"type": "base64", "media_type": data["MIMEType"], "data": data.get("Data")}
            result.append({"type": "image", "source": source})
    return result


def _given(call: dict[str, Any]) -> object:
    return parsed((call.get("input") or "").encode())


def _result(data: dict[str, Any], state: Talk) -> LineFields:
    call, failed = data.get("tool_call_id") or "", data.get("is_error") is True
    line = entry.result(state.voice, call, data.get("content") or "", is_error=failed)
    sent = state.memory.pop(call, None)
    return line if failed or sent is None else blocks.with_changes(line, _changed(sent, data))


def _changed(call: dict[str, Any], data: dict[str, Any]) -> list[LineFields]:
    """What an edit changed: the whole text where the result has it, else what it was called with."""
    given, about = _given(call), parsed((data.get("metadata") or "{}").encode())
    if call.get("name") not in ("edit", "multiedit", "write") or not isinstance(given, dict):
        return []
    path, told = given.get("file_path"), about if isinstance(about, dict) else {}
    if "new_content" in told:
        before = told.get("old_content")
        return blocks.written(path, told["new_content"], original=before, created=before == "")
    if call["name"] == "write":
        return blocks.written(path, given.get("content"), diff=told.get("diff"))
    edits = given.get("edits") if call["name"] == "multiedit" else [given]
    steps = [one for one in edits if isinstance(one, dict)] if isinstance(edits, list) else []
    return blocks.replaced(
        path, [(one.get("old_string"), one.get("new_string"), one.get("replace_all")) for one in steps]
    )


DIALECT = RowDialect(("crush.db",), _TABLES, _RECORD, begin=begin, lines=lines, listed=listed, rows=rows)
