"""Sessions that were handed over: the other real client resumes them and sends what was carried."""

from __future__ import annotations

from pathlib import Path

import pytest

import recollect
from recollect.model.conversation.chain import entries_of
from recollect.model.convert.loss import LossCode
from recollect.model.entry import User
from recollect.sample import sample_home
from recollect.services.foreign import convert
from recollect.storage.foreign.resumed import as_messages
from tests.oracle.client_runner import Client, running_stub
from tests.oracle.clients.runner import program_of, ran
from tests.oracle.clients.sketch import Said, before, sketch
from tests.oracle.conftest import VERSIONS, command_of
from tests.storage.foreign.samples import codex_samples

pytestmark = pytest.mark.slow


def carried(session: recollect.Session) -> list[Said]:
    """Prompts, answers, calls and results of a session, without the client's own context."""
    entries = entries_of(session.conversation().nodes, session.load)
    own = [one for one in entries if not (isinstance(one.body, User) and one.body.is_meta)]
    return sketch({"messages": as_messages(own)})


def test_codex_resumes_a_converted_session_of_claude(shared: Path, tmp_path: Path) -> None:
    """Each session of the sample home, copied into one home of Codex."""
    program_of("codex")
    home = recollect.Home(sample_home(), data=tmp_path / "data", index=False)
    plans = [convert.planned(session, "codex", tmp_path / "room/home/.codex") for session in home.sessions()]
    for plan in plans:
        convert.apply(plan)
    turns = [{"session": plan.new, "prompt": "Go on."} for plan in plans]
    done = ran("codex", shared, tmp_path / "room", turns)
    assert len(plans) >= 3
    for session, turn in zip(home.sessions(), done.turns, strict=True):
        assert before("Go on.", sketch(turn["sent"][0])) == carried(session)


def test_claude_resumes_a_converted_session_of_codex(shared: Path, tmp_path: Path) -> None:
    command = command_of(VERSIONS[-1])
    sample = next(one for one in codex_samples(shared) if one.name == "0.166.0/tools")
    home = recollect.Home(sample.home, data=tmp_path / "data", index=False)
    session = max(home.sessions(), key=lambda one: len(one.conversation().messages))
    plan = convert.planned(session, "claude", tmp_path / "to")
    with running_stub() as stub:
        client = Client(VERSIONS[-1], command, tmp_path / "room", stub)
        client.put(plan.new, plan.lines)
        run = client.ask("Go on.", "--resume", plan.new)
        assert run.returncode == 0, run.stderr
        (sent,) = stub.conversations()
    assert before("Go on.", sketch({"messages": sent})) == carried(session)
    assert {loss.code for loss in plan.losses} >= {LossCode.CONTEXT, LossCode.THINKING}
