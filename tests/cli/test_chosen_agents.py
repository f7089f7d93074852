"""`--agent` and directories of sessions that were pulled or restored: each session says itself whose it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.agents import tiny_homes
from tests.cli.session_logs import SESSION, SessionLog

READING = ("list", "cost", "search done", "", "report", "doctor --no-secrets", "export @last")


@pytest.fixture
def store(own_home: Path) -> Path:
    """Two sessions of Codex in a directory that is no mirror, as `sync pull` and `archive restore --to` leave them."""
    (own_home / ".claude").mkdir()
    tiny_homes.codex(own_home / ".codex")
    assert main(["protect", "now"]) == 0
    store = own_home / "store"
    for session in (tiny_homes.CHANGED, tiny_homes.UNTOUCHED):
        assert main(["protect", "restore", session, "--to", str(store), "--apply"]) == 0
    return store


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> set[str]:
    capsys.readouterr()
    assert main([*words, "list", "--all", "--json"]) == 0
    return {one["id"] for one in json.loads(capsys.readouterr().out)["sessions"]}


def test_a_directory_counts_by_whose_its_sessions_are(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = {tiny_homes.CHANGED, tiny_homes.UNTOUCHED}
    assert listed(capsys, "--home", str(store), "--agent", "codex") == both
    assert listed(capsys, "--home", str(store), "--agent", "codex,claude") == both
    for command in READING:
        assert main(["--home", str(store), "--agent", "codex", *command.split()]) in (0, 1), command
        assert main(["--home", str(store), "--agent", "claude", *command.split()]) == 3, command
    assert "no home of claude was found" in capsys.readouterr().err


@pytest.mark.parametrize("agent", ["codex", "claude"])
@pytest.mark.parametrize("command", READING)
def test_a_directory_with_sessions_of_several_agents_is_refused_with_what_to_do(
    store: Path, capsys: pytest.CaptureFixture[str], command: str, agent: str
) -> None:
    SessionLog().prompt("k1", "Why is it red?").write(store)
    assert main(["--home", str(store), "--agent", agent, *command.split()]) == 2
    told = capsys.readouterr().err
    assert f"{store}: holds sessions of claude and codex, and --agent chooses whole homes" in told
    assert "cost --by client" in told
    assert SESSION in listed(capsys, "--home", str(store), "--agent", "claude,codex")


def test_what_only_the_archive_has_counts_too(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SessionLog().prompt("k1", "Why is it red?").write(store)
    assert main(["--home", str(store), "protect", "now", SESSION]) == 0
    next(store.rglob(f"{SESSION}.jsonl")).unlink()
    assert main(["--home", str(store), "--agent", "codex", "list"]) == 2
    shutil.rmtree(store / "projects")
    (store / "projects").mkdir()
    assert listed(capsys, "--home", str(store), "--agent", "claude") == {SESSION}
