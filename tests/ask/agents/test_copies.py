"""Logs of other agents that were pulled, restored or imported say themselves whose they are."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
from pathlib import Path

import pytest

import recollect
from recollect.agents.homes import agent_of_log
from recollect.ask.archive import add, archive_at
from recollect.ask.resume import resumption
from recollect.ask.sessions.originals import original_files, resumed
from recollect.ask.sessions.session import ArchivedSession, Session
from recollect.change.fork import planned_fork
from recollect.cli.main import main
from recollect.errors import UsageError
from recollect.share import convert
from tests.agents import tiny_homes
from tests.agents.tiny_homes import CHANGED, UNTOUCHED, codex


def codex_fork(home: Path) -> Path:
    """One that goes on from another without a copy of it: its log begins with lines of that one."""
    path = codex(home)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["payload"] |= {"history_base": {"thread_id": UNTOUCHED, "end_ordinal_exclusive": 9}}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    later = path.with_name(path.name.replace("T09-00", "T10-00"))
    return path.rename(later)


AGENTS = {
    "codex": ("codex", codex),
    "codex fork": ("codex", codex_fork),
    "gemini": ("gemini", tiny_homes.gemini_lines),
    "qwen": ("qwen", tiny_homes.qwen),
    "opencode": ("opencode", tiny_homes.opencode_database),
}


@pytest.fixture(params=AGENTS)
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Session, Session]:
    """A mirrored session and a copy of it elsewhere."""
    agent, make = AGENTS[request.param]
    make(tmp_path / "home")
    mirrored = recollect.Home(tmp_path / "home", data=tmp_path / "data", index=False)
    session = next(one for one in mirrored.sessions() if agent == "opencode" or one.id == CHANGED)
    store = tmp_path / "store"
    shutil.copytree(session.home.root / "projects", store / "projects")
    copy = recollect.Home(store, data=tmp_path / "other", index=False).session(session.id)
    return agent, session, copy


def test_a_copy_is_of_its_agent_for_everything_that_asks(copied: tuple[str, Session, Session]) -> None:
    agent, session, copy = copied
    assert copy.agent == agent
    assert original_files(copy) == original_files(session)
    assert resumed(copy) == resumed(session)
    assert convert.planned(copy, "claude", Path("/x")).from_agent == agent
    with pytest.raises(UsageError, match=f"a copy of a session of {agent}"):
        resumption(copy)
    with pytest.raises(UsageError, match=f"belongs to {agent}"):
        planned_fork(copy)


def test_an_archived_session_is_of_its_agent_without_a_mirror(
    copied: tuple[str, Session, Session], tmp_path: Path
) -> None:
    """The compressed log says whose it is."""
    agent, session, copy = copied
    archive = archive_at(tmp_path / "other")
    with archive.adding():
        manifest = add(archive, copy, dt.datetime.now(dt.UTC)).manifest
    archived = ArchivedSession(archive, manifest)

    assert archived.agent == agent
    assert original_files(archived) == original_files(session)
    assert convert.planned(archived, "claude", Path("/x")).from_agent == agent
    with pytest.raises(UsageError, match=f"a copy of a session of {agent}"):
        resumption(archived)


def test_commands_on_a_copy_name_its_agent(
    copied: tuple[str, Session, Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent, session, _ = copied
    told: dict[str, object] = {}
    for name, home, data in (("copy", "store", "other"), ("mirror", "home", "data")):
        places = ["--home", str(tmp_path / home), "--data", str(tmp_path / data)]
        assert main([*places, "list", "--json"]) == 0
        assert {one["agent"] for one in json.loads(capsys.readouterr().out)["sessions"]} == {agent}
        assert main([*places, "cost", "--by", "client", "--json"]) == 0
        assert {row["client"] for row in json.loads(capsys.readouterr().out)["rows"]} == {agent}
        assert main([*places, "show", session.id, "--api", "--json"]) == 0
        told[name] = json.loads(capsys.readouterr().out)["messages"]
        main([*places, "doctor", session.id, "--json"])
        told[f"check {name}"] = json.loads(capsys.readouterr().out)["summary"]["by_code"]
    assert told["copy"] == told["mirror"]
    assert told["check copy"] == told["check mirror"]


@pytest.mark.parametrize("index", [True, False])
def test_copies_without_usage_have_an_unknown_cost(tmp_path: Path, *, index: bool) -> None:
    tiny_homes.codex_bare(tmp_path / "home")
    mirror = recollect.Home(tmp_path / "home", data=tmp_path / "data", index=index)
    assert len(mirror.costs().unrecorded_sessions) == 1
    shutil.copytree(mirror.homes[0].root / "projects", tmp_path / "store" / "projects")
    copies = recollect.Home(tmp_path / "store", data=tmp_path / "other", index=index)
    assert len(copies.costs().unrecorded_sessions) == 1


def test_a_copy_that_used_a_model_of_claude_is_still_of_its_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other clients call these models too: `list --json` says what the list, the costs and the page say."""
    tiny_homes.opencode_database(tmp_path / "home")
    mirrored = recollect.Home(tmp_path / "home", data=tmp_path / "data", index=False)
    store = tmp_path / "store"
    shutil.copytree(mirrored.homes[0].root / "projects", store / "projects")
    for log in store.rglob("*.jsonl"):
        log.write_text(re.sub('"model":"[^"]*"', '"model":"claude-sonnet-4-5-20250929"', log.read_text()))
    places = ["--home", str(store), "--data", str(tmp_path / "other")]

    assert main([*places, "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["sessions"]
    assert main([*places, "cost", "--by", "model"]) == 0
    assert "sonnet 4.5" in capsys.readouterr().out
    assert {"opencode"} == {row["agent"] for row in rows}


def test_a_log_of_claude_is_of_claude(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text('{"type":"user","agent":"codex"}\n')
    assert agent_of_log(str(tmp_path), str(log)) == "claude"
    assert agent_of_log(str(tmp_path), str(tmp_path / "none.jsonl")) == "claude"
    log.write_text('{"type":"foreign-source","agent":"nobody"}\n')
    assert agent_of_log(str(tmp_path), str(log)) == "unknown"
