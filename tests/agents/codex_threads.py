"""Threads of Codex as 0.166 writes them, small: turns with ids, a prompt, an answer and a model call each, and copies of them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BEGAN = dt.datetime(2026, 11, 16, 9, tzinfo=dt.UTC)
Records = list[dict[str, object]]


class Step(NamedTuple):
    """What was asked, answered and used in one turn, so many seconds after nine."""

    second: int
    words: str
    used: int


def name_of(second: int, number: int = 0) -> str:
    """An id that says when it was made, as those of the client do."""
    text = f"{millisecond(second):012x}"
    return f"{text[:8]}-{text[8:]}-7000-8000-{number:012x}"


def thread(
    home: Path, second: int, own: list[Step], copied: list[Step] | None = None, above: str | None = None
) -> str:
    """A thread that begins then, after a copy of some turns of the one ``above``; gives its id."""
    name = name_of(second)
    _write(home, second, name, {"id": name, "forked_from_id": above}, own, copied or [])
    return name


def sub_agent(home: Path, second: int, own: list[Step], copied: list[Step], parent: str) -> str:
    """A thread that another one started, with its conversation so far."""
    name = name_of(second)
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}
    above = {"forked_from_id": parent, "parent_thread_id": parent, "session_id": parent}
    _write(home, second, name, {"id": name, "source": spawn, **above}, own, copied)
    return name


def _write(
    home: Path, second: int, name: str, meta: dict[str, object], own: list[Step], copied: list[Step]
) -> None:
    path = home / f"sessions/2026/11/16/rollout-2026-11-16T09-00-{second:02}-{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"cwd": "/w", "cli_version": "0.166.0", **meta}
    records: Records = [{"timestamp": _text(second), "type": "session_meta", "payload": about}]
    for step in (*copied, *own):
        records += _turn(step)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def _turn(step: Step) -> Iterator[dict[str, object]]:
    turn = name_of(step.second, step.used)
    used = {"input_tokens": step.used, "output_tokens": 1}
    payloads: list[tuple[str, dict[str, object]]] = [
        ("event_msg", {"type": "task_started", "turn_id": turn}),
        ("turn_context", {"turn_id": turn, "model": "gpt-5", "cwd": "/w"}),
        ("response_item", _message("user", "input_text", step.words)),
        ("response_item", _message("assistant", "output_text", f"{step.words}!")),
        ("token_usage_record", {"turn_id": turn, "response_id": f"r{step.used}", "usage": used}),
    ]
    for kind, payload in payloads:
        yield {"timestamp": _text(step.second), "type": kind, "payload": payload}


def _message(role: str, kind: str, text: str) -> dict[str, object]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def millisecond(second: int) -> int:
    """So many seconds after nine, since 1970."""
    return int(_BEGAN.timestamp() + second) * 1000


def _text(second: int) -> str:
    return f"{_BEGAN + dt.timedelta(seconds=second):%Y-%m-%dT%H:%M:%S}.000Z"
