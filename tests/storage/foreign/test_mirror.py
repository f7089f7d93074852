"""The mirror itself: it writes nothing elsewhere, reads only what changed, and survives being stopped."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from recollect.errors import StorageError
from recollect.model.made_ids import derived_uuid
from recollect.storage.foreign import codex
from recollect.storage.foreign.growth import Unit
from recollect.storage.foreign.mirror import AgentMirror, dialect_of
from recollect.system import fsops
from tests.storage.foreign import tiny_homes
from tests.storage.foreign.samples import codex_samples, tree_state

TINY = {
    "codex": tiny_homes.codex,
    "gemini": tiny_homes.gemini_lines,
    "qwen": tiny_homes.qwen,
    "opencode": tiny_homes.opencode_database,
}


@pytest.fixture
def home(shared: Path, tmp_path: Path) -> Path:
    sample = next(one for one in codex_samples(shared) if one.name == "0.166.0/agents_v2")
    shutil.copytree(sample.home, tmp_path / "home")
    return tmp_path / "home"


def mirrored(home: Path, data: Path) -> AgentMirror:
    mirror = AgentMirror("codex", home, data)
    mirror.refresh()
    return mirror


def logs_of(mirror: AgentMirror) -> dict[str, bytes]:
    return {str(log.relative_to(mirror.root)): log.read_bytes() for log in mirror.root.rglob("*.jsonl")}


def test_nothing_is_written_into_the_foreign_home(home: Path, tmp_path: Path) -> None:
    before = tree_state(home)
    mirrored(home, tmp_path / "data")
    assert tree_state(home) == before


def test_an_unchanged_home_costs_a_look_at_its_files(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = mirrored(home, tmp_path / "data")
    before = tree_state(mirror.root)

    def refuse(*_: object) -> bytes:
        raise AssertionError("a file was read although nothing changed")

    monkeypatch.setattr(codex, "mirror", refuse)
    mirrored(home, tmp_path / "data")
    assert tree_state(mirror.root) == before


def test_a_pass_that_lost_its_state_adds_nothing(home: Path, tmp_path: Path) -> None:
    """Killed after the append and before the state was saved: the next pass finds its lines there already."""
    mirror = mirrored(home, tmp_path / "data")
    before = logs_of(mirror)
    (mirror.root / "state.msgpack").unlink()
    (mirror.root / "stamps.json").unlink()
    assert logs_of(mirrored(home, tmp_path / "data")) == before


def test_a_pass_that_wrote_half_writes_the_other_half(home: Path, tmp_path: Path) -> None:
    mirror = mirrored(home, tmp_path / "data")
    whole = logs_of(mirror)
    for name, data in whole.items():
        lines = data.splitlines(keepends=True)
        (mirror.root / name).write_bytes(b"".join(lines[: len(lines) // 2]))
    (mirror.root / "state.msgpack").unlink()
    (mirror.root / "stamps.json").unlink()
    assert logs_of(mirrored(home, tmp_path / "data")) == whole


def test_a_line_that_was_cut_off_is_written_whole(home: Path, tmp_path: Path) -> None:
    """The power failed in the middle of a line: it is neither lost nor glued to the next."""
    mirror = mirrored(home, tmp_path / "data")
    whole = logs_of(mirror)
    for name, data in whole.items():
        (mirror.root / name).write_bytes(data[: len(data) // 2])
    (mirror.root / "state.msgpack").unlink()
    (mirror.root / "stamps.json").unlink()
    assert logs_of(mirrored(home, tmp_path / "data")) == whole


@pytest.mark.parametrize("agent", ["codex", "gemini", "qwen", "opencode"])
def test_a_full_disk_names_our_own_file_and_loses_nothing(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault is not the home's: no file there is called unreadable, and the next pass has all of it."""
    home = tmp_path / "home"
    TINY[agent](home)
    expected = AgentMirror(agent, home, tmp_path / "undisturbed")
    expected.refresh()
    mirror = AgentMirror(agent, home, tmp_path / "data")

    def full(fd: int, data: bytes) -> None:
        os.write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(fsops, "write_all", full)
        with pytest.raises(StorageError) as refused:
            mirror.refresh()
    assert refused.value.path.is_relative_to(mirror.root)
    assert "No space left" in refused.value.message
    assert "free space on that disk" in str(refused.value.hint)
    assert "--data DIR" in str(refused.value.hint)
    assert not mirror.problems
    mirror.refresh()
    assert logs_of(mirror) == logs_of(expected)
    assert not mirror.problems


