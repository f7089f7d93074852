"""Databases of agents, of our own making: the rows of each table."""

from __future__ import annotations

import json
from typing import Any

import zstandard

SESSION = "7b0e4c52-1111-4222-8333-444455556666"
Record = dict[str, Any]


def crush() -> Record:
    """A project's database: an edit with its result, a failed call, a summary, and how the title was made."""
    edit = {"file_path": "/srv/app/a.py", "old_string": "one", "new_string": "two"}
    calls = [
        {"type": "tool_call", "data": {"id": "c1", "name": "edit", "input": json.dumps(edit)}},
        {"type": "tool_call", "data": {"id": "c2", "name": "edit", "input": json.dumps(edit)}},
    ]
    about = json.dumps({"old_content": "one", "new_content": "two"})
    results = [
        {"type": "tool_result", "data": {"tool_call_id": "c1", "content": "done", "metadata": about}},
        {"type": "tool_result", "data": {"tool_call_id": "c2", "content": "no", "is_error": True}},
    ]
    said = [
        ("user", [_crush_text("Paint the door")]),
        ("assistant", [_crush_text("I will"), *calls]),
        ("tool", results),
        (
            "assistant",
            [_crush_text("Done"), {"type": "finish", "data": {"reason": "error", "message": "late"}}],
        ),
        ("assistant", [_crush_text("A door was painted")]),
    ]
    session = {"parent_session_id": None, "title": "Doors", "cost": 1.5, "created_at": 1_794_000_000}
    times = {"created_at": 1_794_000_000, "updated_at": 1_794_000_000}
    return {
        "sessions": [
            {"id": SESSION, **session, "prompt_tokens": 7, "updated_at": 1_794_000_000},
            {"id": f"title-{SESSION}", **session, "prompt_tokens": 7, "updated_at": 1_794_000_000},
        ],
        "messages": [
            {"id": f"m{n}", "session_id": SESSION, "role": role, "parts": parts, "model": "m", **times}
            | {"is_summary_message": int(n == 4)}
            for n, (role, parts) in enumerate(said)
        ],
    }


def _crush_text(text: str) -> Record:
    return {"type": "text", "data": {"text": text}}


def goose() -> Record:
    """A database with a ledger: input holds the cache."""
    edit = {"command": "str_replace", "path": "/srv/app/a.py", "old_str": "one", "new_str": "two"}
    call = {"status": "success", "value": {"name": "developer__text_editor", "arguments": edit}}
    answer = {"status": "success", "value": {"content": [{"type": "text", "text": "ok"}], "isError": False}}
    shown, hidden = {"userVisible": True}, {"userVisible": False}
    said = [
        ("user", {"type": "text", "text": "Paint the door"}, shown),
        ("assistant", {"type": "text", "text": "I will"}, shown),
        ("assistant", {"type": "toolRequest", "id": "c1", "toolCall": call}, shown),
        ("user", {"type": "toolResponse", "id": "c1", "toolResult": answer}, shown),
        ("user", {"type": "text", "text": "So far: a door"}, hidden),
        ("assistant", {"type": "systemNotification", "msg": "Compaction complete"}, shown),
        ("assistant", {"type": "text", "text": "Done"}, shown),
    ]
    session = {"id": "20261116_1", "name": "Doors", "session_type": "user", "working_dir": "/srv/app"}
    used = {"input_tokens": 15, "output_tokens": 5, "cache_read_tokens": 3, "cache_write_tokens": 2}
    return {
        "sessions": [session | {"updated_at": "2026-11-16 09:00:00", "accumulated_input_tokens": 99}],
        "messages": [
            {"id": n, "session_id": "20261116_1", "role": role, "content_json": [block]}
            | {"created_timestamp": 1_794_000_000 + n, "metadata_json": about}
            for n, (role, block, about) in enumerate(said)
        ],
        "usage_ledger": [
            {"id": 1, "session_id": "20261116_1", "created_timestamp": 1_794_000_002, "model": "m", **used}
        ],
    }


