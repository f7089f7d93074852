"""Databases of agents, of our own making: the rows of each table."""

from __future__ import annotations

import json
from typing import Any

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
