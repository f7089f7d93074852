"""One small home of each agent with two sessions: one that tests change, one that must stay as it is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import zstandard

CHANGED, UNTOUCHED = "019a0000-0000-7000-8000-00000000000a", "019b0000-0000-7000-8000-00000000000b"
AT, MS = "2026-11-16T09:00:00.000Z", 1_763_283_600_000
Record = dict[str, object]


def codex(home: Path) -> Path:
    """Two rollouts; gives the one to be changed."""
    for name in (CHANGED, UNTOUCHED):
        _jsonl(_rollout(home, name), _codex_lines(name))
    _jsonl(home / "session_index.jsonl", [{"id": CHANGED, "thread_name": "named"}])
    return _rollout(home, CHANGED)


def codex_compressed(home: Path) -> Path:
    """The same, with the one to be changed compressed."""
    plain = codex(home)
    packed = plain.with_name(plain.name + ".zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))
    plain.unlink()
    return packed


def codex_bare(home: Path) -> Path:
    """The first era: items without an envelope."""
    codex(home)
    items = [line["payload"] for line in _codex_lines(CHANGED) if line["type"] == "response_item"]
    _jsonl(_rollout(home, CHANGED), [{"id": CHANGED, "timestamp": AT, "git": {"branch": "main"}}, *items])
    return _rollout(home, CHANGED)


def _rollout(home: Path, name: str) -> Path:
    return home / "sessions" / "2026" / "11" / "16" / f"rollout-2026-11-16T09-00-00-{name}.jsonl"


def _codex_lines(name: str) -> list[Record]:
    used = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 7, "reasoning_output_tokens": 2}
    said = [{"type": "output_text", "text": f"done {name}"}]
    payloads: list[tuple[str, Record]] = [
        (
            "session_meta",
            {"id": name, "cwd": "/w", "cli_version": "0.166.0", "git": {"branch": "main"}, "source": "cli"},
        ),
        ("turn_context", {"turn_id": f"{name[:-1]}1", "model": "gpt-5", "cwd": "/w"}),
        ("event_msg", {"type": "task_started", "turn_id": f"{name[:-1]}1"}),
        (
            "response_item",
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"ask {name}"}]},
        ),
        (
            "response_item",
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "content": None},
        ),
        (
            "response_item",
            {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"cmd": ["ls"]}'},
        ),
        ("response_item", {"type": "function_call_output", "call_id": "c1", "output": "Exit code: 0"}),
        (
            "response_item",
            {"type": "web_search_call", "id": "w1", "action": {"type": "search", "query": "q"}},
        ),
        ("response_item", {"type": "message", "role": "assistant", "content": said}),
        ("event_msg", {"type": "token_count", "info": {"total_token_usage": used, "last_token_usage": used}}),
        ("token_usage_record", {"turn_id": f"{name[:-1]}2", "response_id": f"r-{name}", "usage": used}),
        (
            "event_msg",
            {"type": "item_completed", "item": {"type": "x", "id": "c1", "receiver_thread_ids": []}},
        ),
        ("inter_agent_communication", {"author": "other", "content": "hello"}),
        (
            "compacted",
            {
                "message": "so far",
                "replacement_history": [{"type": "message", "role": "user", "content": "x"}],
            },
        ),
        ("event_msg", {"type": "thread_rolled_back", "num_turns": 1}),
        ("event_msg", {"type": "error", "message": "oops"}),
    ]
    return [
        {"timestamp": AT, "ordinal": number, "type": kind, "payload": payload}
        for number, (kind, payload) in enumerate(payloads)
    ]


def _gemini_messages(name: str) -> list[Record]:
    tokens = {"input": 50, "cached": 10, "output": 5, "thoughts": 1, "tool": 0, "total": 56}
    result = [{"functionResponse": {"id": "t1", "name": "write_file", "response": {"output": "created"}}}]
    call = {
        "id": "t1",
        "name": "write_file",
        "status": "success",
        "args": {"file_path": "/w/a", "content": "x"},
        "result": result,
        "resultDisplay": {"filePath": "/w/a", "newContent": "x", "fileDiff": "@@ -0,0 +1 @@"},
    }
    return [
        {"id": f"q-{name}", "timestamp": AT, "type": "user", "content": [{"text": f"ask {name}"}]},
        {
            "id": f"a-{name}",
            "timestamp": AT,
            "type": "gemini",
            "content": f"done {name}",
            "model": "gemini-3-pro",
            "thoughts": [{"subject": "s", "description": "d"}],
            "tokens": tokens,
            "toolCalls": [call],
        },
        {"id": f"i-{name}", "timestamp": AT, "type": "info", "content": "noted"},
    ]


def _gemini_meta(name: str) -> Record:
    return {
        "sessionId": name,
        "projectHash": "x",
        "startTime": AT,
        "lastUpdated": AT,
        "summary": f"about {name}",
    }


def gemini_document(home: Path) -> Path:
    """Files that are rewritten whole."""
    for name in (CHANGED, UNTOUCHED):
        path = home / "tmp" / "proj" / "chats" / f"session-2026-11-16T09-00-{name[:8]}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**_gemini_meta(name), "messages": _gemini_messages(name)}, indent=2))
    return path.with_name(f"session-2026-11-16T09-00-{CHANGED[:8]}.json")


def gemini_lines(home: Path) -> Path:
    """Files that grow."""
    for name in (CHANGED, UNTOUCHED):
        path = home / "tmp" / "proj" / "chats" / f"session-2026-11-16T09-00-{name[:8]}.jsonl"
        messages = _gemini_messages(name)
        _jsonl(
            path,
            [_gemini_meta(name), *messages, {"$rewindTo": f"i-{name}"}, {"$set": {"messages": messages[:2]}}],
        )
    return path.with_name(f"session-2026-11-16T09-00-{CHANGED[:8]}.jsonl")


def qwen(home: Path) -> Path:
    """Two chats."""
    for name in (CHANGED, UNTOUCHED):
        _jsonl(home / "projects" / "-w" / "chats" / f"{name}.jsonl", _qwen_lines(name))
    return home / "projects" / "-w" / "chats" / f"{CHANGED}.jsonl"


def _qwen_lines(name: str) -> Iterable[Record]:
    event = {
        "event.name": "qwen-code.api_response",
        "response_id": f"r-{name}",
        "model": "qwen3",
        "input_token_count": 60,
        "cached_content_token_count": 20,
        "output_token_count": 9,
        "thoughts_token_count": 1,
    }
    call = {"functionCall": {"id": "t1", "name": "edit", "args": {"file_path": "/w/a"}}}
    answer = {"functionResponse": {"id": "t1", "name": "edit", "response": {"output": "ok"}}}
    history = [{"role": "user", "parts": [{"text": "so far"}]}]
    bodies: list[Record] = [
        {
            "type": "user",
            "message": {"role": "user", "parts": [{"text": f"ask {name}"}]},
            "provenance": "real_user",
        },
        {
            "type": "assistant",
            "model": "qwen3",
            "message": {"role": "model", "parts": [{"text": f"done {name}"}, call]},
        },
        {
            "type": "tool_result",
            "message": {"role": "user", "parts": [answer]},
            "toolCallResult": {"status": "success"},
        },
        {"type": "system", "subtype": "ui_telemetry", "systemPayload": {"uiEvent": event}},
        {"type": "system", "subtype": "custom_title", "systemPayload": {"customTitle": "named"}},
        {
            "type": "system",
            "subtype": "chat_compression",
            "systemPayload": {"compressedHistory": history, "info": {"triggerReason": "auto"}},
        },
    ]
    for number, body in enumerate(bodies):
        before = f"{name[:-2]}{number - 1:02}" if number else None
        place = {"sessionId": name, "timestamp": AT, "cwd": "/w", "gitBranch": "main", "version": "0.24.4"}
        yield {"uuid": f"{name[:-2]}{number:02}", "parentUuid": before, **place, **body}


def opencode_files(home: Path) -> Path:
    """Records in files; gives the directory of the session to be changed."""
    for name in ("ses_0a", "ses_0b"):
        session, message, parts = _opencode_records(name)
        _json(home / "storage" / "session" / "p" / f"{name}.json", session)
        for one in message:
            _json(home / "storage" / "message" / name / f"{one['id']}.json", one)
        for one in parts:
            _json(home / "storage" / "part" / str(one["messageID"]) / f"{one['id']}.json", one)
    return home / "storage"


def opencode_database(home: Path) -> Path:
    """The same in a database with a write-ahead log."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE project (id TEXT PRIMARY KEY, worktree TEXT);"
            "CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT, version TEXT, time_created INTEGER);"
            "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);"
            "CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);"
            "CREATE TABLE todo (session_id TEXT, content TEXT, position INTEGER);"
            "CREATE TABLE event (id TEXT, aggregate_id TEXT, seq INTEGER, type TEXT, data TEXT);"
        )
        for name in ("ses_0a", "ses_0b"):
            session, messages, parts = _opencode_records(name)
            database.execute(
                "INSERT INTO session VALUES (?, NULL, ?, ?, ?, ?)",
                (name, session["directory"], session["title"], session["version"], MS),
            )
            database.execute("INSERT INTO todo VALUES (?, 'do', 0)", (name,))
            for one in messages:
                database.execute(
                    "INSERT INTO message VALUES (?, ?, ?, ?)", (one["id"], name, MS, json.dumps(one))
                )
            for one in parts:
                row = (one["id"], one["messageID"], name, MS, json.dumps(one))
                database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", row)
            gone = {**messages[1], "id": f"msg_{name[-2:]}3"}
            database.execute(
                "INSERT INTO event VALUES (?, ?, 1, 'message.updated.1', ?)",
                (name, name, json.dumps({"info": gone})),
            )
        database.commit()
    return path


