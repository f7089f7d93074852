"""`recollect protect tidy`, `recollect undo`, `recollect protect list`: room is made, nothing is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, TALK, TWO, lines, open_in_this_process, put, state


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """The JSON document a command printed."""
    assert code == main([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def files(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file with mode, time and bytes; directories are made anew where they were removed."""
    return {name: kept for name, kept in state(root).items() if (root / name).is_file()}


def aged(home: Path, session: str, year: int, **fields: Any) -> Path:
    """A session whose entries are of some year, in a file that was touched just now."""
    talk = [
        {**entry, "timestamp": f"{year}-01-01T10:00:0{at}.000Z", **fields} for at, entry in enumerate(TALK)
    ]
    return put(home, session, talk)


def test_age_is_what_the_entries_say(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that was touched today is old if its entries are; one with an old time is young if they are not."""
    home = own_home / ".claude"
    aged(home, ONE, 2020)
    young = aged(home, TWO, 2100)
    os.utime(young, (1_500_000_000, 1_500_000_000))
    found = answer(capsys, "protect", "tidy", "--older-than", "30d")
    assert [ONE] == [one["session"] for one in found["sessions"]]
    assert not found["applied"]


def test_what_goes_is_archived_first_and_comes_back(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Archived and in the trash; show still finds it; the printed undo restores every byte."""
    home = own_home / ".claude"
    aged(home, ONE, 2020)
    before = files(home)
    done = answer(capsys, "protect", "tidy", "--apply")
    archived = answer(capsys, "protect", "list")
    assert [ONE] == [one["id"] for one in archived["sessions"]]
    assert not list(home.rglob("*.jsonl"))
    shown = answer(capsys, "show", ONE)
    assert 4 == shown["total"]
    answer(capsys, *done["undo"].split()[1:])
    assert before == files(home)


@pytest.mark.parametrize("why", ["open", "hold", "no time"])
def test_some_sessions_always_stay(own_home: Path, capsys: pytest.CaptureFixture[str], why: str) -> None:
    """One a client has open, however long ago it was last written (H1); one on hold; one without a time."""
    home = own_home / ".claude"
    log = aged(home, ONE, 2020) if why != "no time" else put(home, ONE, [{"type": "mode", "mode": "normal"}])
    if why == "open":
        open_in_this_process(home, ONE)
    if why == "hold":
        with log.open("ab") as more:
            more.write(lines([{"type": "tag", "tag": "hold", "sessionId": ONE}]))
    before = log.read_bytes()
    done = answer(capsys, "protect", "tidy", "--older-than", "0d", "--apply")
    assert [None] != [one["kept_because"] for one in done["sessions"]]
    assert before == log.read_bytes()


def test_only_empty_directories_of_what_went_are_removed(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A neighbouring folder, and one that still holds something, are not touched (H9)."""
    home = own_home / ".claude"
    log = aged(home, ONE, 2020)
    (log.parent / "memory").mkdir()
    neighbour = home / "projects" / "-srv-app-two"
    neighbour.mkdir()
    done = answer(capsys, "protect", "tidy", "--apply")
    assert [str(log.parent)] == done["emptied"]
    assert neighbour.is_dir()


def test_notes_in_memory_keep_their_directory(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a client remembered of a project is not ours to remove."""
    home = own_home / ".claude"
    log = aged(home, ONE, 2020)
    (log.parent / "memory").mkdir()
    (log.parent / "memory" / "MEMORY.md").write_text("notes")
    assert [] == answer(capsys, "protect", "tidy", "--apply")["emptied"]
    assert "notes" == (log.parent / "memory" / "MEMORY.md").read_text()


def test_emptying_the_trash_needs_the_archive(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is in no archive stays unless it is asked for by name; what is archived can go for good."""
    home = own_home / ".claude"
    aged(home, ONE, 2020)
    aged(home, TWO, 2020)
    answer(capsys, "rm", ONE, "--apply")
    answer(capsys, "protect", "tidy", "--apply")
    plan = answer(capsys, "undo", "--purge", "--older-than", "0d")
    assert ([TWO], 1, False) == (
        [one["subject"] for one in plan["changes"]],
        len(plan["kept"]),
        plan["applied"],
    )
    answer(capsys, "undo", "--purge", "--older-than", "0d", "--apply")
    assert [ONE] == [one["subject"] for one in answer(capsys, "undo")["changes"]]
    answer(capsys, "undo", "--purge", "--older-than", "0d", "--not-archived", "--apply")
    assert [] == answer(capsys, "undo")["changes"]


def test_archived_sessions_stay_in_cost_and_search(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a clean-up the totals are the same and the words are still found."""
    aged(own_home / ".claude", ONE, 2020)
    before = answer(capsys, "cost")["totals"]
    answer(capsys, "protect", "tidy", "--apply")
    assert before == answer(capsys, "cost")["totals"]
    assert [ONE] == list({hit["session"] for hit in answer(capsys, "search", "A1")["hits"]})
