"""Backups and restores: exact bytes out, and nothing ever written outside the directory that was chosen."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import NotFound, RecollectError, StorageError, UsageError
from recollect.model.files.events import backup_name
from recollect.model.files.history import FileVersion, VersionSource
from recollect.model.ids import SessionId
from recollect.storage.file_backups import (
    RestoredFile,
    backup_body,
    restore,
    store_backup,
    touched_files,
)
from recollect.storage.home import ClaudeHome, SessionFile
from recollect.system import openat

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


def version_of(content: str | bytes | None, **more: Any) -> FileVersion:
    return FileVersion(path="/w/a.txt", source=VersionSource.WRITE, content=content, **more)


def everything(root: Path) -> dict[str, bytes | str]:
    """All files and links below a directory."""
    return {
        str(path.relative_to(root)): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def the_session(home: ClaudeHome, session: str) -> SessionFile:
    return next(found for found in home.sessions() if found.id == session)


# ---- reading ---------------------------------------------------------------------------------------------


def test_a_real_backup_is_read_to_the_byte(shared: Path) -> None:
    """The checkpoint sample put "zero" aside."""
    home = ClaudeHome(shared / "samples/claude-home/2.1.325-print/.claude")

    assert b"zero\n" == backup_body(
        home, SessionId("878c14aa-7145-4517-9ac9-0552723c3cfd"), "f97bba5b094ff15e@v1"
    )


def test_a_real_session_has_its_versions_with_their_bytes(shared: Path) -> None:
    """Read from its log and its backups together."""
    home = ClaudeHome(shared / "samples/claude-home/2.0.76-interactive/.claude")

    versions = touched_files(home, the_session(home, "10b0a0f8-5bfe-44c5-90a5-aac215076487"))

    assert {"/tmp/demo/w-tui-2.0.76/main/a.txt": [None, "one\n", b"one\n", "two\n", b"two\n"]} == {
        path: [version.content for version in found] for path, found in versions.items()
    }


def test_one_body_can_be_fetched_when_it_is_wanted(shared: Path) -> None:
    """A listing opens no backup; the chosen version is completed afterwards."""
    home = ClaudeHome(shared / "samples/claude-home/2.0.76-interactive/.claude")
    session = the_session(home, "10b0a0f8-5bfe-44c5-90a5-aac215076487")
    (versions,) = touched_files(home, session, bodies=False).values()

    assert session.id is not None
    assert versions[-1].content is None
    assert b"two\n" == backup_body(home, session.id, versions[-1].backup_name or "")


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


def test_a_pipe_in_the_place_of_a_backup_is_refused_at_once(home: ClaudeHome) -> None:
    """Opening it must not wait for a writer."""
    directory = home.file_history_dir(S)
    directory.mkdir(parents=True)
    os.mkfifo(directory / NAME)

    with pytest.raises(StorageError, match="not a regular file"):
        backup_body(home, S, NAME)


def test_a_directory_in_the_place_of_a_backup_is_refused(home: ClaudeHome) -> None:
    """And no descriptor is left open by it."""
    (home.file_history_dir(S) / NAME).mkdir(parents=True)

    with pytest.raises(StorageError, match="not a regular file"):
        backup_body(home, S, NAME)


def test_what_we_put_aside_is_there_under_the_clients_name(home: ClaudeHome) -> None:
    """Bytes in, the same bytes out, for their owner alone."""
    backup = store_backup(home, S, "/w/a.txt", b"\0\xff", version=1, at=AT)

    assert (NAME, b"\0\xff") == (backup.name, backup_body(home, S, NAME))
    assert 0o600 == stat.S_IMODE((home.file_history_dir(S) / NAME).stat().st_mode)


# ---- restoring -------------------------------------------------------------------------------------------


def test_a_version_is_written_where_it_was_told(chosen: Path) -> None:
    """Missing directories are made; the bytes are the version's."""
    done = restore(version_of("caf\u00e9\n"), chosen, "src/deep/a.txt")

    assert RestoredFile(chosen / "src/deep/a.txt", None) == done
    assert {"src/deep/a.txt": "caf\u00e9\n".encode()} == everything(chosen)


