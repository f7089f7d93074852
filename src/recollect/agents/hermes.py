"""Hermes Agent: a database for each profile.

Tokens are told of each session as a whole, by model where the version has a table for that; they grow while it does, and one
name stands for all states of a total. A session that goes on after a compaction, a branch and a new conversation are sessions of
their own; what a session delegated is its sub-agent.
"""

from __future__ import annotations

from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.databases import Tables
from recollect.agents.growth import Unit
from recollect.agents.lines import LineFields
from recollect.agents.loose import ANY, COUNT, NUMBER, Fields, Shape, parsed
from recollect.agents.records import Begun, RowDialect, Talk, decoded, millis, unknown

_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_CALL: Shape = {"id": str, "call_id": str, "function": {"name": str, "arguments": (str, {})}}
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("table", "id", "root", "title", "cwd", "git_branch", "role", "model", "task"), str),
    **dict.fromkeys(("tool_call_id", "reasoning", "reasoning_content", "display_kind"), str),
    **dict.fromkeys(_COUNTS, COUNT),
    "id": (str, COUNT),
    "content": (str, [{}]),
    "tool_calls": [_CALL],
    **dict.fromkeys(("timestamp", "started_at"), NUMBER),
    **dict.fromkeys(("active", "compacted", "_compressed_summary"), ANY),
}
_TABLES: dict[str, set[str]] = {
    "sessions": {"id", "parent_session_id", "started_at", "ended_at", "end_reason"},
    "messages": {"id", "session_id", "role", "content", "tool_calls", "timestamp"},
    "session_model_usage": set(),
}
_LISTED = """
SELECT s.id, s.end_reason, count(m.id), max(m.id), sum(length(m.content)), {more}
FROM sessions s LEFT JOIN messages m ON m.session_id = s.id GROUP BY s.id ORDER BY s.rowid
"""
_SESSION = (
    *(
        "id",
        "parent_session_id",
        "source",
        "model",
        "model_config",
        "title",
        "cwd",
        "git_branch",
        "started_at",
    ),
    *("ended_at", "end_reason", *_COUNTS),
)
_MESSAGE = (
    *("id", "role", "content", "tool_call_id", "tool_calls", "timestamp", "reasoning", "reasoning_content"),
    *("active", "compacted", "_compressed_summary", "display_kind"),
)
_MODEL = ("model", "task", *_COUNTS)
# How a session ends that another one goes on with.
_GOES_ON = ("compression", "branched")


def listed(tables: Tables) -> dict[str, str]:
    """The sessions; versions have other columns."""
    more = [f"s.{name}" for name in ("title", *_COUNTS) if name in tables.columns["sessions"]]
    more += [f"total(m.{name})" for name in ("active", "compacted") if name in tables.columns["messages"]]
    if "session_model_usage" in tables.columns:
        used = "total(u.input_tokens) + total(u.output_tokens) + total(u.cache_read_tokens)"
        more.append(f"(SELECT {used} FROM session_model_usage u WHERE u.session_id = s.id)")  # noqa: S608 - constants
    return tables.marks("messages", _LISTED.format(more=", ".join(more) or "0"))


def rows(tables: Tables, session: str) -> list[Fields]:
    """A session, with the one that delegated it, its messages, and what each model used; nothing where all that is missing."""
    heads = [{"table": "sessions", **row} for row in _session(tables, session)]
    if not heads:
        return []
    root, above, seen = None, _delegating(tables, heads[0]), {session}
    while above is not None and above["id"] not in seen:
        seen.add(above["id"])
        root, above = above["id"], _delegating(tables, above)
    spoken = list(tables.rows("messages", *_MESSAGE, where="session_id = ?", bound=(session,)))
    used = list(tables.rows("session_model_usage", *_MODEL, where="session_id = ?", bound=(session,)))
    if not spoken and not used and not any(heads[0].get(name) for name in _COUNTS):
        return []
    totals = used or [{name: heads[0].get(name) for name in _MODEL}]
    return [
        heads[0] | {"root": root},
        *(_message(row) for row in spoken),
        *({"table": "usage", **row} for row in totals),
    ]


def _session(tables: Tables, session: object) -> list[Fields]:
    found = tables.rows("sessions", *_SESSION, where="id = ?", bound=(session,))
    return [decoded(row, "model_config") for row in found]


def _delegating(tables: Tables, session: Fields) -> Fields | None:
    """The session whose sub-agent one is: of a marker only one that names the parent counts, others are inherited."""
    parent = next(iter(_session(tables, session.get("parent_session_id"))), None)
    if parent is None:
        return None
    config = session.get("model_config")
    marks = config if isinstance(config, dict) else {}
    if marks.get("_delegate_from") == parent["id"]:
        return parent
    if parent["id"] in (marks.get("_branched_from"), marks.get("_reset_from")):
        return None
    ended = parent.get("ended_at")
    is_during = not ended or (session.get("started_at") or 0) < ended
    return parent if parent.get("end_reason") not in _GOES_ON and is_during else None


