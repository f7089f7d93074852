"""`recollect config`: what it shows, what it never shows, and the way back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.cli import main as program
from recollect.cli.main import main
from tests.small_home import ONE, TALK, put, state

SECRET = "sk-ant-never-to-be-printed"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, also where it is not in the table yet."""
    monkeypatch.setitem(
        program.COMMANDS, "config", ("recollect.cli.client", "check and restore config files")
    )


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


def test_check_says_what_the_client_would_do(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and the command that helps."""
    assert 1 == main(["config", "check"])
    shown = capsys.readouterr().out

    assert f"reset  {config}" in shown
    assert "the client would start with an empty one" in shown
    assert "recollect config restore" in shown


def test_check_of_sound_files_ends_with_0(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file is there, one is missing, none is a problem."""
    config.write_text("{}")
    assert 0 == main(["config", "check", "--json"])

    assert 0 == json.loads(capsys.readouterr().out)["problems"]


@pytest.mark.parametrize("more", [[], ["--json"], ["--apply"], ["--apply", "--json"]])
def test_values_are_never_printed(config: Path, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    """Nor anything that moves the cursor; the keys are named."""
    assert 0 == main(["config", "restore", *more])
    shown = capsys.readouterr()

    assert (False, False) == (SECRET in shown.out + shown.err, "\x1b[2J" in shown.out)
    assert "primaryApiKey" in shown.out


def test_the_plan_marks_secrets_and_writes_nothing(
    own_home: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how to go on."""
    before = state(own_home)
    assert 0 == main(["config", "restore"])
    shown = capsys.readouterr().out

    assert before == state(own_home)
    assert "added   primaryApiKey (secret)" in shown
    assert "recollect config restore --apply" in shown


def test_restored_and_undone_by_the_printed_command(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The torn bytes are back."""
    torn = config.read_bytes()
    assert 0 == main(["config", "restore", "--apply", "--json"])
    (undo,) = json.loads(capsys.readouterr().out)["undo"]
    restored = json.loads(config.read_bytes())["primaryApiKey"]
    assert 0 == main(undo.split()[1:])

    assert (SECRET, torn) == (restored, config.read_bytes())