@pytest.mark.parametrize(("path", "name"), [("/w/x/a.txt", "a.txt"), (r"D:\p\b.go", "b.go")])
def test_without_a_name_the_files_own_is_taken(chosen: Path, path: str, name: str) -> None:
    """The last part of its path, in the notation it came in."""
    restore(FileVersion(path=path, source=VersionSource.WRITE, content=b"x"), chosen)

    assert {name: b"x"} == everything(chosen)


def test_new_files_and_directories_follow_the_umask(chosen: Path) -> None:
    """They are a person's project files, not our secrets."""
    old = os.umask(0o027)
    try:
        path = restore(version_of("x"), chosen, "d/a.txt").path
    finally:
        os.umask(old)

    assert (0o640, 0o750) == tuple(stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent))


def test_a_file_that_stands_there_stays(chosen: Path) -> None:
    """Unless overwriting is asked for."""
    (chosen / "a.txt").write_bytes(b"mine")

    with pytest.raises(UsageError, match="it was not changed"):
        restore(version_of("x"), chosen, "a.txt")

    assert {"a.txt": b"mine"} == everything(chosen)


def test_an_overwritten_file_is_kept_beside_and_lends_its_mode(chosen: Path) -> None:
    """Twice: each time what stood there is handed back under a name of its own."""
    script = chosen / "a.txt"
    script.write_bytes(b"1")
    script.chmod(0o754)

    first = restore(version_of("2"), chosen, "a.txt", overwrite=True)
    second = restore(version_of("3"), chosen, "a.txt", overwrite=True)

    assert {"a.txt": b"3", "a.txt.before-restore": b"1", "a.txt.before-restore-2": b"2"} == everything(chosen)
    assert [chosen / "a.txt.before-restore", chosen / "a.txt.before-restore-2"] == [first.kept, second.kept]
    assert 0o754 == stat.S_IMODE(script.stat().st_mode)


def test_without_second_names_the_old_file_is_copied(chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems have no hard links."""

    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    restore(version_of("1"), chosen, "a.txt")
    restore(version_of("2"), chosen, "a.txt", overwrite=True)

    assert {"a.txt": b"2", "a.txt.before-restore": b"1"} == everything(chosen)


def test_a_failed_write_leaves_no_trace(chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when the bytes are synced: the old file stands, nothing else does."""
    (chosen / "a.txt").write_bytes(b"mine")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("recollect.system.fsops.sync_file", full)
    with pytest.raises(StorageError, match="No space left"):
        restore(version_of("x"), chosen, "a.txt", overwrite=True)

    assert {"a.txt": b"mine"} == everything(chosen)


def test_a_failed_rename_leaves_no_trace(chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the new bytes nor the second name of the old file are left behind."""
    (chosen / "a.txt").write_bytes(b"mine")

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(openat, "replace", refused)
    with pytest.raises(StorageError, match="Permission denied"):
        restore(version_of("x"), chosen, "a.txt", overwrite=True)

    assert {"a.txt": b"mine"} == everything(chosen)


def test_a_file_that_appears_at_the_last_moment_stays(chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody makes the file after we looked and before we publish ours."""
    create = openat.create_file

    def raced(above: int, name: str, data: bytes, mode: int | None = None) -> None:
        create(above, name, data, mode)
        (chosen / "a.txt").write_bytes(b"theirs")

    monkeypatch.setattr(openat, "create_file", raced)
    with pytest.raises(UsageError, match="it was not changed"):
        restore(version_of("x"), chosen, "a.txt")

    assert {"a.txt": b"theirs"} == everything(chosen)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (version_of(None, existed=False), "did not exist"),
        (version_of(None), "not recorded"),
        (FileVersion(path="/a", source=VersionSource.BACKUP, backup_name=NAME), "was not read"),
    ],
)
def test_what_is_not_known_is_not_restored(chosen: Path, version: FileVersion, reason: str) -> None:
    """No empty file stands in for a lost one, and nothing is deleted."""
    with pytest.raises(UsageError, match=reason):
        restore(version, chosen, "a.txt")

    assert {} == everything(chosen)


def test_the_chosen_directory_must_be_there(tmp_path: Path) -> None:
    """A misspelt directory is not made."""
    with pytest.raises(NotFound):
        restore(version_of("x"), tmp_path / "nowhere", "a.txt")

    assert {} == everything(tmp_path)


