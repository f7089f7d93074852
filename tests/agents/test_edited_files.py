"""A client's file that someone edits without changing its length is noticed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import recollect
from recollect.agents.mirror import AgentMirror
from recollect.ask.sessions.originals import original_files
from tests.agents import tiny_homes

MAKE: dict[str, Callable[[Path], Path]] = {
    "codex": tiny_homes.codex,
    "gemini": tiny_homes.gemini_lines,
    "qwen": tiny_homes.qwen,
}


class EditedHome:
    """A home of two sessions; tests change a prompt of the first."""

    def __init__(self, agent: str, place: Path) -> None:
        self.agent, self.home, self.data = agent, place / "home", place / "data"
        self.file = MAKE[agent](self.home)
        lines = self.file.read_bytes().splitlines(keepends=True)
        answered = next(at for at, line in enumerate(lines) if b"done 019a" in line)
        self.file.write_bytes(b"".join(lines[: answered + 1]))

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


@pytest.mark.parametrize("change", [in_place, replaced], ids=lambda one: one.__name__)
@pytest.mark.parametrize("agent", MAKE)
def test_an_edit_before_more_was_said_is_noticed(
    agent: str, change: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    case = EditedHome(agent, tmp_path)
    case.said()
    last = case.file.read_bytes().splitlines(keepends=True)[-1]
    change(case.file, case.file.read_bytes().replace(b"ask 019a", b"ask XXXX") + last)
    assert case.said() == case.fresh()
    assert case.original() == case.file.read_bytes()
