"""Every step: what it makes of a session, that it means the same, and that the way back is exact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.ask.sessions.messages import agents_of
from recollect.ask.sessions.session import Session
from recollect.change import undo
from recollect.change.migrations import STEPS, step_named
from recollect.errors import UsageError
from recollect.model.lines.entry import Dialect, Entry
from recollect.store.changes.journal import Change
from recollect.store.logs.reader import LogReader
from tests.change.migrations.old_sessions import (
    CWD,
    agent_talk,
    main_talk,
    migrate_step,
    put_flat,
    put_flat_agents,
    put_inline,
    put_todos,
)
from tests.small_home import ONE, TALK, TWO, prompt, put, reply, said, state, uuid_of, written

LIST = [
    {"content": "Write it", "status": "completed", "activeForm": "Writing it"},
    {"content": "Test it", "status": "in_progress", "activeForm": "Testing it"},
    {"content": "Ship it", "status": "pending", "priority": "high", "id": "3"},
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    return tmp_path / "home"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Our own directory."""
    return tmp_path / "data"


def session_of(home: Path, name: str = ONE) -> Session:
    return Home(home).session(name)


def migrated(home: Path, data: Path, step: str, cwd: str | None = None) -> Change:
    done = migrate_step(step_named(step), session_of(home), data, cwd)
    assert done is not None
    return done


def spoken(session: Session) -> list[str]:
    return [one.text for one in session.conversation().messages if one.text]


def tokens(session: Session) -> tuple[int, int]:
    counted = session.spending().tokens
    return counted.input, counted.output


# ---- the way back ----------------------------------------------------------------------------------------


def prepare(home: Path, step: str) -> None:
    """A home in which the step has something to do, and a session that it must leave alone."""
    match step:
        case "flat-to-claude":
            put_flat(home)
        case "claude-to-flat":
            put(home, ONE, main_talk())
        case "flat-agents-to-subagents":
            put_flat_agents(home)
        case "todos-to-tasks":
            put_todos(home, LIST)
        case "side-chains-to-agent-files":
            put_inline(home)
    put(home, TWO, TALK)


@pytest.mark.parametrize("step", [step.name for step in STEPS])
def test_rolling_back_gives_every_byte_mode_and_time(home: Path, data: Path, step: str) -> None:
    """And no directory is left behind that was not there."""
    prepare(home, step)
    before = state(home)
    done = migrated(home, data, step)
    between = state(home)
    undo.undo(data, undo.found_change(data, done.id))

    assert (True, before) == (between != before, state(home))


@pytest.mark.parametrize("step", [step.name for step in STEPS])
def test_other_sessions_stay_as_they_are(home: Path, data: Path, step: str) -> None:
    """A step is about one session only."""
    prepare(home, step)
    other = {name: what for name, what in state(home).items() if TWO in name}
    migrated(home, data, step)

    assert other == {name: what for name, what in state(home).items() if TWO in name}


@pytest.mark.parametrize("step", [step.name for step in STEPS])
def test_a_step_has_nothing_to_do_the_second_time(home: Path, data: Path, step: str) -> None:
    """What is migrated is not migrated again."""
    prepare(home, step)
    migrated(home, data, step)

    assert migrate_step(step_named(step), session_of(home), data) is None


# ---- 1: flat to claude -----------------------------------------------------------------------------------


def test_a_flat_log_becomes_a_session_that_can_be_resumed(home: Path, data: Path) -> None:
    """Words, call, result and tokens are there; the working directory is that of its neighbour."""
    put(home, TWO, TALK)
    put_flat(home)
    migrated(home, data, "flat-to-claude")
    session = session_of(home)
    entries = written(session.path)

    assert ["Q1", "Looking", "Q2"] == spoken(session)
    assert [("Read", "text of a")] == [(call.name, call.text) for call in session.tool_calls()]
    assert (7, 5) == tokens(session)
    assert ({ONE}, {CWD}) == ({e["sessionId"] for e in entries}, {e["cwd"] for e in entries})


def test_a_flat_log_without_a_directory_is_refused_until_it_is_named(home: Path, data: Path) -> None:
    """The name of a project directory does not say which path it stands for."""
    put_flat(home)
    before = state(home)
    with pytest.raises(UsageError, match="in which directory it worked"):
        migrated(home, data, "flat-to-claude")
    assert before == state(home)
    migrated(home, data, "flat-to-claude", "/srv/app")

    assert ["Q1", "Looking", "Q2"] == spoken(session_of(home))


