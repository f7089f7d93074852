"""A Claude home of a few short sessions, for tests of commands that change something."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from recollect.model.project_key import project_key

ONE = "3f2a9c1e-0000-4000-8000-000000000001"
TWO = "5b1d9c1e-0000-4000-8000-000000000002"


def link(number: int, after: int | None, session: str = ONE, **fields: Any) -> dict[str, Any]:
    """A chain entry; ``number`` gives its id and its time, ``after`` names the entry it follows."""
    return {
        "parentUuid": None if after is None else uuid_of(after),
        "isSidechain": False,
        "userType": "external",
        "cwd": "/srv/app",
        "sessionId": session,
        "version": "2.1.325",
        "gitBranch": "",
        **fields,
        "uuid": uuid_of(number),
        "timestamp": f"2026-11-15T10:{number // 60:02d}:{number % 60:02d}.000Z",
    }


def uuid_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def prompt(number: int, after: int | None, text: str | list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return link(number, after, type="user", message={"role": "user", "content": text}, **fields)


def reply(
    number: int, after: int, *blocks: dict[str, Any], answer: str = "", **fields: Any
) -> dict[str, Any]:
    message = {
        "id": answer or f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": list(blocks),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 20,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }
    return link(
        number, after, type="assistant", message=message, requestId=f"req_{answer or number}", **fields
    )


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": "/a"}}


def outcome(number: int, after: int, name: str, text: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": name, "content": text}
    return link(number, after, type="user", message={"role": "user", "content": [block]})


TALK = [prompt(1, None, "Q1"), reply(2, 1, said("A1")), prompt(3, 2, "Q2"), reply(4, 3, said("A2"))]


def lines(entries: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(entry, separators=(",", ":")).encode() + b"\n" for entry in entries)


def put(home: Path, session: str, entries: list[dict[str, Any]], cwd: str = "/srv/app") -> Path:
    """Store a session where a client started in ``cwd`` would look for it."""
    log = home / "projects" / project_key(cwd) / f"{session}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    moved = [{**entry, "sessionId": session} for entry in entries]
    moved = [{**entry, "cwd": cwd} if "cwd" in entry else entry for entry in moved]
    log.write_bytes(lines(moved))
    return log


def written(path: Path) -> list[dict[str, Any]]:
    """The entries of a log, each line of which must be whole."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def state(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below a directory: mode, time and bytes."""
    found = {}
    for path in sorted(root.rglob("*")):
        seen = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(root))] = (seen.st_mode, 0 if path.is_dir() else seen.st_mtime_ns, data)
    return found


def open_in_this_process(home: Path, session: str) -> None:
    """Say, as a client would, that a running process (this one) has the session open."""
    marker = home / "sessions" / f"{os.getpid()}.json"
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(json.dumps({"pid": os.getpid(), "sessionId": session}))