class Disk:
    """What a loss of power would leave: it notes what was synced when the state was saved, which is when it counts."""

    def __init__(self, root: Path, patched: pytest.MonkeyPatch, *, has_syncfs: bool) -> None:
        self.root, self._safe, self._names = root, dict[Path, int](), set[Path]()
        self.sync_calls, self.missing = 0, list[str]()
        data, directory, replace = fsops.sync_data, fsops.sync_dir, fsops.replace_file

        def sync_data(fd: int) -> None:
            self.sync_calls += 1
            self._safe[Path(os.readlink(f"/proc/self/fd/{fd}"))] = fsops.size_of(fd)
            data(fd)

        def sync_dir(path: Path) -> None:
            self._names.update(path.iterdir())
            directory(path)

        def sync_file_system(path: Path) -> bool:
            if has_syncfs:
                self.sync_calls += 1
                self._safe |= {log: log.stat().st_size for log in path.rglob("*.jsonl")}
                self._names.update(path.rglob("*"))
            return has_syncfs

        def replace_file(path: Path, content: bytes) -> None:
            if path.name == "state.msgpack":
                self.missing += self._not_safe(msgspec.msgpack.decode(content)["logs"])
            replace(path, content)

        for name, call in (
            ("sync_data", sync_data),
            ("sync_dir", sync_dir),
            ("sync_file_system", sync_file_system),
            ("replace_file", replace_file),
        ):
            patched.setattr(fsops, name, call)

    def _not_safe(self, claimed: dict[str, int]) -> Iterator[str]:
        for log, size in claimed.items():
            path = self.root / log
            above = [one for one in (path, *path.parents) if one.is_relative_to(self.root / "projects")]
            if self._safe.get(path) != size or not self._names.issuperset(above[:-1]):
                yield log


