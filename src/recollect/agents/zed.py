"""Zed's own agent: a database with a row for each thread, which is a compressed document and rewritten at every change.

Messages have no times and calls no models: a thread has those of its row, and the model that was chosen last. Tokens are the
sum of all requests; where a version kept only the last request of each prompt, no usage is written.
"""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import zstandard

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.databases import LONGEST_VALUE, Tables
from recollect.agents.growth import Unit
from recollect.agents.lines import LineFields
from recollect.agents.loose import COUNT, Fields, Shape, parsed
from recollect.agents.records import Begun, RowDialect, Talk, unknown

_COUNTS = {
    "input": "input_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
    "output": "output_tokens",
}
_RESULT: Shape = {"tool_use_id": str, "is_error": bool}
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("table", "id", "root", "title", "cwd", "created_at", "updated_at", "role"), str),
    "id": (str, COUNT),
    "messages": COUNT,
    "model": {"model": str},
    "used": dict.fromkeys(_COUNTS.values(), COUNT),
    "User": {"content": [{}]},
    "Agent": {"content": [{}], "tool_results": {}},
    "segments": [{"type": str, "text": str}],
    "tool_uses": [{"id": str, "name": str, "input": ({}, str)}],
    "tool_results": [_RESULT],
    "is_hidden": bool,
}
_TABLES = {"threads": {"id", "summary", "updated_at", "data_type", "data"}}
_LISTED = "SELECT id, summary, updated_at, length(data) FROM threads ORDER BY {parents} rowid"
_THREAD = ("id", "summary", "updated_at", "created_at", "data_type", "data", "parent_id", "folder_paths")


def listed(tables: Tables) -> dict[str, str]:
    """The threads, those of sub-agents last."""
    parents = "parent_id IS NOT NULL," if "parent_id" in tables.columns["threads"] else ""
    return tables.marks("threads", _LISTED.format(parents=parents))


def rows(tables: Tables, session: str) -> list[Fields]:
    """What a thread is, its messages, and what it used; nothing of a thread in which nothing was said."""
    for row in tables.rows("threads", *_THREAD, where="id = ?", bound=(session,)):
        said = _document(row)
        messages = said.get("messages")
        if not isinstance(messages, list) or not messages:
            continue
        head: Fields = {name: row.get(name) for name in ("id", "created_at", "updated_at")}
        head |= {"table": "threads", "title": row.get("summary"), "messages": len(messages)}
        head |= {"root": _root(tables, row), "cwd": _directory(row, said), "model": said.get("model")}
        used = {"table": "used", "used": said.get("cumulative_token_usage"), "model": said.get("model")}
        return [head, *(one if isinstance(one, dict) else {str(one): {}} for one in messages), used]
    return []


def _document(row: Fields) -> Fields:
    data = row.get("data")
    data = data.encode() if isinstance(data, str) else data
    if row.get("data_type") == "zstd" and isinstance(data, bytes):
        try:
            data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read(LONGEST_VALUE + 1)
        except zstandard.ZstdError as cause:
            raise ValueError(str(cause)) from cause
    if not isinstance(data, bytes) or len(data) > LONGEST_VALUE:
        raise ValueError(f"no thread, or one of more than {LONGEST_VALUE:,} bytes")
    value = parsed(data)
    if not isinstance(value, dict):
        raise TypeError("no JSON object")
    return value


def _root(tables: Tables, row: Fields) -> str | None:
    root, above, seen = None, row.get("parent_id"), {row.get("id")}
    while above and above not in seen:
        seen.add(above)
        root = above
        parents = list(tables.rows("threads", "id", "parent_id", where="id = ?", bound=(above,)))
        above = parents[0].get("parent_id") if parents else None
    return root


def _directory(row: Fields, said: Fields) -> str:
    """The first of its folders, which old rows tell only in what was noted of their worktrees."""
    folders = str(row.get("folder_paths") or "").split("\n")[0]
    noted = (said.get("initial_project_snapshot") or {}).get("worktree_snapshots") or [{}]
    return folders or str(noted[0].get("worktree_path") or "")