def test_the_chosen_directory_may_be_reached_through_a_link(chosen: Path, tmp_path: Path) -> None:
    """Where to write is its owner's choice."""
    (tmp_path / "way").symlink_to(chosen)

    restore(version_of("x"), tmp_path / "way", "a.txt")

    assert {"a.txt": b"x"} == everything(chosen)


HOSTILE = [
    "../a.txt", "..", ".", "", "/etc/passwd", "a/../../b", "a//b", "./a", "a/", "a/.", "/", "//x", "a\0b", "a/../b",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leads_out_of_the_chosen_directory(tmp_path: Path, chosen: Path, name: str) -> None:
    """Steps up, absolute paths, empty parts and NUL are refused before anything is opened."""
    with pytest.raises(UsageError):
        restore(version_of("x"), chosen, name)

    assert {} == everything(tmp_path)


Plant = Callable[[Path, Path], None]


def _link_for_file(chosen: Path, outside: Path) -> None:
    (chosen / "d").mkdir()
    (chosen / "d/a.txt").symlink_to(outside / "precious")


def _dangling_link(chosen: Path, outside: Path) -> None:
    (chosen / "d").mkdir()
    (chosen / "d/a.txt").symlink_to(outside / "not-yet")


def _link_for_directory(chosen: Path, outside: Path) -> None:
    (chosen / "d").symlink_to(outside)


def _chain_of_links(chosen: Path, outside: Path) -> None:
    (chosen / "hop").symlink_to(outside)
    (chosen / "d").symlink_to("hop")


def _file_for_directory(chosen: Path, _: Path) -> None:
    (chosen / "d").write_bytes(b"file")


def _directory_for_file(chosen: Path, _: Path) -> None:
    (chosen / "d/a.txt").mkdir(parents=True)


def _pipe_for_file(chosen: Path, _: Path) -> None:
    (chosen / "d").mkdir()
    os.mkfifo(chosen / "d/a.txt")


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "plant",
    [
        _link_for_file,
        _dangling_link,
        _link_for_directory,
        _chain_of_links,
        _file_for_directory,
        _directory_for_file,
        _pipe_for_file,
    ],
)
def test_nothing_is_written_through_what_was_planted(
    tmp_path: Path, chosen: Path, plant: Plant, overwrite: bool
) -> None:
    """Attack C02: links as the file, as its directory, in a row, dangling; and things that are no files."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious")
    plant(chosen, outside)
    before = everything(tmp_path)

    with pytest.raises(StorageError):
        restore(version_of("x"), chosen, "d/a.txt", overwrite=overwrite)

    assert before == everything(tmp_path)


def test_a_directory_swapped_for_a_link_meanwhile_leads_nowhere(tmp_path: Path, chosen: Path) -> None:
    """Attack C07: while we restore again and again, somebody swaps the directory and a link to outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (chosen / "d").mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for step in (
                lambda: (chosen / "d").rename(tmp_path / "aside"),
                lambda: (chosen / "d").symlink_to(outside),
                (chosen / "d").unlink,
                lambda: (tmp_path / "aside").rename(chosen / "d"),
            ):
                try:
                    step()
                except OSError:
                    shutil.rmtree(chosen / "d", ignore_errors=True)  # we made the directory in between

    attacker = threading.Thread(target=swap)
    attacker.start()
    refused = tries = 0
    while refused < 50 and tries < 20_000:
        tries += 1
        try:
            restore(version_of("x"), chosen, f"d/{tries}.txt")
        except RecollectError:
            refused += 1
    stop.set()
    attacker.join()

    assert ({}, 50) == (everything(outside), refused)


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "", "c d", "\u202e", "a\nb"]), min_size=1, max_size=4))
def test_every_accepted_name_stays_below_the_directory(parts: list[str]) -> None:
    """Whatever parts a name is made of, it is refused or each part is a plain name."""
    name = "/".join(parts)
    try:
        accepted: tuple[str, ...] = openat.components(name)
    except UsageError:
        accepted = ()

    expected = tuple(parts) if not {"", ".", ".."} & set(parts) else ()
    assert expected == accepted
