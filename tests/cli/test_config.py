"""`recollect rules restore`: what it shows, what it never shows, and the way back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, TALK, put, state

SECRET = "sk-ant-never-to-be-printed"


@pytest.fixture
def config(own_home: Path) -> Path:
    """A torn config with a backup that holds an API key and a server with a token."""
    put(own_home / ".claude", ONE, TALK)
    path = own_home / ".claude.json"
    path.write_text(f'{{"primaryApiKey": "{SECRET}"')
    backup = own_home / ".claude" / "backups" / ".claude.json.backup.1700000000000"
    backup.parent.mkdir()
    document: dict[str, Any] = {
        "primaryApiKey": SECRET,
        "mcpServers": {"x": {"command": "x", "env": {"TOKEN": SECRET}}},
        "projects": {"/srv/\x1b[2Japp": {"hasTrustDialogAccepted": True}},
    }
    backup.write_text(json.dumps(document))
    return path


def test_doctor_says_what_the_agent_would_do(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and the command that helps; a sound file is no finding."""
    assert 1 == main(["doctor", "--no-secrets"])
    shown = capsys.readouterr().out

    assert "unreadable-config" in shown
    assert "recollect rules restore" in shown
    config.write_text("{}")
    main(["doctor", "--no-secrets", "--code", "unreadable-config", "--json"])
    assert [] == json.loads(capsys.readouterr().out)["findings"]


@pytest.mark.parametrize("more", [[], ["--json"], ["--apply"], ["--apply", "--json"]])
def test_values_are_never_printed(config: Path, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    """Nor anything that moves the cursor; the keys are named."""
    assert 0 == main(["rules", "restore", *more])
    shown = capsys.readouterr()

    assert (False, False) == (SECRET in shown.out + shown.err, "\x1b[2J" in shown.out)
    assert "primaryApiKey" in shown.out


def test_the_plan_marks_secrets_and_writes_nothing(
    own_home: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how to go on."""
    before = state(own_home)
    assert 0 == main(["rules", "restore"])
    shown = capsys.readouterr().out

    assert before == state(own_home)
    assert "added   primaryApiKey (secret)" in shown
    assert "recollect rules restore --apply" in shown


def test_restored_and_undone_by_the_printed_command(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The torn bytes are back."""
    torn = config.read_bytes()
    assert 0 == main(["rules", "restore", "--apply", "--json"])
    (undo,) = json.loads(capsys.readouterr().out)["undo"]
    restored = json.loads(config.read_bytes())["primaryApiKey"]
    assert 0 == main(undo.split()[1:])

    assert (SECRET, torn) == (restored, config.read_bytes())
