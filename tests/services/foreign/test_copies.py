"""Logs of other agents that were pulled, restored or imported say themselves whose they are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import recollect
from recollect.cli.main import main
from recollect.errors import UsageError
from recollect.services.foreign.unrecorded import agent_of_log
from recollect.services.resume import resumption
from tests.storage.foreign.tiny_homes import CHANGED, codex


def test_a_copy_of_a_mirrored_log_keeps_its_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codex(tmp_path / ".codex")
    session = recollect.Home(tmp_path / ".codex", data=tmp_path / "data", index=False).session(CHANGED)
    store = tmp_path / "store"
    shutil.copytree(session.home.root / "projects", store / "projects")
    copy = recollect.Home(store, data=tmp_path / "other", index=False).session(CHANGED)
    assert agent_of_log(str(store), str(copy.path)) == "codex"
    with pytest.raises(UsageError, match="a copy of a session of codex"):
        resumption(copy)
    places = ["--home", str(store), "--data", str(tmp_path / "other")]
    assert main([*places, "list"]) == 0
    assert capsys.readouterr().out.count("  codex") == 2
    assert main([*places, "cost", "--by", "client"]) == 0
    told = capsys.readouterr().out
    assert "codex" in told
    assert "claude" not in told


def test_a_log_of_claude_is_of_claude(tmp_path: Path) -> None:
    log = tmp_path / "a.jsonl"
    log.write_text('{"type":"user","agent":"codex"}\n')
    assert agent_of_log(str(tmp_path), str(log)) == "claude"
    assert agent_of_log(str(tmp_path), str(tmp_path / "none.jsonl")) == "claude"
    log.write_text('{"type":"foreign-source","agent":"nobody"}\n')
    assert agent_of_log(str(tmp_path), str(log)) == "unknown"
