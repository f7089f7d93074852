"""One small home of each agent with two sessions: one that tests change, one that must stay as it is.

What the first says stands in ``tiny/``, a record a line; the second says the same under its own name.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import zstandard

CHANGED, UNTOUCHED = "019a0000-0000-7000-8000-00000000000a", "019b0000-0000-7000-8000-00000000000b"
AT, MS = "2026-11-16T09:00:00.000Z", 1_763_283_600_000
Record = dict[str, Any]
_TABLES = """
CREATE TABLE project (id TEXT PRIMARY KEY, worktree TEXT);
CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT, version TEXT, time_created INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE todo (session_id TEXT, content TEXT, position INTEGER);
CREATE TABLE event (id TEXT, aggregate_id TEXT, seq INTEGER, type TEXT, data TEXT);
"""


def _records(agent: str, name: str) -> list[Record]:
    text = Path(__file__).with_name("tiny").joinpath(f"{agent}.jsonl").read_text()
    for own, other in (
        ((CHANGED, name), (CHANGED[:8], name[:8])) if agent != "opencode" else (("0a", name[-2:]),)
    ):
        text = text.replace(own, other)
    return [json.loads(line) for line in text.splitlines()]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _lines(path: Path, records: list[Record]) -> Path:
    return _write(path, "".join(json.dumps(record) + "\n" for record in records))


def codex(home: Path) -> Path:
    """Two rollouts; gives the one to be changed."""
    _lines(home / "session_index.jsonl", [{"id": CHANGED, "thread_name": "named"}])
    _lines(_rollout(home, UNTOUCHED), _records("codex", UNTOUCHED))
    return _lines(_rollout(home, CHANGED), _records("codex", CHANGED))


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
    items = [line["payload"] for line in _records("codex", CHANGED) if line["type"] == "response_item"]
    first = {"id": CHANGED, "timestamp": AT, "git": {"branch": "main"}}
    return _lines(_rollout(home, CHANGED), [first, *items])


def _rollout(home: Path, name: str) -> Path:
    return home / "sessions" / "2026" / "11" / "16" / f"rollout-2026-11-16T09-00-00-{name}.jsonl"


def gemini_document(home: Path) -> Path:
    """Files that are rewritten whole."""
    for name in (UNTOUCHED, CHANGED):
        meta, *messages = _records("gemini", name)
        path = home / "tmp" / "proj" / "chats" / f"session-2026-11-16T09-00-{name[:8]}.json"
        _write(path, json.dumps({**meta, "messages": messages}, indent=2))
    return path


def gemini_lines(home: Path) -> Path:
    """Files that grow."""
    for name in (UNTOUCHED, CHANGED):
        meta, *messages = _records("gemini", name)
        path = home / "tmp" / "proj" / "chats" / f"session-2026-11-16T09-00-{name[:8]}.jsonl"
        folds: list[Record] = [{"$rewindTo": f"i-{name}"}, {"$set": {"messages": messages[:2]}}]
        _lines(path, [meta, *messages, *folds])
    return path


def qwen(home: Path) -> Path:
    """Two chats."""
    for name in (UNTOUCHED, CHANGED):
        path = _lines(home / "projects" / "-w" / "chats" / f"{name}.jsonl", _records("qwen", name))
    return path


def opencode_files(home: Path) -> Path:
    """Records in files; gives the directory of the session to be changed."""
    for name in ("ses_0a", "ses_0b"):
        session, *records = _records("opencode", name)
        _write(home / "storage" / "session" / "p" / f"{name}.json", json.dumps(session))
        for record in records:
            above = f"part/{record['messageID']}" if "messageID" in record else f"message/{name}"
            _write(home / "storage" / above / f"{record['id']}.json", json.dumps(record))
    return home / "storage"


def opencode_database(home: Path) -> Path:
    """The same in a database with a write-ahead log."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(_TABLES)
        for name in ("ses_0a", "ses_0b"):
            session, *records = _records("opencode", name)
            row = (name, session["directory"], session["title"], session["version"], MS)
            database.execute("INSERT INTO session VALUES (?, NULL, ?, ?, ?, ?)", row)
            database.execute("INSERT INTO todo VALUES (?, 'do', 0)", (name,))
            for record in records:
                kept = (name, MS, json.dumps(record))
                if "messageID" in record:
                    ids = (record["id"], record["messageID"])
                    database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", (*ids, *kept))
                else:
                    database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (record["id"], *kept))
            gone = json.dumps({"info": {**records[1], "id": f"msg_{name[-2:]}3"}})
            database.execute("INSERT INTO event VALUES (?, ?, 1, 'message.updated.1', ?)", (name, name, gone))
        database.commit()
    return path
