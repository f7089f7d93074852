"""A removed session is gone from the home and comes back byte for byte."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.change import undo
from recollect.change.keeping import remove
from recollect.errors import Busy, DamagedData, StorageError, UsageError
from recollect.store.trash import trash_at
from recollect.system import fsops
from tests.small_home import ONE, TALK, TWO, lines, open_in_this_process, prompt, put, state

AGENT = prompt(9, None, "agent")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which one session has left something everywhere, and another session that must stay."""
    root = tmp_path / "home"
    log = put(root, ONE, TALK)
    put(root, TWO, TALK)
    put(root, "agent-abc1234", []).write_bytes(lines([AGENT]))
    for name in (
        f"projects/-srv-app/{ONE}/subagents/agent-a1.jsonl",
        f"projects/-srv-app/{ONE}/tool-results/x.txt",
        f"file-history/{ONE}/0123456789abcdef@v1",
        f"tasks/{ONE}/1.json",
        f"todos/{ONE}-agent-{ONE}.json",
        f"todos/{ONE}-agent-b2.json",
        f"file-history/{TWO}/0123456789abcdef@v1",
        f"todos/{TWO}-agent-{TWO}.json",
        "history.jsonl",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
        (root / name).chmod(0o640)
    (root / "session-env" / ONE).mkdir(parents=True)
    days_ago = time.time_ns() - 5 * 86_400 * 10**9
    os.utime(log, ns=(days_ago, days_ago + 7))
    return root


def data(home: Path) -> Path:
    return home.parent / "data"


def removed(home: Path) -> str:
    return remove(Home(home).session(ONE), data(home)).batch


def restored(home: Path, batch: str) -> None:
    """Bring back what a removal took away."""
    undo.undo(data(home), undo.found_change(data(home), batch))


def test_nothing_with_its_id_is_left(home: Path) -> None:
    """Log, side files, both layouts of agents, backups, tasks, todos, environment; the other session stays."""
    kept = {
        name: seen for name, seen in state(home).items() if ONE not in name and "agent-abc1234" not in name
    }
    removed(home)

    assert kept == state(home)


def test_what_the_next_clean_up_would_delete_comes_back_with_the_present_time(home: Path) -> None:
    """A log as old as the client keeps one, and what lies beside it; a younger one keeps its time."""
    old, log = (
        time.time_ns() - 25 * 86_400 * 10**9,
        home / "projects/-srv-app" / f"{ONE}.jsonl",
    )
    for path in (log, home / "tasks" / ONE):
        os.utime(path, ns=(old, old))
    task = (home / "tasks" / ONE / "1.json").stat().st_mtime_ns
    begun = time.time_ns() - 10**9
    restored(home, removed(home))

    assert log.stat().st_mtime_ns > begun
    assert (home / "tasks" / ONE).stat().st_mtime_ns > begun
    assert task == (home / "tasks" / ONE / "1.json").stat().st_mtime_ns


def test_the_manifest_says_what_is_in_the_trash(home: Path) -> None:
    """Original paths, sizes and hashes; the hash is that of the bytes (sha256sum of a known file)."""
    (home / "tasks" / ONE / "1.json").write_bytes(b"abc")
    batch = trash_at(data(home)).find(removed(home))
    task = next(file for file in batch.files if file.path == f"tasks/{ONE}/1.json")

    assert (3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == (task.size, task.sha256)
    assert (ONE, "Q1", str(home)) == (batch.session, batch.title, batch.home)
    assert home / "projects/-srv-app" / f"{ONE}.jsonl" == batch.targets()[0]


def test_bytes_kept_and_set_aside_are_the_bytes_before(home: Path) -> None:
    """Law 3, counted."""
    before = sum(len(seen[2]) for seen in state(home).values())
    batch = trash_at(data(home)).find(removed(home))

    assert before == batch.bytes + sum(len(seen[2]) for seen in state(home).values())


def test_an_open_session_is_refused(home: Path) -> None:
    """The client would go on writing; exit 5, and nothing moves."""
    open_in_this_process(home, ONE)
    before = state(home)
    with pytest.raises(Busy, match=f"process {os.getpid()}") as refusal:
        removed(home)

    assert (5, before) == (refusal.value.exit_code, state(home))


def test_what_stands_in_the_way_is_not_overwritten(home: Path) -> None:
    """A client that made the session anew keeps its file, and the trash keeps ours."""
    batch = removed(home)
    put(home, ONE, TALK[:1])
    before = state(home.parent)
    with pytest.raises(UsageError, match="exists again"):
        restored(home, batch)

    after = {name: seen for name, seen in state(home.parent).items() if "locks" not in name}
    assert {name: seen for name, seen in before.items() if "locks" not in name} == after


def test_a_changed_file_in_the_trash_is_told(home: Path) -> None:
    """Bytes that are not those of the manifest are not passed off as the session."""
    batch = removed(home)
    (data(home) / "trash" / batch / "files" / "tasks" / ONE / "1.json").write_text("forged")
    with pytest.raises(DamagedData, match="was changed in the trash"):
        restored(home, batch)


def test_a_manifest_cannot_lead_out_of_the_home(home: Path) -> None:
    """A path with ``..`` in it is refused before anything moves."""
    batch = removed(home)
    manifest = data(home) / "trash" / batch / "manifest.json"
    manifest.write_text(manifest.read_text().replace(f'"tasks/{ONE}"', '"../outside"'))
    with pytest.raises(UsageError, match=r"'\.\.'"):
        restored(home, batch)


def put_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trash and the home are on different disks: no rename leads from one to the other."""
    rename = fsops.rename_new

    def far(source: Path, target: Path) -> None:
        if ("/trash/" in str(source)) != ("/trash/" in str(target)):
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(source), None, str(target))
        rename(source, target)

    monkeypatch.setattr(fsops, "rename_new", far)


class TestAnotherFileSystem:
    """Where a rename is impossible the session is copied, compared, and only then removed."""

    @pytest.fixture(autouse=True)
    def far_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The trash and the home are on different disks."""

        put_far_apart(monkeypatch)

    def test_it_goes_and_comes_back_the_same(self, home: Path) -> None:
        """Bytes, modes and times, a link among the files included."""
        (home / "projects/-srv-app" / ONE / "link").symlink_to("/nowhere")
        before = state(home)
        batch = removed(home)
        gone = not any(ONE in name for name in state(home))
        restored(home, batch)

        assert (True, before) == (gone, state(home))

    def test_an_original_that_grows_meanwhile_stays(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The client's new line is not lost: nothing is removed and the copy is thrown away."""
        log = home / "projects/-srv-app" / f"{ONE}.jsonl"
        sync = fsops.sync_file

        def growing(fd: int) -> None:
            sync(fd)
            with log.open("ab") as file:
                file.write(b"{}\n")

        before = log.read_bytes()
        monkeypatch.setattr(fsops, "sync_file", growing)
        with pytest.raises(Busy, match="nothing was changed"):
            removed(home)

        assert log.read_bytes().startswith(before + b"{}\n")
        assert [] == trash_at(data(home)).batches()

    def test_a_full_trash_disk_loses_nothing(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The copy fails, the originals stay."""
        before = state(home)

        def full(fd: int, data: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        write = fsops.write_all

        def full_later(fd: int, data: bytes) -> None:
            (full if b"uuid" in data else write)(fd, data)

        monkeypatch.setattr(fsops, "write_all", full_later)
        with pytest.raises(StorageError, match="No space left"):
            removed(home)

        assert before == state(home)


def test_a_session_that_is_written_to_meanwhile_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that shows no marker goes on with it: refused, and the new line is in the log."""
    rename = fsops.rename_new
    log = home / "projects/-srv-app" / f"{ONE}.jsonl"

    def late(source: Path, target: Path) -> None:
        if source == log and log.exists():
            with log.open("ab") as file:
                file.write(b'{"type":"mode"}\n')
        rename(source, target)

    monkeypatch.setattr(fsops, "rename_new", late)
    with pytest.raises(Busy, match="nothing was changed"):
        removed(home)

    assert log.read_bytes().endswith(b'{"type":"mode"}\n')
    assert [] == trash_at(data(home)).batches()


def test_a_line_in_a_side_file_moves_along(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The manifest is brought up to date with what lies in the trash, so that the restore still works."""
    rename = fsops.rename_new
    agent = home / "projects/-srv-app" / ONE / "subagents" / "agent-a1.jsonl"

    def late(source: Path, target: Path) -> None:
        if source == agent.parents[1] and agent.exists():
            agent.write_bytes(b"longer than before, by some bytes\n" * 9)
        rename(source, target)

    monkeypatch.setattr(fsops, "rename_new", late)
    batch = removed(home)
    restored(home, batch)

    assert agent.read_bytes().startswith(b"longer")


@pytest.mark.parametrize("is_far", [False, True])
def test_a_removal_leaves_no_record_but_the_batch(
    home: Path, monkeypatch: pytest.MonkeyPatch, is_far: bool
) -> None:
    """`undo` lists it once, and after the restore not at all; nothing hidden is left in the home."""
    if is_far:
        put_far_apart(monkeypatch)
    batch = removed(home)
    listed = [one.id for one in undo.changes(data(home))]
    restored(home, batch)

    assert ([batch], []) == (listed, undo.changes(data(home)))
    assert [] == list(home.parent.rglob("*.recollect"))
