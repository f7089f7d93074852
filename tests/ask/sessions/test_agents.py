"""Sub-agents in every layout, tied to the calls that sent them. Expected pairs were read off the samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.ask.sessions.messages import agents_of, first_prompt
from recollect.model.conversation.agents import AgentLink
from tests.agents.samples import codex_samples
from tests.made_corpora import SEEDS, make
from tests.talk import log_at, result, user


@pytest.mark.parametrize(
    ("version", "session", "layout", "link", "calls"),
    [
        ("1.0.128-print", "69271253", "inline", AgentLink.PROMPT, ["38x0", "43x0", "43x1"]),
        ("2.0.76-print", "3165f5cd", "flat", AgentLink.RESULT, ["50x0", "56x0", "56x1"]),
        ("2.1.30-print", "8f6e1405", "nested", AgentLink.RESULT, ["38x0", "42x0", "42x1"]),
        ("2.1.325-print", "fd3cf568", "nested", AgentLink.META, ["36x0", "38x0", "38x1"]),
    ],
)
def test_every_agent_is_tied_to_its_call(
    transcripts: Path, version: str, session: str, layout: str, link: AgentLink, calls: list[str]
) -> None:
    """Three agents a session, each with the call that sent it, four messages long."""
    home = Home(transcripts / "samples" / "claude-home" / version / ".claude")
    agents = agents_of(home.session(session))

    assert sorted(f"toolu_stub0000{call}" for call in calls) == sorted(
        agent.tool_use_id or "" for agent in agents
    )
    assert {(layout, link, 4, "general-purpose", 1)} == {
        (agent.layout, agent.link, agent.messages, agent.agent_type, agent.depth) for agent in agents
    }
    assert all(agent.spawned_by for agent in agents)


def test_every_agent_of_a_made_home_is_tied_to_its_call(tmp_path: Path) -> None:
    """Flat and nested, by what came of the call and by what stands beside the log; none is a session."""
    pairs, count = set(), 0
    for seed in SEEDS:
        made = make(tmp_path / str(seed), seed)
        sessions = list(Home(made.home).sessions())
        assert len(sessions) == made.truth["sessions"]
        # A copy of a call has no agent beside it.
        agents = [agent for session in sessions for agent in agents_of(session) if agent.messages]
        assert all(agent.spawned_by and agent.tool_use_id for agent in agents)
        pairs |= {(agent.layout, agent.link) for agent in agents}
        assert {agent.id for agent in agents} == {log.stem[6:] for log in made.home.rglob("agent-*.jsonl")}
        count += made.truth["agents"]
    assert pairs == {("flat", AgentLink.RESULT), ("nested", AgentLink.RESULT), ("nested", AgentLink.META)}
    assert count > 10


def test_agents_of_agents_are_nested(transcripts: Path) -> None:
    """The inner agent names the outer one as its parent."""
    home = Home(transcripts / "samples" / "claude-home" / "2.1.325-print" / ".claude")
    outer, inner = agents_of(home.session("2ac2f67e"))

    assert ("a83cf3fb56f36d348", 1, None) == (outer.id, outer.depth, outer.parent_agent)
    assert ("a1407db69709a6f72", 2, outer.id) == (inner.id, inner.depth, inner.parent_agent)


def test_warm_up_files_are_recognised_and_agents_are_no_sessions(transcripts: Path) -> None:
    """2.0.76 leaves files that belong to no call; no agent file is ever listed as a session."""
    home = Home(transcripts / "samples" / "claude-home" / "2.0.76-print" / ".claude")
    session = home.session("3165f5cd")

    assert 3 == len(agents_of(session))
    with_warm_ups = agents_of(session, warm_ups=True)
    assert {"Warmup"} == {agent.prompt for agent in with_warm_ups if agent.is_warm_up}
    assert not any(one.id.startswith("agent-") for one in home.sessions())


def test_an_agent_that_begins_with_a_result_was_asked_nothing(tmp_path: Path) -> None:
    """Its first line answers a call of a log that is not there."""
    log = log_at(tmp_path / "agent-a.jsonl", [user("u", None, 0, [result("t")])])

    assert first_prompt(log) == ""


def test_the_task_of_an_agent_stands_behind_what_it_was_told_besides(tmp_path: Path) -> None:
    """Not text that the client adds, nor history of the one that sent it; where all was copied, the first of that."""
    copied = {"forkedFrom": {"sessionId": "s", "messageUuid": "x"}}
    lines = [
        user("a", None, 0, "<skills_instructions>", isMeta=True, **copied),
        user("b", "a", 1, "what the parent was asked", **copied),
        user("c", "b", 2, "<environment_context>", isMeta=True),
    ]
    task = user("d", "c", 3, "the task")

    assert "the task" == first_prompt(log_at(tmp_path / "agent-a.jsonl", [*lines, task]))
    assert "what the parent was asked" == first_prompt(log_at(tmp_path / "agent-b.jsonl", lines))
    assert "<skills_instructions>" == first_prompt(log_at(tmp_path / "agent-c.jsonl", lines[:1]))


def test_sub_agents_of_codex_are_listed_with_their_tasks(transcripts: Path, tmp_path: Path) -> None:
    """A child and a grandchild, each with a copy of the conversation before it."""
    sample = next(one for one in codex_samples(transcripts) if one.name == "0.166.0/agents_nested")
    (session,) = Home(sample.home, data=tmp_path / "data", index=False).sessions()

    tasks = [agent.prompt.partition(" STUB")[0] for agent in agents_of(session)]
    assert ["child task", "grandchild task"] == tasks
