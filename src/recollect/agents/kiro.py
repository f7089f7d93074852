"""Kiro CLI and Amazon Q Developer CLI: a database with a conversation for each directory, rewritten at every turn.

No tokens are recorded, only credits of the last turn. Beside the conversations the database holds keys and the history of the
shell: only the two tables of conversations are read.
"""

from __future__ import annotations

from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.databases import Tables
from recollect.agents.growth import Unit
from recollect.agents.lines import LineFields
from recollect.agents.loose import NUMBER, Fields, Shape, parsed
from recollect.agents.records import Begun, RowDialect, Talk, millis

_RESULT: Shape = {"tool_use_id": str, "content": [{}], "status": str}
_CONTENT: Shape = {"prompt": str, "tool_use_results": [_RESULT]}
_ANSWER: Shape = {"content": str, "thinking": ({}, str), "tool_uses": [{"id": str, "name": str, "args": {}}]}
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("table", "id", "cwd", "summary", "model"), str),
    "user": {
        "timestamp": str,
        "content": dict.fromkeys(("Prompt", "ToolUseResults", "CancelledToolUses"), _CONTENT),
    },
    "assistant": dict.fromkeys(("Response", "ToolUse"), _ANSWER),
    "request_metadata": {
        **dict.fromkeys(("request_start_timestamp_ms", "stream_end_timestamp_ms"), NUMBER),
        "model_id": str,
    },
}
_ID = "CASE WHEN json_valid(value) THEN json_extract(value, '$.conversation_id') END"
_LATER = """
SELECT conversation_id, max(updated_at), key, length(value) FROM conversations_v2
GROUP BY conversation_id ORDER BY min(rowid)
"""
# It tells no time: a conversation grows at its end.
_OLDER = f"SELECT {_ID}, key, length(value), substr(value, -4000) FROM conversations WHERE {_ID} IS NOT NULL"  # noqa: S608 - constants


def listed(tables: Tables) -> dict[str, str]:
    """The conversations. The later table has those of the older one, too; a store may have neither."""
    older = tables.marks("conversations", _OLDER) if "conversations" in tables.columns else {}
    later = tables.marks("conversations_v2", _LATER) if "conversations_v2" in tables.columns else {}
    return older | later


def rows(tables: Tables, session: str) -> list[Fields]:
    """A conversation as it was under the directory that had it last, and its turns."""
    wanted, bound = ("key", "value", "updated_at"), (session,)
    later = list(tables.rows("conversations_v2", *wanted, where="conversation_id = ?", bound=bound))
    found = later or list(tables.rows("conversations", *wanted, where=f"{_ID} = ?", bound=bound))
    row = max(found, key=lambda one: one.get("updated_at") or 0, default=None)
    value = parsed(str(row["value"]).encode()) if row is not None else None
    if row is None or not isinstance(value, dict):
        return []
    summary, model = value.get("latest_summary"), value.get("model_info")
    head = {"table": "conversations", "id": session, "cwd": row["key"]}
    head |= {"summary": summary[0]} if isinstance(summary, list) and summary else {}
    head |= {"model": model.get("model_id")} if isinstance(model, dict) else {}
    turns = value.get("history")
    return [head, *(turn for turn in turns if isinstance(turn, dict))] if isinstance(turns, list) else [head]


def begin(unit: Unit, first: Fields) -> Begun:
    session = str(first.get("id"))
    return Begun(session=session, cwd=first.get("cwd") or "", key=session)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a turn means: a prompt or results, and the answer. What was compacted is in the store no more."""
    voice, about = state.voice, record.get("request_metadata") or {}
    if record.get("table") == "conversations":
        state.memory["model"] = record.get("model")
        return entry.compaction(voice, record["summary"]) if record.get("summary") else []
    voice.at = millis(about.get("request_start_timestamp_ms")) or voice.at
    result: list[LineFields] = []
    for said in ((record.get("user") or {}).get("content") or {}).values():
        told = said.get("tool_use_results") or () if isinstance(said, dict) else ()
        result += [_result(one, state) for one in told]
        if isinstance(said, dict) and said.get("prompt"):
            result.append(entry.user(voice, said["prompt"]))
    voice.at = millis(about.get("stream_end_timestamp_ms")) or voice.at
    model = about.get("model_id") or state.memory.get("model")
    answers = (record.get("assistant") or {}).values()
    return [*result, *(_answer(said, model, state) for said in answers if isinstance(said, dict))]


def _answer(said: dict[str, Any], model: str | None, state: Talk) -> LineFields:
    thought = said.get("thinking")
    thought = thought.get("text") if isinstance(thought, dict) else thought
    content = [blocks.thinking(str(thought))] if thought else []
    content += [{"type": "text", "text": said["content"]}] if said.get("content") else []
    for call in said.get("tool_uses") or ():
        content.append(blocks.tool_use(call.get("id"), call.get("name"), call.get("args")))
        state.memory[f"call:{call.get('id')}"] = call
    return entry.assistant(state.voice, model, *content)


def _result(told: dict[str, Any], state: Talk) -> LineFields:
    call, failed = told.get("tool_use_id") or "", told.get("status") == "Error"
    said = [part.get("Text", part.get("Json")) for part in told.get("content") or ()]
    texts = [one if isinstance(one, str) else entry.encode(one).decode() for one in said]
    line = entry.result(state.voice, call, "\n".join(texts), is_error=failed)
    sent = state.memory.pop(f"call:{call}", None) or {}
    is_edit = sent.get("name") == "fs_write" and not failed
    return blocks.with_changes(line, _changed(sent.get("args") or {})) if is_edit else line


def _changed(given: dict[str, Any]) -> list[LineFields]:
    """What a write was called with; what an insertion leaves is not known."""
    if given.get("command") == "create":
        return blocks.written(given.get("path"), given.get("file_text"))
    if given.get("command") == "str_replace":
        return blocks.replaced(given.get("path"), [(given.get("old_str"), given.get("new_str"), False)])
    return []


DIALECT = RowDialect(
    ("data.sqlite3",),
    {"conversations": set(), "conversations_v2": set()},
    _RECORD,
    begin=begin,
    lines=lines,
    listed=listed,
    rows=rows,
)
