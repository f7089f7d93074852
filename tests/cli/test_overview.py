"""`recollect`: the first thing anybody sees."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main

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

    assert shown.startswith("No Claude home on this machine: looked for")
    assert "$CLAUDE_CONFIG_DIR" in shown
    assert "2 projects, 3 sessions, 1 sub-agent" in shown
    assert "Basket totals off by a cent" in shown


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


def test_hostile_titles_do_not_reach_the_terminal(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The escape sequence in a title is shown, not sent."""
    make_home(own_home / ".claude")
    main([])
    shown = capsys.readouterr().out

    assert "\\x1b[31mRed" in shown
    assert "\x1b" not in shown


def test_looking_changes_nothing(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file appears, grows or gets a new time, in the home or anywhere below HOME but our cache (H10)."""
    home = make_home(own_home / ".claude")

    def state() -> list[tuple[str, int, int]]:
        ours = own_home / "xdg-cache"
        paths = [home, *(path for path in sorted(own_home.rglob("*")) if ours not in (path, *path.parents))]
        return [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in paths]

    before = state()
    main(["overview", "--full"])

    assert "damage" in capsys.readouterr().out.lower()
    assert before == state()


def test_a_short_look_says_how_far_it_got(
    own_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the time is up the answer names its limits and the command that goes on."""
    make_home(own_home / ".claude")
    monkeypatch.setattr("recollect.cli.overview.LOOK_SECONDS", -1.0)
    main([])
    shown = capsys.readouterr().out

    assert "0 B of" in shown
    assert "recollect overview --full" in shown


def test_a_named_home_that_is_missing_is_told(
    monkeypatch: pytest.MonkeyPatch, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt $CLAUDE_CONFIG_DIR must not look like an empty machine."""
    make_home(own_home / "real")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{own_home / 'real'},{own_home / 'mistyped'}")
    main([])

    assert f"{own_home / 'mistyped'}  ($CLAUDE_CONFIG_DIR)  is not there" in capsys.readouterr().out


def test_an_unreadable_log_is_counted_not_fatal(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory in a log's place is passed over; everything else is still told."""
    home = make_home(own_home / ".claude")
    (home / "projects/-srv-app/8b1d9c1e-0000-4000-8000-000000000003.jsonl").mkdir()

    assert 2 == answer(capsys)["sessions"]
