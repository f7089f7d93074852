"""Lines of the claude dialect for tests, as short as a test wants them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SONNET = "claude-sonnet-4-5-20250929"
Fields = dict[str, Any]


def moment(seconds: float) -> str:
    """A time so many seconds after the start, as the client writes it."""
    at = START + dt.timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def link(uuid: str, parent: str | None, seconds: float, **fields: Any) -> Fields:
    """A chain line of any type."""
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/srv/app",
        "sessionId": "s",
        "version": "2.1.325",
        "gitBranch": "",
        "uuid": uuid,
        "timestamp": moment(seconds),
        **fields,
    }


def user(uuid: str, parent: str | None, seconds: float, content: Any, **fields: Any) -> Fields:
    """A prompt or results."""
    return link(uuid, parent, seconds, type="user", message={"role": "user", "content": content}, **fields)


def assistant(
    uuid: str, parent: str | None, seconds: float, content: Any, message_id: str | None = None, **fields: Any
) -> Fields:
    """One line of an answer; text becomes a text block."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    name = message_id or f"msg_{uuid}"
    usage = dict.fromkeys(
        ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"], 1
    )
    message = {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": SONNET,
        "content": blocks,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }
    return link(uuid, parent, seconds, type="assistant", message=message, requestId=f"req_{name}", **fields)


def call(name: str, tool: str = "Bash", **given: Any) -> Fields:
    """A tool_use block."""
    return {"type": "tool_use", "id": name, "name": tool, "input": given or {"command": "ls"}}


def result(name: str, content: Any = "out", **fields: Any) -> Fields:
    """A tool_result block."""
    return {"type": "tool_result", "tool_use_id": name, "content": content, **fields}


def mark(leaf: str, **fields: Any) -> Fields:
    """A last-prompt line."""
    return {"type": "last-prompt", "lastPrompt": "x", "leafUuid": leaf, "sessionId": "s", **fields}


def encoded(lines: list[Fields]) -> bytes:
    """The lines as a log's bytes."""
    return b"".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for line in lines
    )


_DEFAULTS = {
    "isSidechain": False,
    "userType": "external",
    "cwd": "/x",
    "sessionId": "s",
    "version": "2.1.325",
    "gitBranch": "",
}
_ANSWER_DEFAULTS = {
    "type": "message",
    "role": "assistant",
    "model": SONNET,
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 1,
        "output_tokens": 1,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    },
}


def completed(line: Fields) -> Fields:
    """A line of a recorded case with the fields that all of them share, which the file leaves out."""
    if "uuid" not in line:
        return line
    full = {**_DEFAULTS, **line}
    if line.get("type") == "assistant":
        full["message"] = {**_ANSWER_DEFAULTS, **line["message"]}
    return full


def shortened(line: Fields) -> Fields:
    """The same line without those fields."""
    if "uuid" not in line:
        return line
    short = {name: value for name, value in line.items() if _DEFAULTS.get(name, ...) != value}
    if line.get("type") == "assistant":
        told = line["message"].items()
        short["message"] = {name: value for name, value in told if _ANSWER_DEFAULTS.get(name, ...) != value}
    return short


def log_at(path: Path, lines: list[Fields]) -> Path:
    """Write a log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(lines))
    return path
