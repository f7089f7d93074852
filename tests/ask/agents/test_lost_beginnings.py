"""Forks of Codex that hold no copy of their history, and whose original is gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import recollect
from recollect.ask.sessions.originals import lost_beginning, refused_fork
from recollect.cli.main import main

PARENT = "01a1e396-2ff1-7f60-9f19-b33756b4e4c4"
FORK = "01a1e396-3432-72f2-a693-21e14133291f"


@pytest.fixture
def home(transcripts: Path, tmp_path: Path) -> Path:
    """A session and two forks of it, as Codex 0.166 wrote them."""
    copy = tmp_path / ".codex"
    shutil.copytree(transcripts / "dialects/samples/codex/0.166.0/exec_fork/.codex", copy)
    return copy


def parent_file(home: Path) -> Path:
    return next(home.rglob(f"rollout-*-{PARENT}.jsonl"))


def fork_in(home: Path) -> recollect.Session:
    return recollect.Home(home, data=home.parent / "data", index=False).session(FORK)


def said(home: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, "--home", str(home), "--data", str(home.parent / "data")]) == 0
    return capsys.readouterr().err


def shown(home: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, "--home", str(home), "--data", str(home.parent / "data")]) == 0
    return capsys.readouterr().out


def test_a_fork_whose_original_was_gone_first_says_where_its_beginning_is(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In every form that shows the conversation or writes it elsewhere; ``check`` has a finding for it."""
    file = parent_file(home)
    kept = file.read_bytes()
    file.unlink()
    gone = f"the beginning of this conversation is in session {PARENT}, which is gone"
    html = str(home.parent / "talk.html")
    for words in (
        *(("show", FORK), ("show", FORK, "--json"), ("show", FORK, "--api"), ("show", FORK, "--tree")),
        *(("export", FORK), ("export", FORK, "--format", "jsonl"), ("export", FORK, "--output", html)),
        ("export", FORK, "--to", "claude"),
    ):
        assert gone in said(home, capsys, *words), words
    listing = shown(home, capsys, "list")
    assert [line.endswith("codex  beginning lost") for line in listing.splitlines()] == [True, True]
    rows = json.loads(shown(home, capsys, "list", "--json"))["sessions"]
    assert [row["lost_beginning"] for row in rows] == [PARENT, PARENT]
    report = recollect.Home(home, data=home.parent / "data", index=False).check()
    assert report.summary.by_code == {"lost-beginning": 2}
    assert all(PARENT in finding.what for finding in report.findings)
    file.write_bytes(kept)
    assert "beginning" not in said(home, capsys, "show", FORK)
    rows = json.loads(shown(home, capsys, "list", "--json"))["sessions"]
    assert [row["lost_beginning"] for row in rows] == [None] * len(rows)
    assert "beginning" not in shown(home, capsys, "list")
    report = recollect.Home(home, data=home.parent / "data", index=False).check()
    assert report.summary.by_code == {}


def test_a_fork_with_its_history_lacks_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also when its original is deleted later."""
    assert lost_beginning(fork_in(home)) is None
    assert refused_fork(fork_in(home)) is None
    parent_file(home).unlink()
    assert lost_beginning(fork_in(home)) is None
    assert "beginning" not in said(home, capsys, "show", FORK)


@pytest.mark.parametrize("is_mirrored", [True, False])
def test_codex_is_said_to_refuse_a_fork_whose_original_is_gone(home: Path, is_mirrored: bool) -> None:
    """The way back is the mirror's copy of the original, where there is one."""
    if is_mirrored:
        fork_in(home)
    parent_file(home).unlink()
    refused = refused_fork(fork_in(home)) or ""
    assert f"it goes on from session {PARENT}, whose file is gone" in refused
    assert (f"recollect export {PARENT} --format original" in refused) == is_mirrored
    assert f"recollect export {FORK} --to claude" in refused


@pytest.mark.parametrize("place", ["archived_sessions", "sessions"])
def test_an_original_that_the_client_moved_is_found(home: Path, place: str) -> None:
    """It may be archived, or lie in the directory of another day."""
    file = parent_file(home)
    (home / place).mkdir(exist_ok=True)
    file.rename(home / place / file.name)
    assert refused_fork(fork_in(home)) is None


def test_a_fork_from_before_the_first_record_lacks_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It goes on from a session of which it takes nothing; that one may be gone."""
    fork = next(home.rglob(f"rollout-*-{FORK}.jsonl"))
    lines = fork.read_text().splitlines(keepends=True)
    meta = json.loads(lines[0])
    meta["payload"]["history_base"]["end_ordinal_exclusive"] = 0
    fork.write_text("".join([f"{json.dumps(meta)}\n", *lines[1:]]))
    parent_file(home).unlink()
    assert "beginning" not in said(home, capsys, "show", FORK)
    assert lost_beginning(fork_in(home)) is None
