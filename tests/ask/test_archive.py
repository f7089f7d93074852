"""Keeping sessions: what belongs to one, what the client is about to delete, the way there and back."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import pytest

from recollect.ask import archive as keep
from recollect.ask.library import Home
from recollect.ask.protection import expiring
from recollect.store.archive.archive import Archive
from tests import small_home

NOW = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a session that has files in every directory a session may have."""
    root = tmp_path / "home"
    log = root / "projects" / "-srv-app" / f"{small_home.ONE}.jsonl"
    lines = [small_home.prompt(1, None, "Hello", slug="calm-blue-fox"), small_home.prompt(2, 1, "Again")]
    _write(log, "".join(json.dumps(line) + "\n" for line in lines))
    _write(root / "projects" / "-srv-app" / small_home.ONE / "subagents" / "agent-a1.jsonl", "{}\n")
    _write(root / "projects" / "-srv-app" / small_home.ONE / "tool-results" / "b1.txt", "output")
    _write(root / "file-history" / small_home.ONE / "abc@v1", "old")
    _write(root / "tasks" / small_home.ONE / "1.json", "{}")
    _write(root / "todos" / f"{small_home.ONE}-agent-{small_home.ONE}.json", "[]")
    _write(root / "plans" / "calm-blue-fox.md", "# Plan")
    _write(root / "plans" / "another-plan.md", "# Not this one")
    return root


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def archived(tmp_path: Path, home: Path) -> Archive:
    archive = keep.archive_at(tmp_path / "data")
    keep.add_all(archive, list(Home(home).sessions()), NOW)
    return archive


def test_everything_of_a_session_goes_in(tmp_path: Path, home: Path) -> None:
    """Log, agent, tool output, file backups, tasks, todos and the plan its entries name; not another's plan."""
    manifest = archived(tmp_path, home).find(small_home.ONE)
    one = small_home.ONE
    assert {
        f"projects/-srv-app/{one}.jsonl",
        f"projects/-srv-app/{one}/subagents/agent-a1.jsonl",
        f"projects/-srv-app/{one}/tool-results/b1.txt",
        f"file-history/{one}/abc@v1",
        f"tasks/{one}/1.json",
        f"todos/{one}-agent-{one}.json",
        "plans/calm-blue-fox.md",
    } == {file.path for file in manifest.files}
    assert f"projects/-srv-app/{one}.jsonl" == manifest.files[0].path


def test_an_archived_session_is_read_where_it_lies(tmp_path: Path, home: Path) -> None:
    """A session that is gone from the home is found by name and shows its conversation."""
    archived(tmp_path, home)
    (home / "projects" / "-srv-app" / f"{small_home.ONE}.jsonl").unlink()
    session = Home(home, data=tmp_path / "data").session(small_home.ONE[:6])
    assert ["Hello", "Again"] == [message.text for message in session.conversation().messages]
    assert ["a1"] == [str(agent.agent_id) for agent in session.agents()]


@pytest.mark.parametrize(
    ("settings", "days_old", "expected"),
    [
        (None, 24, 1),  # 30 - 24 = 6 days left
        (None, 22, 0),
        ('{"cleanupPeriodDays": 365}', 24, 0),
        ('{"cleanupPeriodDays": 365}', 360, 1),
        ("{ not json", 24, 1),  # the client ignores the file and goes by its default
    ],
)
def test_what_expires_is_said_by_the_clients_own_rule(
    tmp_path: Path, home: Path, settings: str | None, days_old: int, expected: int
) -> None:
    """By the time of the file and cleanupPeriodDays, thirty days where nothing is set."""
    if settings is not None:
        (home / "settings.json").write_text(settings)
    stamp = (NOW - dt.timedelta(days=days_old)).timestamp()
    os.utime(home / "projects" / "-srv-app" / f"{small_home.ONE}.jsonl", (stamp, stamp))
    found = expiring(Home(home).homes, tmp_path / "data", NOW, days=7)
    assert expected == len(found)


def test_an_expiring_session_says_whether_it_is_archived(tmp_path: Path, home: Path) -> None:
    """Archived means: as it is now. One that grew since is not."""
    log = home / "projects" / "-srv-app" / f"{small_home.ONE}.jsonl"
    archive = archived(tmp_path, home)
    assert [True] == [
        one.is_archived for one in expiring(Home(home).homes, archive.root.parent, NOW, days=60)
    ]
    with log.open("a") as more:
        more.write("{}\n")
    assert [False] == [
        one.is_archived for one in expiring(Home(home).homes, archive.root.parent, NOW, days=60)
    ]
