"""Goose: a database of sessions, or before it a file of lines for each.

Where its ledger has a session, each of its rows is one model call; else the totals of the session are written as one. Input
holds what was read from and written to the cache, as the total of both versions is input and output.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.databases import Tables
from recollect.agents.growth import Unit, files_below
from recollect.agents.lines import LineFields
from recollect.agents.loose import ANY, COUNT, NUMBER, Fields, Shape
from recollect.agents.mirror import AgentMirror
from recollect.agents.records import Begun, LineDialect, RowDialect, Talk, decoded, millis, unknown
from recollect.system.peek import ReadProblems

_BLOCK: Shape = {
    **dict.fromkeys(("type", "text", "thinking", "id", "data", "mimeType", "msg", "notificationType"), str),
    "toolCall": {"status": str, "value": {"name": str, "arguments": ({}, ANY)}, "error": ANY},
    "toolResult": {"status": str, "value": ANY, "error": ANY},
}
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("table", "id", "name", "description", "working_dir", "parent_session_id", "role"), str),
    "id": (str, COUNT),
    "model": str,
    **dict.fromkeys((*_COUNTS, *(f"accumulated_{name}" for name in _COUNTS)), COUNT),
    **dict.fromkeys(("created_timestamp", "created"), NUMBER),
    "content": [_BLOCK],
    "content_json": [_BLOCK],
    "metadata": {"userVisible": bool},
    "metadata_json": {"userVisible": bool},
    "model_config_json": {"model_name": str},
}
_TABLES: dict[str, set[str]] = {
    "sessions": {"id", "working_dir", "updated_at"},
    "messages": {"id", "session_id", "role", "content_json", "created_timestamp"},
    "usage_ledger": set(),
}
_LISTED = """
SELECT s.id, s.updated_at, count(m.id), max(m.id), sum(length(m.content_json)), max(m.created_timestamp), {more}
FROM sessions s LEFT JOIN messages m ON m.session_id = s.id GROUP BY s.id ORDER BY s.rowid
"""
_SESSION = (
    *("id", "name", "description", "session_type", "working_dir", "parent_session_id", "model_config_json"),
    *(f"accumulated_{name}" for name in _COUNTS),
)
_MESSAGE = ("id", "role", "content_json", "created_timestamp", "metadata_json")
_CALL = ("id", "created_timestamp", "model", *_COUNTS, "is_compaction")
_SPOKEN = ("text", "image", "thinking", "toolRequest", "frontendToolRequest", "redactedThinking")
_FIRST_TITLE = "CLI Session"


def listed(tables: Tables) -> dict[str, str]:
    """The sessions; versions have other columns."""
    more = [f"s.{name}" for name in (*_SESSION[1:3], *_SESSION[7:]) if name in tables.columns["sessions"]]
    if "usage_ledger" in tables.columns:
        more.append("(SELECT max(u.id) FROM usage_ledger u WHERE u.session_id = s.id)")
    return tables.marks("messages", _LISTED.format(more=", ".join(more) or "0"))


def rows(tables: Tables, session: str) -> list[Fields]:
    """A session, its messages, and its calls; nothing where there are none."""
    heads = [
        {"table": "sessions", **decoded(row, "model_config_json")}
        for row in tables.rows("sessions", *_SESSION, where="id = ?", bound=(session,))
    ]
    spoken = list(tables.rows("messages", *_MESSAGE, where="session_id = ?", bound=(session,)))
    calls = list(tables.rows("usage_ledger", *_CALL, where="session_id = ?", bound=(session,)))
    if not spoken and not calls:
        return []
    told = [{"table": "usage_ledger", **row} for row in calls]
    totals = [] if calls else [{**row, "table": "totals"} for row in heads]
    return [*heads, *(decoded(row, "content_json", "metadata_json") for row in spoken), *told, *totals]


def begin(unit: Unit, first: Fields) -> Begun:
    """A file of lines goes by its name."""
    session = str(first.get("id") or unit.path.stem)
    owner = first.get("parent_session_id") if first.get("session_type") == "sub_agent" else None
    return Begun(session=session, cwd=first.get("working_dir") or "", owner=owner, key=session)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a row, or a line, means."""
    voice, table = state.voice, record.get("table")
    voice.at = millis(record.get("created_timestamp", record.get("created"))) or voice.at
    if table == "usage_ledger":
        key = entry.key_of("goose", voice.session, voice.agent, record.get("id"))
        return _used(key, record.get("model"), "", record, state)
    if table == "totals":
        model = (record.get("model_config_json") or {}).get("model_name")
        return _used(entry.key_of("goose", voice.session, voice.agent), model, "accumulated_", record, state)
    if "working_dir" in record:
        model = (record.get("model_config_json") or {}).get("model_name")
        state.memory["model"] = model
        name = record.get("name") if record.get("name") != _FIRST_TITLE else None
        title = name or record.get("description")
        result = [entry.titled(voice.session, title) | {entry.IS_MIRRORED: True}] if title else []
        if table is None:  # a file of lines: totals as they were when it was written last
            result += _used(entry.key_of("goose", voice.session), model, "accumulated_", record, state)
        return result
    content = record.get("content_json", record.get("content")) or []
    about = record.get("metadata_json", record.get("metadata")) or {}
    if record.get("role") == "assistant":
        return _answer(content, state)
    if record.get("role") == "user":
        return _prompt(content, about.get("userVisible") is False, state)
    return unknown(f"message:{record.get('role')}", state)


