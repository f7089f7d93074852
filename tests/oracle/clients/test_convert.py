"""Sessions that were handed over: the other real client resumes them and sends what was carried."""

from __future__ import annotations

from pathlib import Path

import pytest

import recollect
from recollect.agents.blocks import as_messages
from recollect.model.conversation.chain import entries_of
from recollect.model.convert.turns import LossCode
from recollect.model.lines.entry import User
from recollect.sample import sample_home
from recollect.share import convert
from tests.agents.samples import codex_samples, other_samples
from tests.oracle.client_runner import Client, running_stub
from tests.oracle.clients.runner import program_of, ran
from tests.oracle.clients.sketch import Said, before, sketch
from tests.oracle.conftest import VERSIONS, command_of

SAMPLES = {
    "codex": "0.166.0/tools",
    "opencode": "opencode-1.18.33",
    "gemini": "gemini-0.61.0",
    "qwen": "qwen-0.24.4",
}


def carried(session: recollect.Session) -> list[Said]:
    """Prompts, answers, calls and results of a session, without the client's own context."""
    entries = entries_of(session.conversation().nodes, session.load)
    own = [one for one in entries if not (isinstance(one.body, User) and one.body.is_meta)]
    return sketch({"messages": as_messages(own)})


def test_codex_resumes_a_converted_session_of_claude(transcripts: Path, tmp_path: Path) -> None:
    """Each session of the sample home, copied into one home of Codex."""
    program_of("codex")
    home = recollect.Home(sample_home(), data=tmp_path / "data", index=False)
    plans = [convert.planned(session, "codex", tmp_path / "room/home/.codex") for session in home.sessions()]
    for plan in plans:
        convert.apply(plan)
    turns = [{"session": plan.new, "prompt": "Go on."} for plan in plans]
    done = ran("codex", transcripts, tmp_path / "room", turns)
    assert len(plans) >= 3
    for session, turn in zip(home.sessions(), done.turns, strict=True):
        assert before("Go on.", sketch(turn["sent"][0])) == carried(session)


@pytest.mark.clients
@pytest.mark.parametrize("agent", SAMPLES)
def test_claude_resumes_a_converted_session_of_another_agent(
    transcripts: Path, tmp_path: Path, agent: str
) -> None:
    command = command_of(VERSIONS[-1])
    session = longest(transcripts, agent, tmp_path / "data")
    plan = convert.planned(session, "claude", tmp_path / "to")
    with running_stub() as stub:
        client = Client(VERSIONS[-1], command, tmp_path / "room", stub)
        client.put(plan.new, plan.lines)
        run = client.ask("Go on.", "--resume", plan.new)
        assert run.returncode == 0, run.stderr
        (sent,) = stub.conversations()
    assert before("Go on.", sketch({"messages": sent})) == carried(session)
    assert len(carried(session)) >= 8
    assert LossCode.THINKING in {loss.code for loss in plan.losses}


def test_codex_resumes_converted_sessions_of_the_others(transcripts: Path, tmp_path: Path) -> None:
    program_of("codex")
    sessions = [longest(transcripts, agent, tmp_path / agent) for agent in SAMPLES if agent != "codex"]
    plans = [convert.planned(session, "codex", tmp_path / "room/home/.codex") for session in sessions]
    for plan in plans:
        convert.apply(plan)
    done = ran(
        "codex", transcripts, tmp_path / "room", [{"session": one.new, "prompt": "Go on."} for one in plans]
    )
    for session, turn in zip(sessions, done.turns, strict=True):
        assert before("Go on.", sketch(turn["sent"][0])) == carried(session), session.id
    assert len(plans) == 3


def longest(transcripts: Path, agent: str, data: Path) -> recollect.Session:
    """The session of a sample home in which most was said and called."""
    found = codex_samples(transcripts) if agent == "codex" else other_samples(transcripts, agent)
    sample = next(one for one in found if one.name == SAMPLES[agent])
    home = recollect.Home(sample.home, data=data, index=False)
    spoken = (session for session in home.sessions() if session.graph.active_leaf is not None)
    return max(spoken, key=lambda one: len(one.conversation().messages))
