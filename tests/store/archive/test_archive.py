"""The archive: nothing lost, nothing overwritten, every flipped bit found."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from recollect.errors import DamagedData, UsageError
from recollect.store.archive.archive import Archive
from recollect.store.archive.objects import ObjectStore, SeekableWriter
from recollect.store.archive.restore import put_back
from recollect.store.changes.journal import ChangeJournal
from tests.store.archive.kept_sessions import SESSION, added, lines, small_session

FLIPS = 10_000 if os.environ.get("RECOLLECT_TORTURE") else 150


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "archive")


def test_what_went_in_comes_out_byte_for_byte(tmp_path: Path, home: Path, archive: Archive) -> None:
    """All files of a session are restored exactly, to anywhere."""
    added(archive, home, small_session(home))
    put_back(archive, archive.find(SESSION[:8]), tmp_path / "elsewhere")
    assert tree(home) == tree(tmp_path / "elsewhere")
    assert [] == archive.verify()


def test_restored_files_have_the_present_time(home: Path, archive: Archive) -> None:
    """A client deletes by the time of the file; what was just brought back must not go at once."""
    files = small_session(home)
    os.utime(files[0], (1_000_000_000, 1_000_000_000))
    added(archive, home, files)
    for file in files:
        file.unlink()
    put_back(archive, archive.find(SESSION), home)
    assert files[0].stat().st_mtime > 1_700_000_000


def test_restoring_never_overwrites(home: Path, archive: Archive) -> None:
    """Where a file is there again, nothing is restored and nothing changed."""
    files = small_session(home)
    added(archive, home, files)
    files[-1].write_bytes(b"newer")
    before = tree(home)
    with pytest.raises(UsageError, match="already exists"):
        put_back(archive, archive.find(SESSION), home)
    assert before == tree(home)


def test_a_session_that_did_not_change_is_not_read_again(
    home: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adding it once more stores nothing."""
    files = small_session(home)
    added(archive, home, files)
    monkeypatch.setattr(ObjectStore, "store", lambda *_, **__: pytest.fail("it was stored again"))
    again = added(archive, home, files, at="2026-11-16T12:00:00+00:00")
    assert (False, False, 0) == (again.is_new, again.is_changed, again.new_bytes)


def test_only_new_frames_of_a_log_that_grew_are_compressed(
    home: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full frames are taken over as they are; the rest is compressed anew, and the old object goes."""
    files = small_session(home, log=lines(12_000))
    first = added(archive, home, files)
    compressed: list[int] = []
    original = SeekableWriter.add

    def noting(self: SeekableWriter, raw: bytes) -> None:
        compressed.append(len(raw))
        original(self, raw)

    monkeypatch.setattr(SeekableWriter, "add", noting)
    with files[0].open("ab") as log:
        log.write(lines(100, seed=9))
    second = added(archive, home, files)
    assert 1 == len(compressed)
    assert [second.manifest.log.stored.sha256] == [
        name for name in archive.objects.names() if name == second.manifest.log.stored.sha256
    ]
    assert first.manifest.log.stored.sha256 not in set(archive.objects.names())
    assert [] == archive.verify()
    assert () == second.manifest.earlier


def test_a_log_that_was_rewritten_is_kept_in_both_states(home: Path, archive: Archive) -> None:
    """What the present bytes do not begin with stays in the archive as an earlier state."""
    files = small_session(home)
    first = added(archive, home, files)
    files[0].write_bytes(lines(30, seed=77))
    second = added(archive, home, files)
    assert [first.manifest.log.stored] == [one.stored for one in second.manifest.earlier]
    assert [] == archive.verify()


def test_a_file_that_is_gone_from_the_home_stays_in_the_archive(home: Path, archive: Archive) -> None:
    """A deleted tool result is an earlier state, not a loss."""
    files = small_session(home)
    first = added(archive, home, files)
    files[2].unlink()
    second = added(archive, home, [file for file in files if file.exists()])
    assert [first.manifest.files[2].stored] == [one.stored for one in second.manifest.earlier]


def test_any_flipped_bit_is_found(home: Path, archive: Archive) -> None:
    """One bit, anywhere in objects or manifests: verify says so, every time."""
    added(archive, home, small_session(home))
    stored = [path for path in archive.root.rglob("*") if path.suffix in (".zst", ".json")]
    rng, missed = random.Random(4), []
    for _ in range(FLIPS):
        path = rng.choice(stored)
        data = path.read_bytes()
        place, bit = rng.randrange(len(data)), rng.randrange(8)
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
        if not archive.verify():
            missed.append((path.name, place, bit))
        path.write_bytes(data)
    assert [] == missed
    assert [] == archive.verify()


def test_a_damaged_copy_is_not_restored(tmp_path: Path, home: Path, archive: Archive) -> None:
    """Nothing appears in the target when an object is not what it was."""
    manifest = added(archive, home, small_session(home)).manifest
    path = archive.log_path(manifest)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedData):
        put_back(archive, manifest, tmp_path / "elsewhere")
    assert {} == tree(tmp_path / "elsewhere")


_STEPS = (
    "write_all",
    "sync_file",
    "sync_dir",
    "rename_over",
    "rename_new",
    "replace_file",
    "unlink",
    "make_directories",
    "create_new",
    "open_append",
)


def test_what_an_interrupted_addition_left_goes_with_the_next(home: Path, archive: Archive) -> None:
    """Half-written objects take no room for ever."""
    added(archive, home, small_session(home))
    left = archive.objects.root / ".0123456789abcdef.tmp"
    left.write_bytes(b"half")
    added(archive, home, small_session(home, log=lines(41)))
    assert not left.exists()


def test_a_restore_is_one_change_that_can_be_undone(tmp_path: Path, home: Path, archive: Archive) -> None:
    """Afterwards nothing of it is left, not even a directory."""
    added(archive, home, small_session(home))
    target = tmp_path / "elsewhere"
    target.mkdir()
    change = put_back(archive, archive.find(SESSION), target)
    ChangeJournal(archive.journal).undo(change.id)
    assert [] == list(target.iterdir())
