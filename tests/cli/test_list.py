"""`recollect list`: which sessions there are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.cli.session_logs import OTHER, SESSION, SessionLog, drives_a_terminal, hostile, talk, text
from tests.small_home import ONE, prompt, put


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert 0 == main(["list", "--json", *arguments])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def two_sessions(home: Path) -> Path:
    """The first at ten o'clock with a sub-agent, the second, whose file is older, at half past."""
    log = talk().write(home)
    agents = log.with_suffix("") / "subagents"
    agents.mkdir(parents=True)
    SessionLog().prompt("k1", "Look", isSidechain=True).write(agents)
    (agents / "projects/-srv-app" / f"{SESSION}.jsonl").rename(agents / "agent-a1.jsonl")
    later = SessionLog(OTHER, "/srv/other", minute=30).prompt("v1", "Hello").answer("w1", text("Hi"))
    os.utime(later.write(home), (1, 1))
    return home


def test_it_gives_every_key_others_rely_on(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two answers of a million input tokens at three dollars; one sub-agent, counted, not listed."""
    home = two_sessions(own_home / ".claude")
    document = listed(capsys)
    first = next(one for one in document["sessions"] if one["id"] == SESSION)

    expected = {
        "id": SESSION,
        "agent": "claude",
        "project": "app",
        "cwd": "/srv/app",
        "title": "Why is it red?",
        "first_at": "2026-11-15T10:00:00Z",
        "last_at": "2026-11-15T10:00:30Z",
        "messages": 4,
        "bytes": (home / "projects/-srv-app" / f"{SESSION}.jsonl").stat().st_size,
        "agents": 1,
        "cost_usd": "6",
        "live": False,
        "tag": None,
        "responses": 2,
        "lines": 4,
        "damaged": 0,
        "branch": None,
        "known_cost_usd": "6",
        "unpriced": [],
        "is_archive_only": False,
        "models": ["claude-sonnet-4-5"],
        "input_tokens": 2_000_000,
        "copied_from": None,
        "path": str(home / "projects/-srv-app" / f"{SESSION}.jsonl"),
    }
    assert expected == {name: first[name] for name in expected}
    assert 2 == document["total"]


def test_newest_is_first_by_what_the_entries_say(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half past ten comes before ten, though its file has the older time (S11)."""
    two_sessions(own_home / ".claude")

    assert [OTHER, SESSION] == [one["id"] for one in listed(capsys)["sessions"]]


def test_a_model_without_a_price_makes_the_cost_unknown(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never 0 and never a guess: null, and the models are named (law 6)."""
    SessionLog().prompt("u", "Hi").answer("a", text("Yo"), model="unheard-of-1").write(own_home / ".claude")
    one = listed(capsys)["sessions"][0]

    assert (None, ["unheard-of-1"]) == (one["cost_usd"], one["unpriced"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-p", "other"], [OTHER]),
        (["-p", "/srv/app"], [SESSION]),
        (["--limit", "1"], [OTHER]),
        (["--since", "2026-11-16"], []),
        (["--until", "2026-11-13"], []),
        (["--since", "20261114", "--until", "2026-11-16"], [OTHER, SESSION]),
    ],
)
def test_it_can_be_narrowed(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: list[str]
) -> None:
    """By directory, by the name of one, by number, by time."""
    two_sessions(own_home / ".claude")

    assert expected == [one["id"] for one in listed(capsys, *arguments)["sessions"]]


def test_a_line_has_what_people_look_for(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Start of the id, title, directory, agents, tag."""
    home = two_sessions(own_home / ".claude")
    log = home / "projects/-srv-app" / f"{SESSION}.jsonl"
    log.write_text(log.read_text() + json.dumps({"type": "tag", "tag": "red", "sessionId": SESSION}) + "\n")

    assert 0 == main(["list", "-p", "app"])
    words = capsys.readouterr().out.split()

    assert ["3f2a9c1e", "Why", "/srv/app", "agent", "#red"] == [
        word for word in words if word in {"3f2a9c1e", "Why", "/srv/app", "agent", "#red"}
    ]


def test_what_is_not_shown_is_told(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shortened list says so, on stderr."""
    two_sessions(own_home / ".claude")
    main(["list", "--limit", "1"])

    assert "1 of 2 sessions; --all shows the others\n" == capsys.readouterr().err


def test_an_empty_home_is_told_where_was_looked(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No sessions is no failure."""
    (own_home / ".claude" / "projects").mkdir(parents=True)

    assert 0 == main(["list"])
    captured = capsys.readouterr()
    assert ("", True) == (captured.out, f"No sessions in {own_home / '.claude'}" in captured.err)


@pytest.mark.parametrize("arguments", [["--limit", "0"], ["--limit", "-3"], ["--since", "soon"]])
def test_wrong_use_is_a_usage_error(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Exit 2 and nothing on stdout."""
    talk().write(own_home / ".claude")

    assert 2 == main(["list", *arguments])
    assert "" == capsys.readouterr().out


def test_hostile_text_is_shown_not_sent(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """W4: nothing of one hundred payloads in title, tag and directory reaches the terminal."""
    hostile().write(own_home / ".claude")
    main(["list"])
    captured = capsys.readouterr()

    assert "\\x00" in captured.out
    assert [] == drives_a_terminal(captured.out + captured.err)


def repository_with_worktree(place: Path, home: Path) -> tuple[Path, Path]:
    """Two sessions: one in a repository, one in its worktree beside it."""
    root, worktree = place / "shop", place / "fix"
    gitdir = root / ".git" / "worktrees" / "fix"
    gitdir.mkdir(parents=True)
    worktree.mkdir()
    (gitdir / "commondir").write_text("../..\n")
    (worktree / ".git").write_text(f"gitdir: {gitdir}\n")
    SessionLog(SESSION, str(root)).prompt("u1", "In the repository").write(home)
    SessionLog(OTHER, str(worktree), minute=30).prompt("v1", "In the worktree").write(home)
    return root, worktree


def test_worktrees_of_one_repository_are_one_group(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each session names its repository; the group its directories."""
    root, worktree = repository_with_worktree(tmp_path, own_home / ".claude")
    document = listed(capsys, "--by", "repo")

    assert [(OTHER, str(root)), (SESSION, str(root))] == [
        (one["id"], one["repo"]) for one in document["sessions"]
    ]
    assert [{"repo": str(root), "sessions": 2, "directories": [str(worktree), str(root)]}] == document[
        "repositories"
    ]


def test_groups_have_a_heading(own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The repository, how many sessions, how many directories; its sessions below it."""
    root, _ = repository_with_worktree(tmp_path, own_home / ".claude")
    assert 0 == main(["list", "--by", "repo"])
    shown = capsys.readouterr().out.splitlines()

    assert f"{root}  (2 sessions, 2 directories)" == shown[0]
    assert [OTHER[:8], SESSION[:8]] == [line.split()[0] for line in shown[1:]]


def test_a_first_prompt_of_many_sessions_is_no_title(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next prompt is, on every surface; three sessions are not many, and without a next one there is no better."""
    home = own_home / ".claude"
    load = "load the rules of the project from rules.md and do what they say, always"
    goes_on = "This session is being continued from a previous conversation that ran out"
    names = [f"{number:08d}-0000-4000-8000-000000000001" for number in range(6)]
    for number, name in enumerate(names):
        at = 10 * number
        begin = load if number < 3 else goes_on
        lines = [prompt(at + 1, None, f"{begin} {number}"), prompt(at + 2, at + 1, f"Job {number}")]
        put(home, name, lines[:1] if number == 5 else lines)

    def titles() -> list[str]:
        assert 0 == main(["list", "--json"])
        rows = json.loads(capsys.readouterr().out)["sessions"]
        return [row["title"] for row in sorted(rows, key=lambda row: str(row["id"]))]

    assert [f"{load} {number}" for number in range(3)] == titles()[:3]
    assert ["Job 3", "Job 4"] == titles()[3:5]
    assert titles()[5].startswith("This session is being continued")
    put(home, ONE, [prompt(91, None, f"{load} 9"), prompt(92, 91, "Job 9")])

    assert ["Job 0", "Job 1", "Job 2"] == titles()[:3]
    assert 0 == main(["show", names[1]])
    assert "Job 1" in capsys.readouterr().out.splitlines()[0]
    assert 0 == main(["search", "rules", "Job"]), "no message has both"
    assert f"{names[0][:8]}  Job 0  " in capsys.readouterr().out
    assert 0 == main(["resume", "Job 2", "--json"])
    assert names[2] in capsys.readouterr().out