def _message(row: Fields) -> Fields:
    """Content is text, or a list with images as text."""
    said = decoded(row, "tool_calls")
    if str(row.get("content")).startswith('[{"type"'):
        said = decoded(said, "content")
    return said


def begin(unit: Unit, first: Fields) -> Begun:
    return Begun(
        session=str(first.get("id")),
        cwd=first.get("cwd") or "",
        owner=first.get("root"),
        key=str(unit.path.parent),
    )


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a row means. What was taken back is a branch that nothing follows."""
    voice, table, role = state.voice, record.get("table"), record.get("role")
    if table == "sessions":
        voice.at, voice.branch = millis(record.get("started_at")), record.get("git_branch")
        state.memory["model"] = record.get("model")
        title = record.get("title")
        return [entry.titled(voice.session, title) | {entry.IS_MIRRORED: True}] if title else []
    if table == "usage":
        return _used(record, state)
    voice.at = millis(record.get("timestamp")) or voice.at
    leaf, is_back = voice.leaf, record.get("active") == 0 and not record.get("compacted")
    result = _spoken(str(role), record, state)
    voice.leaf = leaf if is_back else voice.leaf
    return result


def _spoken(role: str, record: Fields, state: Talk) -> list[LineFields]:
    voice, content = state.voice, record.get("content") or ""
    if role == "user" and record.get("_compressed_summary"):
        return entry.compaction(voice, content if isinstance(content, str) else "")
    if role == "user":
        hidden = {"isMeta": True} if record.get("display_kind") == "hidden" else {}
        return [entry.user(voice, _blocks(content), **hidden)]
    if role == "assistant":
        return [_answer(record, state)]
    if role == "tool":
        return [_result(record, content, state)]
    return [] if role in ("session_meta", "system") else unknown(f"message:{role}", state)


def _answer(record: Fields, state: Talk) -> LineFields:
    thought = record.get("reasoning") or record.get("reasoning_content")
    content = [blocks.thinking(thought)] if thought else []
    content += _blocks(record.get("content") or "")
    for call in record.get("tool_calls") or ():
        function, name = call.get("function") or {}, call.get("id") or call.get("call_id") or ""
        given = function.get("arguments")
        given = parsed(given.encode()) if isinstance(given, str) else given
        content.append(blocks.tool_use(name, function.get("name"), given))
        state.memory[f"call:{name}"] = (function.get("name"), given)
    return entry.assistant(state.voice, state.memory.get("model"), *content)


def _blocks(content: object) -> list[LineFields]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    result: list[LineFields] = []
    for part in content if isinstance(content, list) else ():
        image = part.get("image_url")
        if isinstance(image, dict):
            result.append({"type": "image", "source": {"type": "url", "url": str(image.get("url"))}})
        elif isinstance(part.get("text"), str):
            result.append({"type": "text", "text": part["text"]})
    return result


def _result(record: Fields, content: object, state: Talk) -> LineFields:
    """Whether a call failed is told only in the text."""
    call = record.get("tool_call_id") or ""
    said = parsed(content.encode()) if isinstance(content, str) else None
    failed = isinstance(said, dict) and bool(said.get("error"))
    line = entry.result(
        state.voice, call, content if isinstance(content, str) else _blocks(content), is_error=failed
    )
    name, given = state.memory.pop(f"call:{call}", None) or ("", None)
    return line if failed else blocks.with_changes(line, _changed(name, given, state.voice.cwd))


def _changed(name: str, given: Any, cwd: str) -> list[LineFields]:
    """What an edit was called with."""
    if not isinstance(given, dict) or name not in ("write_file", "patch"):
        return []
    if name == "write_file":
        return blocks.written(given.get("path"), given.get("content"))
    if "old_string" in given:
        step = (given["old_string"], given.get("new_string"), given.get("replace_all"))
        return blocks.replaced(given.get("path"), [step])
    return blocks.in_patch(str(given.get("patch") or ""), cwd)


def _used(record: Fields, state: Talk) -> list[LineFields]:
    """What a model used in the whole session; nothing where nothing was counted."""
    given, output, read, written, reasoning = (record.get(name) or 0 for name in _COUNTS)
    counts = {"input": given, "cache_read": read, "cache_write": written, "output": output}
    if not any(counts.values()):
        return []
    model, voice = record.get("model"), state.voice
    key = entry.key_of("hermes", voice.session, voice.agent, model, record.get("task"))
    about = {"output_tokens_details": {"thinking_tokens": reasoning}} if reasoning else {}
    return [entry.usage(voice, key, model, counts, **about)]


DIALECT = RowDialect(
    ("state.db", "profiles/*/state.db"),
    _TABLES,
    _RECORD,
    begin=begin,
    lines=lines,
    listed=listed,
    rows=rows,
)
