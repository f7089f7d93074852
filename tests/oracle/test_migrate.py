"""Real clients go on with migrated sessions: dialect, sub-agents, todos, side chains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recollect.ask.library import Home
from recollect.change import undo
from recollect.change.migrations import step_named
from recollect.store.changes.journal import Change
from tests.change.migrations.old_sessions import FLAT_LINES, agent_talk, main_talk, migrate_step
from tests.oracle.client_runner import Client
from tests.oracle.test_files_and_tasks import Workshop, workshop
from tests.oracle.test_real_clients import Message, loaded, result, resumed, said, use, without_additions
from tests.small_home import TALK, prompt

__all__ = ["workshop"]  # a fixture

SESSION = "6a0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c11"
TASK = {"prompt": "Find it", "description": "Look around", "subagent_type": "Explore"}


def main_messages(client: Client) -> list[Message]:
    """What the API must see of ``main_talk``: the sub-agent's own words are not part of it."""
    # From some 2.1 on the tool has another name, also in what was said before.
    name = "Task" if client.version == "2.0.76" else "Agent"
    return [
        ("user", [said("Q1")]),
        ("assistant", [use("toolu_1", name, **TASK)]),
        ("user", [result("toolu_1", "It is in a.py")]),
        ("assistant", [said("A1")]),
    ]


def put(client: Client, entries: list[dict[str, Any]]) -> Path:
    """A session in the client's own directory."""
    own = [{**entry, "sessionId": SESSION, "cwd": str(client.cwd)} for entry in entries]
    return client.put(SESSION, [json.dumps(entry).encode() for entry in own])


def migrated(client: Client, step: str, data: Path) -> Change:
    """Carry a step out on the client's session."""
    session = Home(client.config).session(SESSION)
    done = migrate_step(step_named(step), session, data, str(client.cwd))
    assert done is not None
    return done


def test_a_migrated_flat_log_is_resumed(client: Client, tmp_path: Path) -> None:
    """Prompt, answer, call, result, answer: all of it is sent, and the file goes on from our last line."""
    last = {"type": "assistant", "content": "It says so", "timestamp": "2026-11-15T10:00:05.000Z"}
    path = client.put(SESSION, [json.dumps(line).encode() for line in [*FLAT_LINES[:4], last]])
    migrated(client, "flat-to-claude", tmp_path / "data")

    outcome = resumed(client, path, SESSION)

    (call,) = [block["id"] for _, blocks in outcome.sent for block in blocks if block["type"] == "tool_use"]
    assert outcome == loaded(
        [
            ("user", [said("Q1")]),
            ("assistant", [said("Looking"), use(call, "Read", file_path="/a")]),
            ("user", [result(call, "text of a")]),
            ("assistant", [said("It says so")]),
        ]
    )


