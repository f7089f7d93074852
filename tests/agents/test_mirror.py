"""The mirror itself: it writes nothing elsewhere, reads only what changed, and survives being stopped."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from recollect.agents import codex
from recollect.agents.growth import Unit
from recollect.agents.mirror import AgentMirror, dialect_of
from recollect.errors import StorageError
from recollect.model.lines.ids import derived_uuid
from recollect.system import fsops
from tests.agents import tiny_homes
from tests.agents.samples import codex_samples, tree_state
from tests.made_corpora import make_agents
from tests.needs import MADE_AND_REAL, TRANSCRIPTS

TINY = {
    "codex": tiny_homes.codex,
    "gemini": tiny_homes.gemini_lines,
    "qwen": tiny_homes.qwen,
    "opencode": tiny_homes.opencode_database,
}


@pytest.fixture(params=MADE_AND_REAL)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Sessions of Codex of our own making; a real one with sub-agents."""
    if request.param == "made":
        return make_agents(tmp_path).homes["codex"]
    sample = next(one for one in codex_samples(TRANSCRIPTS) if one.name == "0.166.0/agents_v2")
    shutil.copytree(sample.home, tmp_path / "home")
    return tmp_path / "home"


def mirrored(home: Path, data: Path) -> AgentMirror:
    mirror = AgentMirror("codex", home, data)
    mirror.refresh()
    return mirror


def logs_of(mirror: AgentMirror) -> dict[str, bytes]:
    return {str(log.relative_to(mirror.root)): log.read_bytes() for log in mirror.root.rglob("*.jsonl")}


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


@pytest.mark.parametrize("share", [1, 0.5, 0.37])
def test_a_pass_that_lost_its_state_adds_only_what_is_missing(
    home: Path, tmp_path: Path, share: float
) -> None:
    """Whatever of the logs is there, also where one ends within a line."""
    mirror = mirrored(home, tmp_path / "data")
    whole = logs_of(mirror)
    for name, data in whole.items():
        (mirror.root / name).write_bytes(data[: int(len(data) * share)])
    for name in ("state.msgpack", "stamps.json"):
        (mirror.root / name).unlink()
    assert logs_of(mirrored(home, tmp_path / "data")) == whole


def test_a_full_disk_names_our_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is not the home's: no file there is called unreadable. That nothing is lost: test_interrupted_passes.py."""
    tiny_homes.codex(tmp_path / "home")
    mirror = AgentMirror("codex", tmp_path / "home", tmp_path / "data")

    def full(fd: int, data: bytes) -> None:
        os.write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(fsops, "write_all", full)
    with pytest.raises(StorageError, match="No space left") as refused:
        mirror.refresh()
    assert refused.value.path.is_relative_to(mirror.root)
    assert "free space on that disk" in str(refused.value.hint)
    assert "--data DIR" in str(refused.value.hint)
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
    log = min((mirror.root / "projects").glob("*/*.jsonl"))
    log.unlink()
    mirrored(home, tmp_path / "data")
    assert not log.exists()
    (rollout,) = (home / "sessions").rglob(f"rollout-*{log.stem}.jsonl")
    with rollout.open("a") as file:
        file.write(
            '{"timestamp":"2026-11-16T10:00:00.000Z","type":"event_msg","payload":{"type":"turn_aborted","reason":"x"}}\n'
        )
    mirrored(home, tmp_path / "data")
    assert logs_of(mirror) == logs_of(mirrored(home, tmp_path / "fresh"))


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

    def noting(unit: Unit, state: object, into: AgentMirror) -> None:
        read.append(unit.path)
        translate(unit, state, into)

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
