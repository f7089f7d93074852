"""Sessions of other agents on the page: what their commands refuse is not offered, and is refused by the server as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.cli.main import main
from recollect.web.desk import PageBackend
from recollect.web.health import SecretJob, health_document
from recollect.web.sessions import PageSessions
from tests.agents import tiny_homes
from tests.small_home import ONE, prompt, put, reply, said, state
from tests.surfaces.case import Case
from tests.surfaces.homes import made_unrecorded
from tests.web.pages import Browser, served

TINY = (tiny_homes.codex, tiny_homes.gemini_lines, tiny_homes.qwen, tiny_homes.opencode_database)
LONG_AGO = {"timestamp": "2026-01-05T09:00:00.000Z"}


@pytest.mark.parametrize("make", TINY)
@pytest.mark.parametrize("word", ["fork", "repair"])
def test_what_a_command_refuses_the_page_does_not_offer_and_the_server_refuses_alike(
    make: Any, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    make(home)
    with Browser(served(home, data)) as browser:
        for row in browser.get("/api/sessions")["sessions"]:
            head = browser.get(f"/api/sessions/{row['id']}")
            assert head["is_only_read"]
            assert word not in head["commands"]
            before = state(data / "agents")
            words = ["fork", row["id"]] if word == "fork" else ["doctor", row["id"], "--fix", "--apply"]
            main(["--home", str(home), "--data", str(data), *words])
            told = capsys.readouterr().err
            for body in ({}, {"apply": True}, {"in_place": True, "apply": True}):
                if word == "fork" and "in_place" in body:
                    continue
                answer = browser.ask("POST", f"/api/sessions/{row['id']}/{word}", body=body)
                assert answer.status_code == 400, answer.text
                assert json.loads(answer.text)["error"] in told
            assert state(data / "agents") == before
            assert browser.get(f"/api/sessions/{row['id']}/findings")["repair"] is None


def test_a_damaged_line_of_our_copy_is_told_without_a_repair(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    tiny_homes.codex(home)
    name = tiny_homes.CHANGED
    case = Case(home, tmp_path)
    case.document("list")
    with next((data / "agents").rglob(f"{name}.jsonl")).open("ab") as log:
        log.write(b'{"type":"user","uuid":"cut\n')
    with Browser(served(home, data)) as browser:
        found = browser.get(f"/api/sessions/{name}/findings")
    told = [*found["findings"], *case.document("doctor", name)["findings"]]
    assert [one["code"] for one in told] == ["invalid-json"] * 2
    assert [one["repair"] for one in told] == [None] * 2
    assert not [one["fix"] for one in told if "repair" in one["fix"]]


@pytest.mark.parametrize("make", TINY)
def test_what_changes_our_copy_only_works(make: Any, tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    make(home)
    with Browser(served(home, data)) as browser:
        name = browser.get("/api/sessions")["sessions"][0]["id"]
        for word, body in (
            ("rename", {"title": "Mine"}),
            ("tag", {"tag": "x"}),
            ("archive", {}),
            ("remove", {}),
        ):
            answer = browser.ask("POST", f"/api/sessions/{name}/{word}", body=body | {"apply": True})
            assert answer.status_code == 200, answer.text
            assert answer.json()["applied"]


def test_a_clean_up_is_offered_for_sessions_that_it_would_remove(tmp_path: Path) -> None:
    """Not for those of other agents: their clients keep them."""
    codex, claude, data = made_unrecorded(tmp_path / "codex"), tmp_path / "claude", tmp_path / "data"
    with Browser(served(codex, data)) as browser:
        old = browser.get("/api/health")["old"]
        planned = browser.ask("POST", "/api/cleanup", body={"days": 1}).json()
    assert (old["total"], old["bytes"], old["action"]) == (0, 0, None)
    assert (planned["total"], planned["sessions"]) == (0, [])

    put(claude, ONE, [prompt(1, None, "Q", **LONG_AGO), reply(2, 1, said("A")) | LONG_AGO])
    desk = PageBackend(Home(claude, codex, data=data), data=data, cache=data / "cache")
    assert len(desk.sessions()) == 2
    assert health_document(desk, PageSessions(desk), SecretJob(desk)).old.total == 1


def test_a_session_of_claude_can_be_forked_and_repaired(tmp_path: Path) -> None:
    home = tmp_path / "claude"
    put(home, ONE, [prompt(1, None, "Q"), reply(2, 1, said("A"))])
    with Browser(served(home, tmp_path / "data")) as browser:
        head = browser.get(f"/api/sessions/{ONE}")
        assert browser.ask("POST", f"/api/sessions/{ONE}/fork", body={}).status_code == 200
    assert not head["is_only_read"]
    assert "repair" in head["commands"]
