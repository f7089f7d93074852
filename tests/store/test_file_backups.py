"""Backups: exact bytes out."""

from __future__ import annotations

import datetime as dt
import json
import stat
from pathlib import Path

import pytest

from recollect.errors import NotFound, StorageError, UsageError
from recollect.model.files.history import backup_name
from recollect.model.lines.ids import SessionId
from recollect.store.file_backups import (
    backup_body,
    store_backup,
    touched_files,
)
from recollect.store.home import ClaudeHome, SessionFile

S = SessionId("11111111-2222-4333-8444-555555555555")
AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
NAME = backup_name("/w/a.txt", 1)


@pytest.fixture
def home(tmp_path: Path) -> ClaudeHome:
    root = tmp_path / "home"
    root.mkdir()
    return ClaudeHome(root)


@pytest.fixture
def chosen(tmp_path: Path) -> Path:
    """The directory a user named."""
    directory = tmp_path / "chosen"
    directory.mkdir()
    return directory


def the_session(home: ClaudeHome, session: str) -> SessionFile:
    return next(found for found in home.sessions() if found.id == session)


# ---- reading ---------------------------------------------------------------------------------------------


def test_a_real_backup_is_read_to_the_byte(transcripts: Path) -> None:
    """The checkpoint sample put "zero" aside."""
    home = ClaudeHome(transcripts / "samples/claude-home/2.1.325-print/.claude")

    assert b"zero\n" == backup_body(
        home, SessionId("878c14aa-7145-4517-9ac9-0552723c3cfd"), "f97bba5b094ff15e@v1"
    )


def test_a_real_session_has_its_versions_with_their_bytes(transcripts: Path) -> None:
    """Read from its log and its backups together."""
    home = ClaudeHome(transcripts / "samples/claude-home/2.0.76-interactive/.claude")

    versions = touched_files(home, the_session(home, "10b0a0f8-5bfe-44c5-90a5-aac215076487"))

    assert {"/tmp/demo/w-tui-2.0.76/main/a.txt": [None, "one\n", b"one\n", "two\n", b"two\n"]} == {
        path: [version.content for version in found] for path, found in versions.items()
    }


def wrote(text: str, second: int) -> bytes:
    rich = {"type": "update", "filePath": "/w/a.txt", "content": text}
    block = {"type": "tool_result", "tool_use_id": f"t{second}", "content": "ok"}
    return json.dumps(
        {"type": "user", "uuid": f"u{second}", "timestamp": f"2026-01-01T00:00:0{second}.000Z", "cwd": "/w",
         "sessionId": S, "message": {"role": "user", "content": [block]}, "toolUseResult": rich}
    ).encode() + b"\n"  # fmt: skip


def test_what_sub_agents_changed_stands_between_what_the_session_changed(home: ClaudeHome) -> None:
    """Two logs, one file: each keeps its order, and their times weave them together."""
    agents = home.projects_dir / "-w" / S / "subagents"
    agents.mkdir(parents=True)
    (home.projects_dir / "-w" / f"{S}.jsonl").write_bytes(wrote("1", 1) + b"{torn\n" + wrote("4", 4))
    (agents / "agent-a1.jsonl").write_bytes(wrote("2", 2) + wrote("3", 3))

    versions = touched_files(home, the_session(home, S))

    assert ["1", "2", "3", "4"] == [version.content for version in versions["/w/a.txt"]]


def test_a_backup_that_is_gone_is_not_found(home: ClaudeHome) -> None:
    """The client cleans up after itself."""
    with pytest.raises(NotFound):
        backup_body(home, S, NAME)


def test_a_session_whose_backups_are_gone_or_strange_is_still_told(home: ClaudeHome) -> None:
    """A name that no client gives is noted and never opened; the version stays without content."""
    tracked = {
        "a.txt": {"backupFileName": "../../x@v1", "version": 1},
        "b.txt": {"backupFileName": NAME, "version": 1},
    }
    line = {
        "type": "file-history-snapshot",
        "messageId": "m",
        "snapshot": {"messageId": "m", "trackedFileBackups": tracked},
    }
    project = home.projects_dir / "-w"
    project.mkdir(parents=True)
    (project / f"{S}.jsonl").write_bytes(json.dumps(line).encode() + b"\n")

    versions = touched_files(home, the_session(home, S))

    assert {"a.txt": [None], "b.txt": [None]} == {
        path: [v.content for v in found] for path, found in versions.items()
    }
    assert 1 == len(home.problems)


@pytest.mark.parametrize("name", ["../x@v1", "a/b@v1", "", "x", "..@v1", "a@v", "a@v1\n", "a@v1234567890"])
def test_only_names_a_client_makes_are_looked_for(home: ClaudeHome, name: str) -> None:
    """A name from a transcript is a wish."""
    with pytest.raises(UsageError):
        backup_body(home, S, name)


@pytest.mark.parametrize("linked", ["file", "session", "directory"])
def test_no_link_is_followed_to_a_backup(home: ClaudeHome, tmp_path: Path, linked: str) -> None:
    """Wherever on the way it stands."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / S).mkdir(parents=True)
    (elsewhere / S / NAME).write_bytes(b"secret")
    top = home.root / "file-history"
    if linked == "directory":
        top.symlink_to(elsewhere)
    elif linked == "session":
        top.mkdir()
        (top / S).symlink_to(elsewhere / S)
    else:
        (top / S).mkdir(parents=True)
        (top / S / NAME).symlink_to(elsewhere / S / NAME)

    with pytest.raises(StorageError, match="not followed"):
        backup_body(home, S, NAME)


def test_what_we_put_aside_is_there_under_the_clients_name(home: ClaudeHome) -> None:
    """Bytes in, the same bytes out, for their owner alone."""
    backup = store_backup(home, S, "/w/a.txt", b"\0\xff", version=1, at=AT)

    assert (NAME, b"\0\xff") == (backup.name, backup_body(home, S, NAME))
    assert 0o600 == stat.S_IMODE((home.file_history_dir(S) / NAME).stat().st_mode)
