"""Sessions as older clients and other programs left them, for tests of migrations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recollect.ask.sessions.session import Session
from recollect.change.migration import MigrationStep, carry_out
from recollect.store.changes.journal import Change, ChangeJournal
from tests.small_home import ONE, lines, link, outcome, prompt, put, reply, said

CWD = "/srv/app"
FLAT_LINES: list[dict[str, Any]] = [
    {"type": "user", "content": "Q1", "timestamp": "2026-11-15T10:00:00.000Z"},
    {
        "type": "assistant",
        "content": "Looking",
        "timestamp": "2026-11-15T10:00:01.000Z",
        "model": "claude-sonnet-4-5-20250929",
        "usage": {
            "input_tokens": 7,
            "output_tokens": 5,
            "cache_creation_tokens": 3,
            "cache_read_tokens": 2,
        },
    },
    {
        "type": "tool_call",
        "tool": "Read",
        "arguments": {"file_path": "/a"},
        "timestamp": "2026-11-15T10:00:02.000Z",
    },
    {"type": "tool_result", "tool": "Read", "result": "text of a", "timestamp": "2026-11-15T10:00:03.000Z"},
    {"type": "user", "content": "Q2", "timestamp": "2026-11-15T10:00:04.000Z"},
]


def task(name: str, words: str, about: str = "Look around") -> dict[str, Any]:
    """A call that sends a sub-agent."""
    given = {"prompt": words, "description": about, "subagent_type": "Explore"}
    return {"type": "tool_use", "id": name, "name": "Task", "input": given}


def main_talk() -> list[dict[str, Any]]:
    """A prompt, a call that sends an agent, its result, an answer."""
    return [
        prompt(1, None, "Q1"),
        reply(2, 1, task("toolu_1", "Find it")),
        outcome(3, 2, "toolu_1", "It is in a.py"),
        reply(4, 3, said("A1")),
    ]


def agent_talk(first: int, words: str = "Find it", **fields: Any) -> list[dict[str, Any]]:
    """What a sub-agent was asked and answered."""
    return [
        prompt(first, None, words, isSidechain=True, **fields),
        reply(first + 1, first, said("In a.py"), isSidechain=True, **fields),
    ]


def put_flat(home: Path, name: str = ONE) -> Path:
    """A flat log in a project directory."""
    log = put(home, name, [])
    log.write_bytes(lines(FLAT_LINES))
    return log


def put_flat_agents(home: Path) -> Path:
    """A 2.0 session: one agent that a call sent, and one that only warmed the cache."""
    log = put(home, ONE, main_talk())
    for name, first, words in (("1a2b3c4", 50, "Find it"), ("9f8e7d6", 60, "Warmup")):
        talk = agent_talk(first, words, agentId=name)
        (log.parent / f"agent-{name}.jsonl").write_bytes(lines(talk))
    return log


def put_inline(home: Path) -> Path:
    """A 1.0 session: the agent's lines stand between those of the conversation."""
    main = main_talk()
    log = put(home, ONE, [])
    spaced = json.dumps(main[3]).encode() + b"\n"  # other spacing than ours: must stay as it is
    log.write_bytes(lines([*main[:2], *agent_talk(50), main[2]]) + spaced)
    return log


def put_todos(home: Path, items: list[Any]) -> Path:
    """A session and its todo list."""
    put(home, ONE, [link(1, None, type="user", message={"role": "user", "content": "Q"})])
    path = home / "todos" / f"{ONE}-agent-{ONE}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(items))
    return path


def migrate_step(step: MigrationStep, session: Session, data: Path, cwd: str | None = None) -> Change | None:
    """Carry out one step; None where there was nothing to do."""
    changes = carry_out([step], session, data, cwd).changes
    return ChangeJournal(data / "undo").find(changes[0]) if changes else None