def _used(key: str, model: str | None, start: str, record: Fields, state: Talk) -> list[LineFields]:
    given, output, read, written = (record.get(f"{start}{name}") for name in _COUNTS)
    if given is None or output is None:
        return []
    read, written = read or 0, written or 0
    counts = {"input": max(given - read - written, 0), "cache_read": read, "cache_write": written}
    return [entry.usage(state.voice, key, model, {**counts, "output": output})]


def _answer(content: list[dict[str, Any]], state: Talk) -> list[LineFields]:
    voice = state.voice
    notes = [
        entry.note(voice, "notification", block.get("msg") or str(block.get("type")))
        for block in content
        if block.get("type") not in _SPOKEN
    ]
    spoken = [block for block in content if block.get("type") in _SPOKEN]
    if not spoken:
        return notes
    for block in spoken:
        if "toolCall" in block:
            state.memory[str(block.get("id"))] = _call(block)[1]
    return [*notes, entry.assistant(voice, state.memory.get("model"), *_blocks(spoken))]


def _prompt(content: list[dict[str, Any]], is_hidden: bool, state: Talk) -> list[LineFields]:
    voice = state.voice
    result = [_result(block, state) for block in content if block.get("type") == "toolResponse"]
    said = _blocks(content)
    if said and is_hidden:
        text = "\n".join(block.get("text") or "" for block in said)
        return [*result, *entry.compaction(voice, text)]
    return [*result, entry.user(voice, said)] if said else result


def _call(block: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The tool and what it was given; a call that could not be read has none."""
    value = (block.get("toolCall") or {}).get("value") or {}
    given = value.get("arguments")
    return value.get("name") or "", given if isinstance(given, dict) else {}


def _blocks(content: list[dict[str, Any]]) -> list[LineFields]:
    result: list[LineFields] = []
    for block in content:
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            result.append({"type": "text", "text": block["text"]})
        elif kind == "thinking" and block.get("thinking"):
            result.append(blocks.thinking(block["thinking"]))
        elif kind == "image":
            source = {"type": "base64", "media_type": block.get("mimeType"), "data": block.get("data")}
            result.append({"type": "image", "source": source})
        elif kind in ("toolRequest", "frontendToolRequest"):
            result.append(blocks.tool_use(block.get("id"), *_call(block)))
    return result


def _result(block: dict[str, Any], state: Talk) -> LineFields:
    call, answer = str(block.get("id") or ""), block.get("toolResult") or {}
    value = answer.get("value")
    told = value if isinstance(value, dict) else {"content": value}
    said = told.get("content")
    failed = answer.get("status") == "error" or told.get("isError") is True
    parts = [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
    text: object = "\n".join(str(one.get("text") or "") for one in parts)
    line = entry.result(state.voice, call, text or str(answer.get("error") or ""), is_error=failed)
    given = state.memory.pop(call, None) or {}
    return line if failed else blocks.with_changes(line, _changed(given))


def _changed(given: dict[str, Any]) -> list[LineFields]:
    """What an edit was called with; its result says nothing."""
    if given.get("command") == "write":
        return blocks.written(given.get("path"), given.get("file_text"))
    if given.get("command") == "str_replace":
        return blocks.replaced(given.get("path"), [(given.get("old_str"), given.get("new_str"), False)])
    return []


class _State(Talk, kw_only=True):
    """Of a file, or of a database as ``Stored``."""

    sessions: dict[str, str] = msgspec.field(default_factory=dict)


class GooseDialect(RowDialect):
    """The database; where there is none yet, the files that the client takes into it at its next start."""

    State = _State  # type: ignore[assignment]

    def units(self, home: Path, problems: ReadProblems | None = None) -> list[Unit]:
        databases = super().units(home, problems)
        return databases or list(files_below(home, "sessions", (".jsonl",), problems))

    def mirror(self, unit: Unit, state: _State, into: AgentMirror) -> None:  # type: ignore[override]
        if unit.path.suffix == ".jsonl":
            LineDialect.mirror(self, unit, state, into)
        else:
            super().mirror(unit, state, into)  # type: ignore[arg-type]


DIALECT = GooseDialect(
    ("sessions/sessions.db",), _TABLES, _RECORD, begin=begin, lines=lines, listed=listed, rows=rows
)