def test_a_log_named_by_a_day_gets_a_name_the_client_lists(home: Path, data: Path) -> None:
    """It must be a UUID; the old file goes, and its time stays with the new one."""
    log = put_flat(home, "2026-11-15")
    seen = log.stat().st_mtime_ns
    done = migrate_step(step_named("1"), session_of(home, "2026-11-15"), data, CWD)
    assert done is not None
    (new,) = log.parent.glob("*.jsonl")

    assert (36, seen) == (len(new.stem), new.stat().st_mtime_ns)
    assert ["Q1", "Looking", "Q2"] == spoken(session_of(home, new.stem))


# ---- 2: claude to flat -----------------------------------------------------------------------------------


def test_a_session_becomes_flat_lines(home: Path, data: Path) -> None:
    """Two answers of 10 and 20 tokens each."""
    put(home, ONE, main_talk())
    migrated(home, data, "claude-to-flat")
    log = session_of(home).path
    kinds = [line["type"] for line in written(log)]

    assert {Dialect.FLAT} == {entry.dialect for entry in LogReader(log) if isinstance(entry, Entry)}
    assert ["user", "assistant", "tool_call", "tool_result", "assistant"] == kinds
    assert (20, 40) == tokens(session_of(home))


def test_there_and_back_again_says_the_same(home: Path, data: Path) -> None:
    """Claude to flat to claude."""
    put(home, ONE, main_talk())
    put(home, TWO, TALK)
    before = spoken(session_of(home))
    migrated(home, data, "2")
    migrated(home, data, "1")

    assert (before, (20, 40)) == (spoken(session_of(home)), tokens(session_of(home)))


@pytest.mark.parametrize(
    ("talk", "why"),
    [
        ([*TALK, prompt(5, 2, "Q2 again"), reply(6, 5, said("A3"))], "several branches"),
        ([*TALK, *agent_talk(50)], "sub-agents are among its lines"),
    ],
)
def test_what_flat_lines_cannot_say_is_refused(
    home: Path, data: Path, talk: list[dict[str, Any]], why: str
) -> None:
    """Not cut down to what they can."""
    put(home, ONE, talk)
    before = state(home)
    with pytest.raises(UsageError, match=why):
        migrated(home, data, "claude-to-flat")

    assert before == state(home)


@pytest.mark.parametrize("step", ["claude-to-flat", "side-chains-to-agent-files"])
def test_a_torn_last_line_is_for_repair(home: Path, data: Path, step: str) -> None:
    """It may still be growing; a rewrite would lose it."""
    log = put_inline(home)
    log.write_bytes(log.read_bytes() + b'{"type":"us')
    before = state(home)
    with pytest.raises(UsageError, match="not whole"):
        migrated(home, data, step)

    assert before == state(home)


# ---- 3: flat agents --------------------------------------------------------------------------------------


def test_flat_agents_go_to_their_session(home: Path, data: Path) -> None:
    """Byte for byte; one that a call sent gets a meta file, one that warmed the cache does not."""
    log = put_flat_agents(home)
    old = {path.name: path.read_bytes() for path in log.parent.glob("agent-*")}
    migrated(home, data, "flat-agents-to-subagents")
    directory = log.with_suffix("") / "subagents"
    meta = json.loads((directory / "agent-1a2b3c4.meta.json").read_bytes())

    assert old == {path.name: path.read_bytes() for path in directory.glob("*.jsonl")}
    assert [] == list(log.parent.glob("agent-*"))
    assert {
        "agentType": "Explore",
        "description": "Look around",
        "toolUseId": "toolu_1",
        "spawnDepth": 1,
    } == meta
    assert ["agent-1a2b3c4.meta.json"] == [path.name for path in directory.glob("*.meta.json")]


def test_an_agent_that_an_agent_sent_names_it(home: Path, data: Path) -> None:
    """Its depth is two."""
    log = put_flat_agents(home)
    sender = log.parent / "agent-1a2b3c4.jsonl"
    call = {"type": "tool_use", "id": "toolu_2", "name": "Task", "input": {"prompt": "Deeper"}}
    asked = reply(52, 51, call, isSidechain=True, agentId="1a2b3c4")
    sender.write_bytes(sender.read_bytes() + json.dumps(asked).encode() + b"\n")
    talk = agent_talk(70, "Deeper", agentId="5555555")
    (log.parent / "agent-5555555.jsonl").write_text("".join(json.dumps(line) + "\n" for line in talk))
    migrated(home, data, "3")
    meta = json.loads((log.with_suffix("") / "subagents" / "agent-5555555.meta.json").read_bytes())

    assert {"toolUseId": "toolu_2", "parentAgentId": "1a2b3c4", "spawnDepth": 2} == meta


def test_agents_of_other_sessions_stay(home: Path, data: Path) -> None:
    """They say whose they are."""
    log = put_flat_agents(home)
    foreign = log.parent / "agent-7777777.jsonl"
    lines = agent_talk(80, agentId="7777777", sessionId=TWO)
    foreign.write_text("".join(json.dumps({**line, "sessionId": TWO}) + "\n" for line in lines))
    migrated(home, data, "3")

    assert [foreign] == list(log.parent.glob("agent-*"))


