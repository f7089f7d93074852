"""A client's file that someone edits without changing its length is noticed, and an append costs no more than before."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import recollect
from recollect.services.foreign.originals import original_files
from recollect.storage.foreign import growth
from recollect.storage.foreign.mirror import AgentMirror
from tests.storage.foreign import tiny_homes
from tests.storage.foreign.test_renewal import old_code

MAKE: dict[str, Callable[[Path], Path]] = {
    "codex": tiny_homes.codex,
    "gemini": tiny_homes.gemini_lines,
    "qwen": tiny_homes.qwen,
}
FILL = 60_000  # more than is read of the beginning and the end


class EditedHome:
    """A home whose first session has a long prompt; tests change the middle of it."""

    def __init__(self, agent: str, place: Path) -> None:
        self.agent, self.home, self.data = agent, place / "home", place / "data"
        self.file = MAKE[agent](self.home)
        lines = self.file.read_bytes().splitlines(keepends=True)
        answered = next(at for at, line in enumerate(lines) if b"done 019a" in line)
        fill = b"x" * FILL
        data = b"".join(lines[: answered + 1])
        self.file.write_bytes(data.replace(b"ask 019a", fill + b"ask 019a" + fill))

    def said(self) -> list[str]:
        AgentMirror(self.agent, self.home, self.data).refresh()
        home = recollect.Home(self.home, data=self.data, index=False)
        session = home.session(tiny_homes.CHANGED)
        return [message.text for message in session.conversation().messages]

    def fresh(self) -> list[str]:
        data, self.data = self.data, self.data.with_name("fresh")
        shutil.rmtree(self.data, ignore_errors=True)
        try:
            return self.said()
        finally:
            self.data = data

    def logs(self) -> dict[str, bytes]:
        return {log.name: log.read_bytes() for log in self.data.rglob("projects/**/*.jsonl")}

    def original(self) -> bytes:
        session = recollect.Home(self.home, data=self.data, index=False).session(tiny_homes.CHANGED)
        return original_files(session)[self.file.relative_to(self.home).as_posix()]


def in_place(file: Path, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.write(data)


def replaced(file: Path, data: bytes) -> None:
    other = file.with_name("other")
    other.write_bytes(data)
    other.rename(file)


def replaced_with_its_time(file: Path, data: bytes) -> None:
    """As a sync tool does."""
    at = file.stat()
    replaced(file, data)
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))


def replaced_by_an_older_one(file: Path, data: bytes) -> None:
    in_place(file, data)
    os.utime(file, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize(
    "change",
    [in_place, replaced, replaced_with_its_time, replaced_by_an_older_one],
    ids=lambda one: one.__name__,
)
@pytest.mark.parametrize("agent", MAKE)
def test_an_edit_of_the_same_length_is_noticed(
    agent: str, change: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    """The conversation is what the file says now; what it said before stays as a branch."""
    case = EditedHome(agent, tmp_path)
    assert any("ask 019a" in text for text in case.said())
    edited = case.file.read_bytes().replace(b"ask 019a", b"ask XXXX")
    change(case.file, edited)
    after = case.said()
    assert after == case.fresh()
    assert any("ask XXXX" in text for text in after)
    assert case.original() == edited
    assert any(b"ask 019a" in log for log in case.logs().values())
    before = case.logs()
    os.utime(case.file)
    assert case.said() == after
    assert case.logs() == before


@pytest.mark.parametrize("agent", MAKE)
def test_an_edit_before_more_was_said_is_noticed_where_the_file_is_another(
    agent: str, tmp_path: Path
) -> None:
    case = EditedHome(agent, tmp_path)
    case.said()
    last = case.file.read_bytes().splitlines(keepends=True)[-1]
    replaced(case.file, case.file.read_bytes().replace(b"ask 019a", b"ask XXXX") + last)
    assert case.said() == case.fresh()
    assert case.original() == case.file.read_bytes()


@pytest.mark.parametrize("agent", MAKE)
def test_an_edit_in_place_before_more_was_said_is_noticed_at_the_next_change_without_growth(
    agent: str, tmp_path: Path
) -> None:
    case = EditedHome(agent, tmp_path)
    case.said()
    whole = case.file.read_bytes()
    in_place(case.file, whole.replace(b"ask 019a", b"ask XXXX") + whole.splitlines(keepends=True)[-1])
    is_seen = any("ask XXXX" in text for text in case.said())
    assert is_seen == (agent == "gemini")  # which folds the whole file each time
    os.utime(case.file)
    assert case.said() == case.fresh()
    assert case.original() == case.file.read_bytes()


class NotedReads(io.BytesIO):
    """A file that notes how much of it was read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        NotedReads.count += len(found)
        return found

    def readlines(self, hint: int | None = -1, /) -> list[bytes]:
        found = super().readlines(-1 if hint is None else hint)
        NotedReads.count += sum(map(len, found))
        return found


@pytest.mark.parametrize("agent", ["codex", "qwen"])  # Gemini folds the whole file each time
def test_an_append_reads_the_ends_and_what_is_new(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = EditedHome(agent, tmp_path)
    case.said()
    last = case.file.read_bytes().splitlines(keepends=True)[-1]
    with case.file.open("ab") as opened:
        opened.write(last)
    monkeypatch.setattr(growth, "open_regular", lambda path: NotedReads(path.read_bytes()))
    NotedReads.count = 0
    AgentMirror(agent, case.home, case.data).refresh()
    names = 200  # what Codex calls its sessions stands in a file of its own
    assert 0 < NotedReads.count <= 2 * (4096 + 256) + len(last) + names


def test_a_state_without_a_checksum_is_taken_as_it_is_and_has_one_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mirrors of before: nothing is read again as a new generation, and later edits are noticed."""
    case = EditedHome("codex", tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(growth, "_checked", lambda *_: None)
        case.said()
    before = case.logs()
    os.utime(case.file)
    case.said()
    assert case.logs() == before
    in_place(case.file, case.file.read_bytes().replace(b"ask 019a", b"ask XXXX"))
    assert case.said() == case.fresh()


def test_an_edited_file_is_translated_again_with_both_its_states(tmp_path: Path) -> None:
    """What a mirror holds of it differs in the middle only, and has one time."""
    case = EditedHome("codex", tmp_path)

    def both(name: str) -> dict[str, bytes]:
        case.data = tmp_path / name
        for text in (b"ask 019a", b"ask XXXX"):
            data = case.file.read_bytes().replace(b"ask XXXX", b"ask 019a")
            in_place(case.file, data.replace(b"ask 019a", text))
            case.said()
        return case.logs()

    with old_code():
        old = both("data")
    new = both("fresh")
    assert new != old
    case.data = tmp_path / "data"
    case.said()
    assert case.logs() == new