def _opencode_records(name: str) -> tuple[Record, list[Record], list[Record]]:
    tokens = {"input": 70, "output": 8, "reasoning": 0, "cache": {"read": 30, "write": 0}}
    session: Record = {
        "id": name,
        "directory": "/w",
        "title": f"about {name}",
        "version": "1.1.34",
        "time": {"created": MS},
    }
    asked, answered = f"msg_{name[-2:]}1", f"msg_{name[-2:]}2"
    messages: list[Record] = [
        {"id": asked, "sessionID": name, "role": "user", "time": {"created": MS}},
        {
            "id": answered,
            "sessionID": name,
            "role": "assistant",
            "modelID": "gpt-5",
            "providerID": "openai",
            "time": {"created": MS + 1},
            "path": {"cwd": "/w"},
            "tokens": tokens,
            "cost": 0.5,
        },
    ]
    state = {
        "status": "completed",
        "input": {"filePath": "/w/a", "content": "x"},
        "output": "ok",
        "metadata": {},
    }
    bodies: list[Record] = [
        {"messageID": asked, "type": "text", "text": f"ask {name}"},
        {"messageID": answered, "type": "reasoning", "text": "hm"},
        {"messageID": answered, "type": "tool", "tool": "write", "callID": "c1", "state": state},
        {"messageID": answered, "type": "text", "text": f"done {name}"},
        {"messageID": answered, "type": "step-finish", "tokens": tokens, "cost": 0.5},
    ]
    parts = [
        {"id": f"prt_{name[-2:]}{number}", "sessionID": name, **body} for number, body in enumerate(bodies)
    ]
    return session, messages, parts


def _json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def _jsonl(path: Path, records: Iterable[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
