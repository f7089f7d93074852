"""Sessions of one client as native sessions of another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import recollect
from recollect.ask.sessions.originals import resumed
from recollect.errors import UsageError
from recollect.model.convert.turns import LossCode
from recollect.sample import sample_home
from recollect.share import convert
from tests.agents import tiny_homes
from tests.agents.samples import codex_samples, tree_state
from tests.made_corpora import make_agents
from tests.needs import MADE_AND_REAL, TRANSCRIPTS


@pytest.fixture(params=MADE_AND_REAL)
def codex(request: pytest.FixtureRequest, tmp_path: Path) -> recollect.Session:
    if request.param == "made":
        place = make_agents(tmp_path / "agents").homes["codex"]
    else:
        place = next(one.home for one in codex_samples(TRANSCRIPTS) if one.name == "0.166.0/tools")
    home = recollect.Home(place, data=tmp_path / "data", index=False)
    return max(home.sessions(), key=lambda session: len(session.conversation().messages))


def said(session: recollect.Session) -> list[tuple[str, str]]:
    """Prompts and answers, without context and thinking."""
    return [
        (message.role, message.text)
        for message in session.conversation().messages
        if message.text and not message.is_meta
    ]


def test_a_codex_session_becomes_one_that_claude_loads(codex: recollect.Session, tmp_path: Path) -> None:
    plan = convert.planned(codex, "claude", tmp_path / "to")
    convert.apply(plan)
    (found,) = recollect.Home(tmp_path / "to", data=tmp_path / "other", index=False).sessions()
    assert found.id == plan.new
    assert said(found) == said(codex)
    calls = [(call.name, call.text) for call in codex.tool_calls()]
    assert [(call.name, call.text) for call in found.tool_calls()] == calls
    assert calls
    report = recollect.Home(tmp_path / "to", data=tmp_path / "other", index=False).check()
    assert not [finding for finding in report.findings if finding.severity.value == "error"]
    assert {loss.code for loss in plan.losses} >= {LossCode.CONTEXT, LossCode.THINKING}


def test_what_was_paid_for_in_another_client_is_not_free(codex: recollect.Session, tmp_path: Path) -> None:
    """No response is counted in the new session: none of $0.00, and no tokens. What is said keeps its bytes."""
    plan = convert.planned(codex, "claude", tmp_path / "to")
    convert.apply(plan)
    home = recollect.Home(tmp_path / "to", data=tmp_path / "other", index=False)
    assert sum(b'"role":"assistant"' in line for line in plan.lines) > 1
    assert ((), 0) == (home.costs("model").rows, home.costs().totals.responses)
    assert [] == list(home.responses())


def test_a_claude_session_becomes_one_that_codex_resumes(tmp_path: Path) -> None:
    """Read back through the mirror, and as the items the client would send."""
    home = recollect.Home(sample_home(), data=tmp_path / "data", index=False)
    compared = 0
    for session in home.sessions():
        plan = convert.planned(session, "codex", tmp_path / session.id)
        convert.apply(plan)
        (found,) = recollect.Home(
            tmp_path / session.id, data=tmp_path / "other" / session.id, index=False
        ).sessions()
        assert found.id == plan.new
        carried = [text for _, text in said(found)]
        assert "\n".join(carried) == "\n".join(text for _, text in said(session))
        sent = [item for item in resumed(found) if item.get("type") == "message"]
        assert [part["text"] for item in sent for part in item["content"] if "text" in part] == carried
        compared += 1
    assert compared >= 3


def losses_of(session: recollect.Session, target: str) -> dict[tuple[LossCode, str], int]:
    plan = convert.planned(session, target, Path("/x"))
    return {(loss.code, loss.what.partition(",")[0]): loss.count for loss in plan.losses}


def test_what_stands_beside_the_conversation_is_said_not_to_be_carried(tmp_path: Path) -> None:
    """Sub-agents, branches, a title that the other client keeps elsewhere, a tag, what was compacted."""
    log = tmp_path / ".claude" / "projects" / "-w"
    log.mkdir(parents=True)
    name = "aaaaaaaa-0000-4000-8000-000000000000"
    lines: list[dict[str, object]] = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "old"}},
        {
            "type": "system",
            "subtype": "compact_boundary",
            "content": "c",
            "uuid": "b1",
            "parentUuid": None,
            "logicalParentUuid": "u1",
        },
        {
            "type": "user",
            "uuid": "u2",
            "parentUuid": "b1",
            "isCompactSummary": True,
            "message": {"role": "user", "content": "summary"},
        },
        {"type": "user", "uuid": "u3", "parentUuid": "u2", "message": {"role": "user", "content": "left"}},
        {"type": "user", "uuid": "u4", "parentUuid": "u2", "message": {"role": "user", "content": "taken"}},
        {"type": "custom-title", "customTitle": "My name", "sessionId": name},
        {"type": "tag", "tag": "hold", "sessionId": name},
    ]
    place = {"sessionId": name, "timestamp": "2026-11-16T09:00:00.000Z", "cwd": "/w", "isSidechain": False}
    (log / f"{name}.jsonl").write_text("".join(json.dumps(place | line) + "\n" for line in lines))
    agent = log / name / "subagents" / "agent-1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_text(json.dumps(place | lines[0] | {"isSidechain": True, "agentId": "1"}) + "\n")
    (session,) = recollect.Home(tmp_path / ".claude", data=tmp_path / "data", index=False).sessions()
    assert losses_of(session, "codex") == {
        (LossCode.SIDECHAIN, "conversation of a sub-agent"): 1,
        (LossCode.BRANCHES, "branch beside the conversation"): 1,
        (LossCode.COMPACTED, "message before the last compaction"): 1,
        (LossCode.METADATA, "title"): 1,
        (LossCode.METADATA, "tag"): 1,
        (LossCode.SYSTEM, "system line 'compact_boundary'"): 1,
    }


def test_sub_agents_of_codex_are_said_not_to_be_carried(transcripts: Path, tmp_path: Path) -> None:
    sample = next(one for one in codex_samples(transcripts) if one.name == "0.166.0/agents_v2")
    home = recollect.Home(sample.home, data=tmp_path / "data", index=False)
    session = max(home.sessions(), key=lambda one: len(one.agents()))
    lost = losses_of(session, "claude")
    assert lost[LossCode.SIDECHAIN, "conversation of a sub-agent"] == len(session.agents()) == 2


def test_what_sub_agents_told_is_carried(transcripts: Path, tmp_path: Path) -> None:
    """It stands in the user's name without being typed, as context does, and is no context."""
    sample = next(one for one in codex_samples(transcripts) if one.name == "0.166.0/agents_v2")
    home = recollect.Home(sample.home, data=tmp_path / "data", index=False)
    session = max(home.sessions(), key=lambda one: len(one.agents()))
    told = [one.text for one in session.conversation().messages if one.text.startswith("/root/")]
    assert told
    convert.apply(convert.planned(session, "claude", tmp_path / "to"))
    (found,) = recollect.Home(tmp_path / "to", data=tmp_path / "other", index=False).sessions()
    assert [one.text for one in found.conversation().messages if one.text.startswith("/root/")] == told