# ---- 4: todos --------------------------------------------------------------------------------------------


def test_todos_become_tasks(home: Path, data: Path) -> None:
    """In their order, as the client writes them, with its lock file; the old list is gone."""
    old = put_todos(home, LIST)
    migrated(home, data, "todos-to-tasks")
    directory = home / "tasks" / ONE
    tasks = [json.loads((directory / f"{number}.json").read_text()) for number in (1, 2, 3)]

    assert {
        "id": "1",
        "subject": "Write it",
        "description": "Write it",
        "activeForm": "Writing it",
        "status": "completed",
        "blocks": [],
        "blockedBy": [],
    } == tasks[0]
    assert ["completed", "in_progress", "pending"] == [task["status"] for task in tasks]
    assert {".lock", "1.json", "2.json", "3.json"} == {path.name for path in directory.iterdir()}
    assert not old.exists()


def test_fields_that_tasks_have_not_are_said(home: Path) -> None:
    """Priority and id of client 1.0."""
    put_todos(home, LIST)
    session = session_of(home)
    plan = step_named("4").planned(session.home, session.file, None)
    assert plan is not None

    assert [("field 'priority' of a todo", 1), ("field 'id' of a todo", 1)] == [
        (loss.what, loss.count) for loss in plan.losses
    ]


def test_an_empty_list_is_nothing_to_do(home: Path, data: Path) -> None:
    """Older clients made one for every session."""
    put_todos(home, [])

    assert migrate_step(step_named("4"), session_of(home), data) is None


@pytest.mark.parametrize(
    ("items", "has_task", "why"), [(LIST, True, "tasks already"), ([*LIST, 7], False, "no todo")]
)
def test_lists_that_cannot_be_carried_over_are_refused(
    home: Path, data: Path, items: list[Any], has_task: bool, why: str
) -> None:
    """Two lists have no order between them, and a number is no todo."""
    put_todos(home, items)
    if has_task:
        task = home / "tasks" / ONE / "1.json"
        task.parent.mkdir(parents=True)
        task.write_text('{"id":"1","subject":"Old","status":"pending","blocks":[],"blockedBy":[]}')
    before = state(home)
    with pytest.raises(UsageError, match=why):
        migrated(home, data, "4")

    assert before == state(home)


# ---- 5: side chains --------------------------------------------------------------------------------------


def test_side_chains_get_logs_of_their_own(home: Path, data: Path) -> None:
    """What stays keeps its bytes; what goes gains its agent's id and nothing else."""
    log = put_inline(home)
    old = log.read_bytes().splitlines(keepends=True)
    migrated(home, data, "side-chains-to-agent-files")
    (agent,) = (log.with_suffix("") / "subagents").glob("*.jsonl")
    name = agent.stem.removeprefix("agent-")
    meta = json.loads(agent.with_name(f"agent-{name}.meta.json").read_bytes())

    assert b"".join([*old[:2], *old[4:]]) == log.read_bytes()
    assert [{**json.loads(line), "agentId": name} for line in old[2:4]] == written(agent)
    assert ("a", 17, "toolu_1", 1) == (name[0], len(name), meta["toolUseId"], meta["spawnDepth"])


def test_the_agent_is_found_again_and_the_tokens_are_the_same(home: Path, data: Path) -> None:
    """Three answers of 10 and 20 tokens, one of them the agent's."""
    put_inline(home)
    before = tokens(session_of(home))
    migrated(home, data, "5")
    (agent,) = agents_of(session_of(home))

    assert ((30, 60), (30, 60)) == (before, tokens(session_of(home)))
    assert ("nested", "Find it", "toolu_1", 2) == (
        agent.layout,
        agent.prompt,
        agent.tool_use_id,
        agent.messages,
    )


def test_a_conversation_that_runs_through_an_agent_is_refused(home: Path, data: Path) -> None:
    """Without the agent's lines it would be cut."""
    crossing = prompt(9, 51, "Q9")
    assert uuid_of(51) == crossing["parentUuid"]
    put(home, ONE, [*TALK, *agent_talk(50), crossing])
    before = state(home)
    with pytest.raises(UsageError, match="runs through"):
        migrated(home, data, "5")

    assert before == state(home)


def test_a_log_of_an_agent_alone_is_refused(home: Path, data: Path) -> None:
    """Nothing of the session would be left."""
    put(home, ONE, agent_talk(50))
    with pytest.raises(UsageError, match="sub-agent lines only"):
        migrated(home, data, "5")
    assert [50, 51] == [int(line["uuid"][-12:]) for line in written(session_of(home).path)]
