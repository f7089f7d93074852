"""`recollect`: the first thing anybody sees."""

from __future__ import annotations

import json
import os
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.change.migrations.old_sessions import put_inline

TITLE = '{"type":"custom-title","customTitle":"%s","sessionId":"%s"}\n'
PROMPT = (
    '{"parentUuid":null,"type":"user","message":{"role":"user","content":"Hi"},"uuid":"u","cwd":"/srv/app",'
    '"sessionId":"%s","timestamp":"2026-11-15T10:00:00.000Z"}\n'
)
SESSION = "3f2a9c1e-0000-4000-8000-000000000001"
OTHER = "5b1d9c1e-0000-4000-8000-000000000002"


def make_home(root: Path) -> Path:
    """A home with two sessions, one damaged line and a hostile title."""
    project = root / "projects" / "-srv-app"
    project.mkdir(parents=True)
    (project / f"{SESSION}.jsonl").write_text(PROMPT % SESSION + TITLE % ("\\u001b[31mRed", SESSION))
    (project / f"{OTHER}.jsonl").write_text(PROMPT % OTHER + "{torn\n")
    agents = project / SESSION / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-a1.jsonl").write_text(PROMPT % SESSION)
    return root


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON document a command printed."""
    assert 0 == main([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_without_a_home_it_says_so_and_shows_the_sample(capsys: pytest.CaptureFixture[str]) -> None:
    """A newcomer sees where it looked, and what it would look like."""
    assert 0 == main([])
    shown = capsys.readouterr().out

    assert shown.startswith("No home of an agent on this machine: looked in")
    assert "$CLAUDE_CONFIG_DIR" in shown
    assert "2 projects, 3 sessions, 1 sub-agent" in shown
    assert "Basket totals off by a cent" in shown


def test_the_next_step_of_the_sample_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    """Other commands know the sample only by name: the step names it, and finds the session."""
    assert 0 == main([])
    told = capsys.readouterr().out
    step = shlex.split(told.partition("Next: recollect ")[2])

    assert ["--home", ":sample", "doctor"] == step[:3]
    assert 1 == main(step)


def test_it_counts_what_is_there(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Homes, projects, sessions, sub-agents, bytes, damage; the newest first."""
    home = make_home(own_home / ".claude")
    logs = list(home.rglob("*.jsonl"))
    os.utime(home / "projects/-srv-app" / f"{OTHER}.jsonl", (1, 1))
    document = answer(capsys)

    assert (False, 1, 2, 1) == (
        document["sample"],
        document["projects"],
        document["sessions"],
        document["agents"],
    )
    assert sum(log.stat().st_size for log in logs) == document["bytes"]
    assert [str(home)] == [one["path"] for one in document["homes"]]
    assert (1, {"invalid-json": 1}, True) == (
        document["damage"]["lines"],
        document["damage"]["by_code"],
        document["damage"]["complete"],
    )
    assert {SESSION, OTHER} == {one["id"] for one in document["newest"]}


def test_looking_changes_nothing(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file appears, grows or gets a new time, in the home or anywhere below HOME but our cache (H10)."""
    home = make_home(own_home / ".claude")

    def state() -> list[tuple[str, int, int]]:
        ours = own_home / "xdg-cache"
        paths = [home, *(path for path in sorted(own_home.rglob("*")) if ours not in (path, *path.parents))]
        return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths]

    before = state()
    main([])

    assert "damage" in capsys.readouterr().out.lower()
    assert before == state()


def test_an_unreadable_log_is_counted_not_fatal(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory in a log's place is passed over; everything else is still told."""
    home = make_home(own_home / ".claude")
    (home / "projects/-srv-app/8b1d9c1e-0000-4000-8000-000000000003.jsonl").mkdir()

    assert 2 == answer(capsys)["sessions"]


def aged(home: Path, session: str, days: float) -> Path:
    """Nothing was written to the session for so many days."""
    log = home / "projects/-srv-app" / f"{session}.jsonl"
    moment = time.time() - days * 86_400
    os.utime(log, (moment, moment))
    return log


def test_it_says_what_the_client_is_about_to_delete(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Untouched for 25 of 30 days: it goes within 7, and only the client has it. 20 days are no reason yet."""
    home = make_home(own_home / ".claude")
    aged(home, SESSION, 25)
    aged(home, OTHER, 20)
    found = answer(capsys)["expiring"]

    assert (7, 1, 1) == (found["within_days"], found["sessions"], found["not_archived"])
    main([])
    shown = capsys.readouterr().out
    assert "1 session expires within 7 days, 1 of them not archived" in shown
    assert "Next: recollect protect --apply" in shown


def test_what_is_archived_is_not_lost(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After `archive add` the sentence says so."""
    home = make_home(own_home / ".claude")
    aged(home, SESSION, 25)
    main(["protect", "now", SESSION])
    capsys.readouterr()
    found = answer(capsys)["expiring"]

    assert (1, 0) == (found["sessions"], found["not_archived"])


def test_findings_are_the_damage_seen_and_what_concerns_homes(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged line, a settings file the client would ignore, a session about to go.

    Only `check` tells that no message is lost with the line.
    """
    home = make_home(own_home / ".claude")
    home.chmod(0o700)
    aged(home, SESSION, 25)
    (home / "settings.json").write_text("{")
    document = answer(capsys)
    found = document["damage"]["findings"] + document["findings"]

    assert {"invalid-json", "ignored-settings", "expiring"} == {one["code"] for one in found}
    damaged = next(one for one in found if one["code"] == "invalid-json")
    assert ("warning", OTHER, "1 line", f"recollect doctor {OTHER[:8]}") == (
        damaged["severity"],
        damaged["session"],
        damaged["what"],
        damaged["fix"],
    )
    main(["doctor", "--no-secrets", "--json"])
    checked = {one["code"] for one in json.loads(capsys.readouterr().out)["findings"]}
    assert {"skipped-bytes", "ignored-settings", "expiring"} <= checked


def test_the_sample_is_nobodys_home(capsys: pytest.CaptureFixture[str]) -> None:
    """No client deletes anything in it, and its modes are those of the package: only its one damaged line is told."""
    document = answer(capsys)

    assert (0, ["invalid-json"], []) == (
        document["expiring"]["sessions"],
        [one["code"] for one in document["damage"]["findings"]],
        document["findings"],
    )


def test_sub_agents_inside_their_sessions_are_counted(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `list` counts them: clients of 1.0 wrote them into the log of the session."""
    put_inline(own_home / ".claude")

    assert 0 == main([])
    assert "1 session, 1 sub-agent," in capsys.readouterr().out