def test_a_title_is_carried_to_claude(tmp_path: Path) -> None:
    tiny_homes.codex(tmp_path / "home")
    session = recollect.Home(tmp_path / "home", data=tmp_path / "data", index=False).session(
        tiny_homes.CHANGED
    )
    assert session.title == "named"
    plan = convert.planned(session, "claude", tmp_path / "to")
    assert not [loss for loss in plan.losses if loss.what == "title"]
    convert.apply(plan)
    (found,) = recollect.Home(tmp_path / "to", data=tmp_path / "other", index=False).sessions()
    assert found.title == "named"


def test_converting_twice_gives_the_same_and_overwrites_nothing(
    codex: recollect.Session, tmp_path: Path
) -> None:
    first = convert.planned(codex, "claude", tmp_path)
    assert convert.planned(codex, "claude", tmp_path) == first
    convert.apply(first)
    with pytest.raises(recollect.RecollectError):
        convert.apply(first)


def test_nothing_is_written_into_the_home_of_a_client(codex: recollect.Session, own_home: Path) -> None:
    (own_home / ".claude" / "projects").mkdir(parents=True)
    plan = convert.planned(codex, "claude", own_home / ".claude")
    with pytest.raises(UsageError, match="home of claude"):
        convert.apply(plan)
    assert not list((own_home / ".claude").rglob("*.jsonl"))


@pytest.mark.parametrize("place", [".codex", ".gemini", ".qwen", "xdg-data/opencode", "named", ".claude"])
def test_nothing_is_written_where_a_client_would_make_its_home(
    codex: recollect.Session, own_home: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Also before there is a session in it, or the directory itself."""
    monkeypatch.setenv("CODEX_HOME", str(own_home / "named"))
    plan = convert.planned(codex, "claude", own_home / place / "below")
    with pytest.raises(UsageError, match="lies in the home of"):
        convert.apply(plan)
    assert not (own_home / place).exists()


@pytest.mark.parametrize("make", [tiny_homes.codex, tiny_homes.opencode_database, tiny_homes.qwen])
def test_nothing_is_written_into_the_home_that_a_session_is_read_from(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    """Also where no client of this machine keeps it: `--home DIR` names any."""
    home = tmp_path / "home"
    make(home)
    before = tree_state(home)
    session = next(iter(recollect.Home(home, data=tmp_path / "data", index=False).sessions()))
    plan = convert.planned(session, "claude", home / "below")
    with pytest.raises(UsageError, match="that the session is read from"):
        convert.apply(plan)
    assert tree_state(home) == before


def test_a_plan_that_could_not_be_carried_out_is_refused_with_the_next_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from recollect.cli.main import main

    (tmp_path / "file").touch()
    words = ["--home", str(sample_home()), "export", "@last", "--to", "codex", "-o"]
    assert main([*words, str(tmp_path / "file")]) == 2
    told = capsys.readouterr().err
    assert f"{tmp_path / 'file'}: is a file" in told
    assert "--output DIR" in told
    assert main([*words, str(tmp_path / "to")]) == 0
    capsys.readouterr()
    assert main([*words, str(tmp_path / "to")]) == 2
    told = capsys.readouterr().err
    assert "already exists" in told
    assert "--output DIR" in told
    assert "--force" not in told


def test_a_session_of_the_same_client_is_refused(codex: recollect.Session, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already"):
        convert.planned(codex, "codex", tmp_path)


def test_the_command_writes_at_once_and_says_how_to_take_it_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from recollect.cli.main import main

    words = [
        "--home",
        str(sample_home()),
        "export",
        "@last",
        "--to",
        "codex",
        "-o",
        str(tmp_path / "to"),
        "--json",
    ]
    assert main(words) == 0
    plan = json.loads(capsys.readouterr().out)
    assert Path(plan["path"]).is_file()
    assert plan["undo"] == f"rm {plan['path']}"
