"""Config files: what the client would ignore or reset, and restoring the global one from its copies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.change.settings.config_rescue import checked, planned_restore, restored
from recollect.errors import Busy, NotFound
from recollect.store.changes.journal import ChangeJournal
from recollect.store.home import ClaudeHome
from tests.small_home import ONE, open_in_this_process, state

TORN = b'{"numStartups": 3, "projects": {"/a"'
OLD: dict[str, Any] = {
    "numStartups": 1,
    "projects": {"/a": {"hasTrustDialogAccepted": True}},
    "mcpServers": {"x": {}},
}
NEW: dict[str, Any] = {"numStartups": 2, "projects": {"/b": {"hasTrustDialogAccepted": True}}}


@pytest.fixture
def home(tmp_path: Path) -> ClaudeHome:
    """A home with its config beside it: torn, with two backups and one set aside by the client."""
    root = tmp_path / "user" / ".claude"
    (root / "backups").mkdir(parents=True)
    config = root.parent / ".claude.json"
    config.write_bytes(TORN)
    put(root / "backups" / ".claude.json.backup.1700000000000", OLD)
    put(root.parent / ".claude.json.backup.1700000001000", NEW)
    (root.parent / ".claude.json.corrupted.1700000002000").write_bytes(b"")
    return ClaudeHome(root, config)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Our own directory."""
    return tmp_path / "data"


def put(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def config_of(home: ClaudeHome) -> Path:
    assert home.config_file is not None
    return home.config_file


def test_a_torn_config_is_said_to_be_reset(home: ClaudeHome) -> None:
    """Settings that are not there are no problem."""
    assert [("config", "reset"), ("settings", "missing")] == [
        (one.kind, one.verdict) for one in checked(home)
    ]


def test_settings_of_projects_are_looked_at_too(home: ClaudeHome, tmp_path: Path) -> None:
    """Those that are there, of the projects that the config names."""
    project = tmp_path / "project"
    put(config_of(home), {"projects": {str(project): {}, "/nowhere": {}, "relative": {}}})
    put(project / ".claude" / "settings.json", {"permissions": {"deny": ["Read(./x)"]}})
    put(project / ".claude" / "settings.local.json", {"cleanupPeriodDays": "30"})
    put(project / ".mcp.json", {"mcpServers": []})
    home.settings_file.write_text("{")

    assert [
        (".claude.json", "fine"),
        ("settings.json", "ignored"),
        ("settings.json", "fine"),
        ("settings.local.json", "ignored"),
        (".mcp.json", "ignored"),
    ] == [(one.path.name, one.verdict) for one in checked(home)]


def test_the_plan_names_copies_newest_first_and_keys(home: ClaudeHome, tmp_path: Path, data: Path) -> None:
    """Nothing is written."""
    before = state(tmp_path)
    plan = planned_restore(home)

    assert [
        (".claude.json.corrupted.1700000002000", "it is empty"),
        (".claude.json.backup.1700000001000", ""),
        (".claude.json.backup.1700000000000", ""),
    ] == [(copy.path.name, copy.problem) for copy in plan.copies]
    assert ".claude.json.backup.1700000001000" == plan.best.name
    assert [("numStartups",), ("projects",), ("mcpServers",)] == [change.path for change in plan.changes]
    assert (before, False) == (state(tmp_path), data.exists())


def test_a_torn_config_is_restored_from_all_copies(home: ClaudeHome, data: Path) -> None:
    """The newest copy's count, the projects of both, and no other file is touched."""
    root = home.root.parent
    others = {name: what for name, what in state(root).items() if name != ".claude.json"}
    restored(home, data)

    assert {
        "numStartups": 2,
        "projects": {**NEW["projects"], **OLD["projects"]},
        "mcpServers": {"x": {}},
    } == json.loads(config_of(home).read_bytes())
    assert others == {name: what for name, what in state(root).items() if name != ".claude.json"}


def test_a_config_that_is_gone_is_made_again(home: ClaudeHome, data: Path) -> None:
    """For its owner alone; undone, it is gone again."""
    config_of(home).unlink()
    done = restored(home, data)
    assert done is not None
    mode, startups = config_of(home).stat().st_mode & 0o777, json.loads(config_of(home).read_bytes())
    ChangeJournal(data / "undo").undo(done.id)

    assert (0o600, 2, False) == (mode, startups["numStartups"], config_of(home).exists())


def test_a_sound_config_gains_what_it_lost_and_keeps_what_it_says(home: ClaudeHome, data: Path) -> None:
    """As after a client started anew; an account of an older copy does not come back."""
    put(config_of(home), {"numStartups": 7, "projects": {"/b": {"hasTrustDialogAccepted": False}}})
    put(home.backups_dir / ".claude.json.backup.1700000003000", {"primaryApiKey": "sk-1"})
    restored(home, data)

    assert {
        "numStartups": 7,
        "projects": {"/b": {"hasTrustDialogAccepted": False}, "/a": {"hasTrustDialogAccepted": True}},
        "mcpServers": {"x": {}},
    } == json.loads(config_of(home).read_bytes())


def test_a_running_client_is_waited_for(home: ClaudeHome, data: Path) -> None:
    """It would write its own idea of the file over ours."""
    open_in_this_process(home.root, ONE)
    with pytest.raises(Busy):
        restored(home, data)

    assert TORN == config_of(home).read_bytes()


def test_without_any_sound_copy_there_is_nothing_to_restore(tmp_path: Path) -> None:
    """The error says so."""
    home = ClaudeHome(tmp_path, tmp_path / ".claude.json")
    config_of(home).write_bytes(TORN)
    with pytest.raises(NotFound, match="no copy of it can be read"):
        planned_restore(home)


def test_a_linked_config_stays_a_link(home: ClaudeHome, data: Path, tmp_path: Path) -> None:
    """People keep it with their other dot files; the file behind the link is restored."""
    real = tmp_path / "dotfiles" / "claude.json"
    real.parent.mkdir()
    config_of(home).rename(real)
    config_of(home).symlink_to(real)
    restored(home, data)

    assert (True, 2) == (config_of(home).is_symlink(), json.loads(real.read_bytes())["numStartups"])