def begin(unit: Unit, first: Fields) -> Begun:
    session = str(first.get("id"))
    return Begun(session=session, cwd=first.get("cwd") or "", owner=first.get("root"), key=session)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a message means: of the present form, or of that before 2026."""
    voice, memory = state.voice, state.memory
    if record.get("table") == "threads":
        voice.at, memory["ended"] = _moment(record.get("created_at")), _moment(record.get("updated_at"))
        memory["left"], memory["model"] = (
            record.get("messages") or 0,
            (record.get("model") or {}).get("model"),
        )
        title = record.get("title")
        return [entry.titled(voice.session, title) | {entry.IS_MIRRORED: True}] if title else []
    if record.get("table") == "used":
        return _used(record, state)
    memory["left"] -= 1
    voice.at = voice.at if memory["left"] and voice.at else memory["ended"]
    if "User" in record:
        content = (record.get("User") or {}).get("content") or []
        return [entry.user(voice, [block for part in content for block in _said(part)])]
    if "Agent" in record:
        said = record.get("Agent") or {}
        content = [block for part in said.get("content") or () for block in _said(part)]
        results = said.get("tool_results") or {}
        told = [results.get(block["id"]) for block in content if block["type"] == "tool_use"]
        answer = entry.assistant(voice, memory["model"], *content)
        return [answer, *(_result(one, voice) for one in told if isinstance(one, dict))]
    if "role" in record:
        return _older(record, state)
    return [] if "Resume" in record else unknown("message", state)


def _said(part: Fields) -> list[LineFields]:
    for kind, value in part.items():
        fields: Fields = value if isinstance(value, dict) else {}
        if kind == "Text":
            return [{"type": "text", "text": str(value)}]
        if kind == "Thinking":
            return [blocks.thinking(str(fields.get("text") or ""))]
        if kind == "Mention":
            return [{"type": "text", "text": str(fields.get("content") or "")}]
        if kind == "Image":
            source = {"type": "base64", "media_type": "image/png", "data": fields.get("source")}
            return [{"type": "image", "source": source}]
        if kind == "ToolUse":
            return [blocks.tool_use(fields.get("id"), fields.get("name"), fields.get("input"))]
    return []


def _result(told: Fields, voice: entry.Voice) -> LineFields:
    content, failed = told.get("content"), told.get("is_error") is True
    parts = content if isinstance(content, list) else [content]
    said = [part if isinstance(part, str) else (part or {}).get("Text") or "" for part in parts]
    line = entry.result(voice, str(told.get("tool_use_id") or ""), "\n".join(said), is_error=failed)
    output = told.get("output")
    if failed or not isinstance(output, dict) or "new_text" not in output:
        return line
    path, before = output.get("original_path"), output.get("old_text")
    changed = blocks.written(path, output["new_text"], original=before, diff=output.get("diff"))
    return blocks.with_changes(line, changed)


def _older(record: Fields, state: Talk) -> list[LineFields]:
    """Results stand in the prompt after the answer, which is then hidden."""
    content: list[LineFields] = []
    for part in record.get("segments") or ():
        text = part.get("text") or ""
        content.append(
            blocks.thinking(text) if part.get("type") == "thinking" else {"type": "text", "text": text}
        )
    content += [
        blocks.tool_use(call.get("id"), call.get("name"), call.get("input"))
        for call in record.get("tool_uses") or ()
    ]
    if record.get("role") == "assistant":
        return [entry.assistant(state.voice, state.memory["model"], *content)]
    results = [_result(told, state.voice) for told in record.get("tool_results") or ()]
    hidden: dict[str, Any] = {"isMeta": True} if record.get("role") == "system" else {}
    return [*results, *([entry.user(state.voice, content, **hidden)] if content else ())]


def _used(record: Fields, state: Talk) -> list[LineFields]:
    said = record.get("used") or {}
    counts = {ours: said.get(theirs) or 0 for ours, theirs in _COUNTS.items()}
    if not any(counts.values()):
        return []
    key = entry.key_of("zed", state.voice.session, state.voice.agent)
    return [entry.usage(state.voice, key, state.memory["model"], counts)]


def _moment(text: str | None) -> str | None:
    """Times have an offset, and nanoseconds."""
    try:
        when = dt.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return entry.moment(when.timestamp() * 1000)


DIALECT = RowDialect(
    ("threads/threads.db",), _TABLES, _RECORD, begin=begin, lines=lines, listed=listed, rows=rows
)