@pytest.mark.parametrize("has_syncfs", [True, False], ids=["syncfs", "one by one"])
@pytest.mark.parametrize("count", [2, 100])
def test_the_state_never_says_more_than_a_loss_of_power_would_leave(
    count: int, has_syncfs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All logs of a pass and their names are synced before it: many with their file system, few one by one."""
    rollout = tiny_homes.codex(tmp_path / "home")
    for number in range(count - 2):
        name = derived_uuid("thread", number)
        own = rollout.with_name(rollout.name.replace(tiny_homes.CHANGED, name))
        own.write_text(rollout.read_text().replace(tiny_homes.CHANGED, name))
    mirror = AgentMirror("codex", tmp_path / "home", tmp_path / "data")
    disk = Disk(mirror.root, monkeypatch, has_syncfs=has_syncfs)
    mirror.refresh()
    assert len(logs_of(mirror)) == count
    assert not disk.missing
    assert disk.sync_calls == (1 if has_syncfs and count > 16 else count)


def test_what_a_killed_pass_left_unsynced_is_synced_by_the_next(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It adds nothing to those logs, and yet says that they are there."""
    mirror = mirrored(home, tmp_path / "data")
    for name in ("state.msgpack", "stamps.json"):
        (mirror.root / name).unlink()
    disk = Disk(mirror.root, monkeypatch, has_syncfs=False)
    mirror.refresh()
    assert not disk.missing
    assert disk.sync_calls == len(logs_of(mirror))


def test_a_failed_sync_saves_no_state(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = AgentMirror("codex", home, tmp_path / "data")

    def failing(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(fsops, "sync_data", failing)
        with pytest.raises(StorageError, match="Input/output error") as refused:
            mirror.refresh()
    assert refused.value.path.suffix == ".jsonl"
    assert not (mirror.root / "state.msgpack").exists()
    mirror.refresh()
    assert (mirror.root / "state.msgpack").exists()


def test_what_the_client_deletes_stays_in_the_mirror(home: Path, tmp_path: Path) -> None:
    before = logs_of(mirrored(home, tmp_path / "data"))
    shutil.rmtree(home / "sessions")
    (home / "sessions" / "2026").mkdir(parents=True)
    assert logs_of(mirrored(home, tmp_path / "data")) == before


def test_a_log_that_was_moved_away_is_whole_again_when_its_client_goes_on(home: Path, tmp_path: Path) -> None:
    """A session in the trash stays there until there is something new; then nothing of it is missing."""
    mirror = mirrored(home, tmp_path / "data")
    (log,) = (mirror.root / "projects").glob("*/*.jsonl")
    log.unlink()
    mirrored(home, tmp_path / "data")
    assert not log.exists()
    rollout = min((home / "sessions").rglob("rollout-*.jsonl"))
    with rollout.open("a") as file:
        file.write(
            '{"timestamp":"2026-11-16T10:00:00.000Z","type":"event_msg","payload":{"type":"turn_aborted","reason":"x"}}\n'
        )
    mirrored(home, tmp_path / "data")
    assert logs_of(mirror) == logs_of(mirrored(home, tmp_path / "fresh"))


def test_a_torn_last_line_waits_for_its_end(home: Path, tmp_path: Path) -> None:
    rollout = max((home / "sessions").rglob("rollout-*.jsonl"))
    whole = rollout.read_bytes()
    rollout.write_bytes(whole[:-40])
    torn = logs_of(mirrored(home, tmp_path / "data"))
    rollout.write_bytes(whole)
    assert sum(map(len, logs_of(mirrored(home, tmp_path / "data")).values())) > sum(map(len, torn.values()))
    fresh = logs_of(mirrored(home, tmp_path / "fresh"))
    assert logs_of(mirrored(home, tmp_path / "data")) == fresh


def test_a_torn_line_that_nobody_finished_is_kept_as_it_is(home: Path, tmp_path: Path) -> None:
    rollout = max((home / "sessions").rglob("rollout-*.jsonl"))
    rollout.write_bytes(rollout.read_bytes()[:-40])
    os.utime(rollout, (1_700_000_000, 1_700_000_000))
    mirror = mirrored(home, tmp_path / "data")
    lines = [json.loads(line) for data in logs_of(mirror).values() for line in data.splitlines()]
    assert rollout.read_bytes().splitlines()[-1].decode() in {line.get("original") for line in lines}


@pytest.mark.parametrize("agent", ["codex", "gemini", "qwen"])
def test_a_torn_line_is_taken_a_minute_later_although_its_file_did_not_change(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it waits; only its file is read again, and after that none is."""
    file = TINY[agent](tmp_path / "home")
    with file.open("ab") as log:
        log.write(b'{"torn')
    mirror = AgentMirror(agent, tmp_path / "home", tmp_path / "data")
    mirror.refresh()

    def is_taken() -> bool:
        return any(b'"original":"{\\"torn"' in data for data in logs_of(mirror).values())

    dialect, read = dialect_of(agent), list[Path]()
    translate = dialect.mirror

    def noting(unit: Unit, saved: bytes | None, into: AgentMirror) -> bytes:
        read.append(unit.path)
        return translate(unit, saved, into)

    monkeypatch.setattr(dialect, "mirror", noting)
    mirror.refresh()
    assert not is_taken()
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    mirror.refresh()
    assert is_taken()
    assert set(read) == {file}
    read.clear()
    mirror.refresh()
    assert not read


def test_mirrors_are_private(home: Path, tmp_path: Path) -> None:
    mirror = mirrored(home, tmp_path / "data")
    for path in mirror.root.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