def test_a_session_is_resumed_after_its_agents_moved(client: Client, tmp_path: Path) -> None:
    """The agent of 2.0 lies where 2.1.325 looks; the conversation is what it was."""
    path = put(client, main_talk())
    for name, first, words in (("1a2b3c4", 50, "Find it"), ("9f8e7d6", 60, "Warmup")):
        talk = [{**one, "sessionId": SESSION} for one in agent_talk(first, words, agentId=name)]
        (path.parent / f"agent-{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in talk))
    migrated(client, "flat-agents-to-subagents", tmp_path / "data")

    assert loaded(main_messages(client)) == resumed(client, path, SESSION)
    assert {"agent-1a2b3c4.jsonl", "agent-1a2b3c4.meta.json", "agent-9f8e7d6.jsonl"} == {
        one.name for one in (path.with_suffix("") / "subagents").iterdir()
    }


def test_a_session_is_resumed_without_its_side_chains(client: Client, tmp_path: Path) -> None:
    """The lines of a 1.0 sub-agent went to a log of their own; what is sent did not change."""
    main = main_talk()
    path = put(client, [*main[:2], *agent_talk(50), *main[2:]])
    migrated(client, "side-chains-to-agent-files", tmp_path / "data")

    assert loaded(main_messages(client)) == resumed(client, path, SESSION)
    assert not any(json.loads(line).get("isSidechain") for line in path.read_bytes().splitlines())


def test_a_session_goes_back_to_claude_from_flat(client: Client, tmp_path: Path) -> None:
    """Flat, and then claude again: the client still sends every word."""
    path = put(client, TALK)
    migrated(client, "claude-to-flat", tmp_path / "data")
    assert b'"message"' not in path.read_bytes()
    migrated(client, "flat-to-claude", tmp_path / "data")

    words = [("user", "Q1"), ("assistant", "A1"), ("user", "Q2"), ("assistant", "A2")]
    assert loaded([(role, [said(text)]) for role, text in words]) == resumed(client, path, SESSION)


def test_a_rolled_back_migration_is_resumed_as_before(client: Client, tmp_path: Path) -> None:
    """Every byte is back, and the client takes it as it always did."""
    main = main_talk()
    path = put(client, [*main[:2], *agent_talk(50), *main[2:]])
    before = path.read_bytes()
    change = migrated(client, "side-chains-to-agent-files", tmp_path / "data")
    undo.undo(tmp_path / "data", undo.found_change(tmp_path / "data", change.id))

    assert before == path.read_bytes()
    assert loaded(main_messages(client)) == resumed(client, path, SESSION)


def test_migrated_todos_are_the_clients_tasks(workshop: Workshop, tmp_path: Path) -> None:
    """2.1.325 lists the old todos in their order and with their states, and numbers on from them."""
    session = "6a0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c12"
    entries = [{**prompt(1, None, "Q"), "sessionId": session, "cwd": str(workshop.cwd)}]
    workshop.put(session, [json.dumps(entry).encode() for entry in entries])
    todos = workshop.config / "todos" / f"{session}-agent-{session}.json"
    todos.parent.mkdir(parents=True)
    items = [("Write it", "completed"), ("Test it", "in_progress"), ("Ship it", "pending")]
    todos.write_text(json.dumps([{"content": c, "status": s, "activeForm": c} for c, s in items]))
    chosen = Home(workshop.config).session(session)
    assert migrate_step(step_named("todos-to-tasks"), chosen, tmp_path / "data") is not None

    workshop.work(
        ("ToolSearch", {"query": "select:TaskCreate,TaskUpdate,TaskList"}),
        ("TaskList", {}),
        ("TaskCreate", {"subject": "Theirs", "description": "Also this"}),
        resume=True,
    )

    listed = "#1 [completed] Write it\n#2 [in_progress] Test it\n#3 [pending] Ship it"
    assert listed in workshop.heard()
    assert (False, True) == (todos.exists(), (workshop.config / "tasks" / session / "4.json").is_file())


def test_a_migrated_agent_goes_on_itself(workshop: Workshop, tmp_path: Path) -> None:
    """2.1.325 finds the agent's log, sends what the agent was asked and said, and then the new message."""
    main = main_talk()
    path = put(workshop, [*main[:2], *agent_talk(50), *main[2:]])
    migrated(workshop, "side-chains-to-agent-files", tmp_path / "data")
    (log,) = (path.with_suffix("") / "subagents").glob("agent-*.jsonl")
    name = log.stem.removeprefix("agent-")

    workshop.stub.script = [
        ("ToolSearch", {"query": "select:SendMessage"}),
        ("SendMessage", {"to": name, "message": "AND MORE?", "summary": "more"}),
    ]
    done = workshop.ask("Go on.", "--resume", SESSION, "--allowedTools", "SendMessage,ToolSearch")

    assert (0, []) == (done.returncode, workshop.stub.script)
    (own,) = [
        talk
        for talk in map(without_additions, workshop.stub.conversations())
        if talk[0] == ("user", [said("Find it")])
    ]
    assert ("assistant", [said("In a.py")]) == own[1]
    assert "AND MORE?" in json.dumps(own[2])
    # It goes on in the file we made.
    assert b"AND MORE?" in log.read_bytes()