def hermes() -> Record:
    """A session of a model with totals by model, and what it delegated; a prompt that was taken back."""
    edit = json.dumps({"path": "/srv/app/a.py", "content": "two"})
    call = {"id": "c1", "type": "function", "function": {"name": "write_file", "arguments": edit}}
    said = [
        ("user", "Paint the door", None, None, 1),
        ("assistant", "I will", [call], None, 1),
        ("tool", '{"ok": true}', None, "c1", 1),
        ("user", "No, the wall", None, None, 0),
        ("assistant", "Done", None, None, 1),
    ]
    session = {"id": "20261116_090000_abcdef", "parent_session_id": None, "title": "Doors", "cwd": "/srv/app"}
    times = {"started_at": 1_794_000_000.5, "ended_at": None, "end_reason": None}
    counts = {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 3, "cache_write_tokens": 2}
    child = {
        "id": "20261116_090001_abcdef",
        "parent_session_id": session["id"],
        "title": "",
        "cwd": "/srv/app",
    }
    return {
        "sessions": [session | times | counts, child | times | dict.fromkeys(counts, 0)],
        "messages": [
            {"id": n, "session_id": session["id"], "role": role, "content": text, "tool_calls": calls}
            | {"tool_call_id": answered, "timestamp": 1_794_000_001.5 + n, "active": active, "compacted": 0}
            for n, (role, text, calls, answered, active) in enumerate(said)
        ],
        "session_model_usage": [{"session_id": session["id"], "model": "m", "task": "", **counts}],
    }


def zed() -> Record:
    """A thread of the present form."""
    given = {"path": "app/a.py", "mode": "edit"}
    output = {"original_path": "/srv/app/a.py", "old_text": "one", "new_text": "two"}
    result = {"tool_use_id": "c1", "is_error": False, "content": [{"Text": "ok"}], "output": output}
    calls = [{"Text": "I will"}, {"ToolUse": {"id": "c1", "name": "edit_file", "input": given}}]
    thread = {
        "messages": [
            {"User": {"id": "u1", "content": [{"Text": "Paint the door"}]}},
            {"Agent": {"content": calls, "tool_results": {"c1": result}}},
            "Resume",
            {
                "Agent": {
                    "content": [{"Thinking": {"text": "It dries"}}, {"Text": "Done"}],
                    "tool_results": {},
                }
            },
        ],
        "cumulative_token_usage": {
            "input_tokens": 10,
            "output_tokens": 5,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 2,
        },
        "model": {"provider": "p", "model": "m"},
    }
    data = zstandard.ZstdCompressor().compress(json.dumps(thread).encode())
    row = {"id": SESSION, "summary": "Doors", "updated_at": "2026-11-16T09:00:05.123456789+00:00"}
    place = {"folder_paths": "/srv/app", "created_at": "2026-11-16T09:00:00Z", "parent_id": None}
    empty = json.dumps({"messages": []})
    return {
        "threads": [
            row | {"data_type": "zstd", "data": data} | place,
            row | {"id": "empty", "data_type": "json", "data": empty} | place,
        ]
    }


def kiro() -> Record:
    """A conversation that both tables have, and a call that its user refused with a prompt."""
    edit = {"command": "str_replace", "path": "/srv/app/a.py", "old_str": "one", "new_str": "two"}
    calls = [{"id": "c1", "name": "fs_write", "args": edit}]
    done = {"tool_use_id": "c1", "content": [{"Text": "ok"}], "status": "Success"}
    refused = {"tool_use_id": "c2", "content": [{"Text": "no"}], "status": "Error"}
    turns = [
        ({"Prompt": {"prompt": "Paint the door"}}, {"ToolUse": {"content": "I will", "tool_uses": calls}}),
        (
            {"ToolUseResults": {"tool_use_results": [done]}},
            {"ToolUse": {"content": "Again", "tool_uses": [calls[0] | {"id": "c2"}]}},
        ),
        (
            {"CancelledToolUses": {"prompt": "Enough", "tool_use_results": [refused]}},
            {"Response": {"content": "Done"}},
        ),
    ]
    history = [
        {"user": {"content": said}, "assistant": answer, "request_metadata": {"model_id": "m"}}
        for said, answer in turns
    ]
    value = {"conversation_id": SESSION, "history": history}
    times = {"created_at": 1_794_000_000_000, "updated_at": 1_794_000_000_000}
    return {
        "conversations": [{"key": "/srv/app", "value": value}],
        "conversations_v2": [{"key": "/srv/app", "conversation_id": SESSION, "value": value, **times}],
    }
